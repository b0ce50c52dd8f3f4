import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { JsonNumber, parseJson, stringifyJson } from "../lib/json";
import { stored } from "../pages/data/value";
import { decodeCount, decodeDatasets, decodeDetail, decodeSchema } from "./datasets";
import { problem } from "./error";
import { beside, decodeFound, decodePage } from "./rows";

// What the server's own tests say that it answers.
const folder = join(import.meta.dirname, "../../../viewer-api/testdata/answers");
const golden = (name: string) => parseJson(readFileSync(join(folder, name), "utf8"));

test.runIf(existsSync(folder))("the server's answers are read", () => {
  const datasets = decodeDatasets(golden("datasets.json"));
  expect(datasets.length).toBeGreaterThan(0);
  const detail = decodeDetail(golden("dataset.json"));
  expect(datasets.map((d) => d.name)).toContain(detail.dataset.name);
  expect(detail.dataset.batches).toBe(detail.batches.length);
  expect(detail.layers.map((l) => l.annotator)).toEqual(detail.dataset.annotators);
  expect(decodeSchema(golden("schema.json")).some((c) => c.annotator === "lang")).toBe(true);
  expect(decodeSchema(golden("schema.json")).every((c) => c.name !== "")).toBe(true);
  expect(decodeCount(golden("count.json")).count).toBeGreaterThan(0);
  expect(problem(404, golden("not-found.json"), null).detail).not.toBe("");
  expect(problem(400, golden("bad-request.json"), null).detail).not.toBe("");
});

test.runIf(existsSync(folder)).each(["data.json", "data-newest.json", "data-columns.json"])("%s is read", (name) => {
  const page = decodePage(golden(name));
  expect(page.columns.length).toBeGreaterThan(0);
  expect(page.rows.length).toBeGreaterThan(0);
  expect(page.prev).not.toBeNull();
  const text = readFileSync(join(folder, name), "utf8");
  for (const row of page.rows) {
    expect(row.batch).not.toBe("");
    expect(row.live).toBe(true);
    const values = new Map(row.values);
    values.delete("_batch");
    expect(JSON.stringify(JSON.parse(text))).toContain(JSON.stringify(JSON.parse(stringifyJson(values))).slice(0, -1));
    for (const v of values.values()) if (v instanceof JsonNumber) expect(text).toContain(`:${v.literal},`);
  }
});

test.runIf(existsSync(folder)).each(["row.json", "row-of-batch.json"])("%s is read", (name) => {
  expect(decodeFound(golden(name)).row.id).not.toBe("");
});

test.runIf(existsSync(folder))("a row is read with its annotations", () => {
  const found = decodeFound(golden("row-of-batch.json"));
  const note = found.annotations.get("lang");
  expect(note?.live).toBe(true);
  expect(note?.createdAt?.toISOString()).toBe("2026-11-30T06:01:00.000Z");
  expect(stringifyJson(note?.metadata ?? null)).toBe('{"cost_usd":0.001}');
  const wide = beside(found);
  expect(wide.values.get("lang.code")).toBe("en");
  expect(stored(wide, ["lang"])).toEqual(stored(found.row));
  expect(stored(wide, ["la"]).has("lang.code")).toBe(true);
});
