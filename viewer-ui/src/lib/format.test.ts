import { expect, test } from "vitest";
import { formatAgo, formatBytes, formatCount, formatFull, formatMoment, formatRate, parseTime, plural } from "./format";
import { JsonNumber } from "./json";

test("bytes are short", () => {
  expect([0, 999, 1000, 1540, 412_000_000, 999_600, 2.5e15].map(formatBytes)).toEqual([
    "0 B",
    "999 B",
    "1.0 KB",
    "1.5 KB",
    "412 MB",
    "1.0 MB",
    "2.5 PB",
  ]);
});

test("counts, rates and spans", () => {
  expect(formatCount(10_482_113)).toBe("10,482,113");
  expect(plural(1, "row")).toBe("1 row");
  expect(plural(0, "batch", "batches")).toBe("0 batches");
  expect(formatRate(3.2)).toBe("3.2 rows/s");
  expect(formatAgo(0, 14_000)).toBe("14 s ago");
  expect(formatAgo(0, 3 * 86_400_000)).toBe("3 days ago");
  expect(formatAgo(0, 1000)).toBe("just now");
});

test("times are read as the writers write them, and shown in UTC", () => {
  const at = new Date("2026-11-24T14:02:11Z");
  for (const v of [
    "2026-11-24T14:02:11.000000Z",
    "2026-11-24T15:02:11+01:00",
    new JsonNumber("1795528931"),
    new JsonNumber("1795528931000"),
    new JsonNumber("1795528931000000"),
  ])
    expect(parseTime(v)).toEqual(at);
  for (const v of [null, true, "", "soon", "2026", new JsonNumber("1e9"), new JsonNumber("1.5"), undefined])
    expect(parseTime(v)).toBeNull();
  expect(formatMoment(at, at)).toEqual(["24 Nov", "14:02:11"]);
  expect(formatMoment(at, new Date("2027-01-01"))).toEqual(["24 Nov 2026", "14:02:11"]);
  expect(formatFull(at)).toBe("24 November 2026, 14:02:11 UTC");
});
