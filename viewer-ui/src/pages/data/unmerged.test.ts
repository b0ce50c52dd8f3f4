import { expect, test } from "vitest";
import type { Batch } from "../../api/datasets";
import type { Row } from "../../api/rows";
import { isUnmerged } from "./unmerged";

const at = (s: string) => new Date(`2026-11-24T${s}Z`);
const row = (createdAt: Date | null): Row => ({
  key: "b/a",
  id: "a",
  batch: "b",
  createdAt,
  values: new Map(),
  clipped: new Map(),
});
const batch = (generation: number, liveChunks: number): ReadonlyMap<string, Batch> =>
  new Map([
    ["b", { name: "b", rows: 0, bytes: 0, generation, liveChunks, updatedAt: generation > 0 ? at("12:00:00") : null }],
  ]);

test.each([
  ["nothing is live", batch(3, 0), at("13:00:00"), 1, false],
  ["nothing is merged", batch(0, 2), at("11:00:00"), undefined, true],
  ["written before the merge", batch(3, 2), at("11:59:00"), undefined, false],
  ["written after the merge", batch(3, 2), at("12:00:01"), undefined, true],
  ["arrived after the merge, without a time", batch(3, 2), null, at("12:00:01").getTime(), true],
  ["old and without a time", batch(3, 2), null, undefined, false],
  ["a batch that is not listed yet", new Map(), at("12:00:00"), 1, true],
] as const)("%s", (_, batches, createdAt, arrivedAt, want) => {
  expect(isUnmerged(row(createdAt), batches, Number.POSITIVE_INFINITY, arrivedAt)).toBe(want);
});

test("a row that arrived since the batches were looked at", () => {
  expect(isUnmerged(row(at("11:00:00")), batch(3, 0), 1000, 1001)).toBe(true);
  expect(isUnmerged(row(at("11:00:00")), batch(3, 0), 1000, 999)).toBe(false);
});
