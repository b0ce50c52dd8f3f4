import { expect, test } from "vitest";
import { decodeFound } from "../../api/rows";
import { parseJson } from "../../lib/json";
import { paragraphs, reading, webAddress } from "./reading";

const one = (text: string) => decodeFound(parseJson(`{"rows":[${text}],"live":[false]}`)).row;

test("a row is read by its title and its longest text", () => {
  const row = one(
    `{"id":"a","_batch":"b","_created_at":"2026-11-24T14:02:11Z","term":"varve","text":"An annual layer.","n":1.0}`,
  );
  const r = reading(row);
  expect(r.title).toEqual({ name: "term", text: "varve" });
  expect(r.body).toEqual({ name: "text", text: "An annual layer." });
  expect(r.rest.map(([name]) => name)).toEqual(["n"]);
});

test("a row without text has nothing to read", () => {
  const r = reading(one(`{"id":"a","_batch":"b","n":1,"e":"","o":null}`));
  expect(r).toMatchObject({ title: null, body: null });
  expect(r.rest.map(([name]) => name)).toEqual(["n", "e", "o"]);
});

test("a row says whether it is merged", () => {
  const found = decodeFound(
    parseJson(`{"rows":[{"id":"a","_batch":"b"},{"id":"a","_batch":"c"}],"live":[true,false]}`),
  );
  expect([found.row.key, found.live]).toEqual(["b/a", true]);
  expect(() => decodeFound(parseJson(`{"rows":[],"live":[]}`))).toThrow(/no such row/);
});

test("blank lines part paragraphs", () => {
  expect(paragraphs("a\nb\n\n\nc\r\n \r\nd\n")).toEqual(["a\nb", "c", "d\n"]);
});

test.each([
  ["https://example.org/abs/2609.01177", "https://example.org/abs/2609.01177"],
  ["HTTP://EXAMPLE.ORG", "http://example.org/"],
  ["javascript:alert(1)", null],
  ["java\nscript:alert(1)", null],
  [" https://example.org", null],
  ["https://", null],
  ["data:text/html,<script>", null],
  ["see https://example.org", null],
  [null, null],
] as const)("%j links to %j", (v, want) => {
  expect(webAddress(v)).toBe(want);
});
