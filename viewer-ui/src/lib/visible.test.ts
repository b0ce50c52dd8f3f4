import { expect, test } from "vitest";
import { pieces } from "./visible";

const shown = (text: string) =>
  pieces(text)
    .map((p) => (p.kind === "text" ? p.text : `<${p.label}>`))
    .join("");

test.each([
  ["plain\n\ttext", "plain\n\ttext"],
  ["x\u0000y", "x<\\x00>y"],
  ["a\r\nb\rc", "a\r\nb<\\x0D>c"],
  ["evil\u202egnp.exe", "evil<U+202E>gnp.exe"],
  ["\u2066a\u2069", "<U+2066>a<U+2069>"],
  ["\ufeffid", "<U+FEFF>id"],
  ["zero\u200bwidth", "zero<U+200B>width"],
  ["👩\u200d🔬 نمی\u200cخواهم", "👩\u200d🔬 نمی\u200cخواهم"],
  ["x\ud83dy", "x<U+D83D>y"],
  ["😀", "😀"],
  ["tag\u{e0041}", "tag<U+E0041>"],
  ["", ""],
])("%j is shown as %j", (text, want) => {
  expect(shown(text)).toBe(want);
});

test("a hidden character is named", () => {
  expect(pieces("\u202e")).toEqual([{ kind: "hidden", label: "U+202E", title: "U+202E, right-to-left override" }]);
});
