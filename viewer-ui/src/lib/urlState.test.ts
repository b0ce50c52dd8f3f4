import { expect, test } from "vitest";
import { decodeView, encodeView, home, type View } from "./urlState";

const odd = [
  "naïve",
  "50%",
  "a+b",
  "a b",
  "x=1&y",
  "日本語",
  '"',
  "v1.2",
  "#?",
  "__proto__",
  "",
  " ",
  "<img src=x>",
  "🙂",
];

test("a view comes back from its link", () => {
  for (const name of odd.filter((n) => n !== "")) {
    const views: View[] = [
      { ...home, dataset: name },
      { dataset: name, only: odd, order: "oldest", annotators: odd, columns: odd, row: { id: name, batch: name } },
      { dataset: name, only: [], order: "newest", annotators: [], columns: [], row: { id: name, batch: null } },
    ];
    for (const view of views) expect(decodeView(encodeView(view))).toEqual(view);
  }
});

test("a link without a dataset is the list", () => {
  for (const search of ["", "?", "?dataset=", "?row=a", "?x=%"]) expect(decodeView(search)).toEqual(home);
  expect(encodeView(home)).toBe("");
});
