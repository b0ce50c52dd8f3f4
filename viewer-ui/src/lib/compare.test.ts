import { expect, test } from "vitest";
import { compareBytes } from "./compare";

test("strings are ordered by their UTF-8 bytes", () => {
  const words = ["", "A", "a", "a\u0000", "aa", "b", "é", "\ud7ff", "\ue000", "\uffff", "𐀀", "😀", "😁"];
  for (const [i, a] of words.entries())
    for (const [j, b] of words.entries()) {
      expect(Math.sign(compareBytes(a, b)), `${a} and ${b}`).toBe(Math.sign(i - j));
      expect(Math.sign(compareBytes(a, b))).toBe(Math.sign(Buffer.compare(Buffer.from(a), Buffer.from(b))));
    }
});
