import { expect, test } from "vitest";
import { annotatorOf, fieldOf, layerColumn } from "./layers";

test("a column is an annotator's if its name begins so, and that one is shown", () => {
  for (const field of ["ok", "a.b", "", ".", "日本", "__proto__", "shape"]) {
    const column = layerColumn("shape", field);
    expect(annotatorOf(column, ["lang", "shape"])).toBe("shape");
    expect(annotatorOf(column, ["lang"])).toBeNull();
    expect(fieldOf(column, "shape")).toBe(field);
  }
  for (const own of ["shape", "shape_x", "text", "", ".shape"]) expect(annotatorOf(own, ["shape"])).toBeNull();
  expect(fieldOf("a.b", null)).toBe("a.b");
});
