import { expect, test } from "vitest";
import { decodePage } from "../../api/rows";
import { parseJson } from "../../lib/json";
import { allColumns, defaultColumns, groupColumns, layOut, typeWords } from "./columns";

const page = decodePage(
  parseJson(`{"columns":["id","_created_at","term","text","chars","ok","meta","__proto__","none"],"rows":[
    {"id":"a","_batch":"b","_created_at":"2026-11-24T14:02:11Z","term":"varve","text":"${"long ".repeat(60)}","chars":9007199254740993,"ok":true,"meta":{"a":1},"__proto__":"x"},
    {"id":"b","_batch":"b","term":"silt","text":"cut","_silt_clipped":{"text":23894},"chars":1.0,"ok":null,"meta":[1],"none":null}
  ],"next_cursor":null,"prev_cursor":"p","live_rows":2,"took_ms":1,"bytes_read":2}`),
);

test("columns of all rows come first, and show where they say something", () => {
  expect(allColumns(page.columns).slice(0, 4)).toEqual(["_created_at", "id", "_batch", "term"]);
  expect(defaultColumns(page.columns, 1)[1]).toBe("term");
  expect(defaultColumns(page.columns, 2)[1]).toBe("_batch");
  expect(
    defaultColumns(
      Array.from({ length: 200 }, (_, i) => `c${i}`),
      1,
    ),
  ).toHaveLength(24);
});

test("a column's kind is that of most of its values", () => {
  const kinds = layOut(page.columns, page.rows).map((c) => `${c.name} ${c.kind}`);
  expect(kinds).toEqual([
    "id id",
    "_created_at time",
    "term label",
    "text text",
    "chars number",
    "ok boolean",
    "meta json",
    "__proto__ label",
    "none label",
  ]);
  expect(
    layOut(page.columns, page.rows)
      .filter((c) => c.flex)
      .map((c) => c.name),
  ).toEqual(["text"]);
});

test("columns of layers come last, by annotator, and show as well", () => {
  const answer = ["id", "shape.words", "a.b", "text", "lang.code", "shape.chars"];
  const annotators = ["lang", "shape"];
  const all = allColumns(answer, annotators);
  expect(all).toEqual(["_created_at", "id", "_batch", "a.b", "text", "lang.code", "shape.words", "shape.chars"]);
  const many = Array.from({ length: 200 }, (_, i) => `c${i}`);
  expect(defaultColumns([...many, "lang.code"], 1, annotators)).toHaveLength(25);
  expect(layOut(all, [], annotators).map((c) => c.annotator)).toEqual([
    ...[null, null, null, null, null],
    "lang",
    "shape",
    "shape",
  ]);
});

test("the picker has a group for the rows and one for each annotator", () => {
  const schema = [
    { name: "text", types: ["string"], annotator: null },
    { name: "lang.code", types: ["string"], annotator: "lang" },
    { name: "lang._metadata", types: ["object"], annotator: "lang" },
  ];
  const layers = [{ annotator: "lang", share: 0.5, liveRows: 0 }];
  const groups = groupColumns(allColumns(["text", "shape.words"], ["shape"]), schema, layers, ["shape"]);
  expect(groups.map((g) => [g.annotator, g.columns])).toEqual([
    [null, ["_created_at", "id", "_batch", "text"]],
    ["lang", ["lang.code"]],
    ["shape", ["shape.words"]],
  ]);
  expect(typeWords(schema, "lang.code", "lang")).toBe("string");
  expect(typeWords(schema, "lang.code", null)).toBe("");
});
