import { describe, expect, test } from "vitest";
import { isObject, JsonNumber, parseJson, stringifyJson } from "./json";

describe("parseJson", () => {
  test.each([
    "9007199254740993",
    "18446744073709551616",
    "1e400",
    "1e-400",
    "-0",
    "1.0",
    "123456789012345678901234567890",
    "1E+5",
  ])("keeps the number %s as it was written", (literal) => {
    const v = parseJson(` ${literal} `);
    expect(v).toBeInstanceOf(JsonNumber);
    expect(stringifyJson(v)).toBe(literal);
  });

  test.each([
    `{"__proto__":"x","constructor":1,"length":2642853,"toString":"t","hasOwnProperty":0}`,
    `{"2":1,"1":2,"":3," ":4,"a.b":5,"🙂":6,"a\\u0000b":7}`,
    `{"a":[],"b":{},"c":[null,true,false,"\\ud83d"]}`,
    `[[[1.50,[]]],"\\"\\\\"]`,
  ])("gives back %s", (text) => {
    expect(stringifyJson(parseJson(text))).toBe(text);
  });

  test("the names of built-ins are columns like others", () => {
    const v = parseJson(`{"__proto__":{"a":1}}`);
    if (!isObject(v)) throw new Error("no object");
    expect([...v.keys()]).toEqual(["__proto__"]);
    expect(({} as { a?: number }).a).toBeUndefined();
  });

  test("escapes are those of JSON", () => {
    expect(parseJson(`"\\u00e9\\n\\t\\/\\u0000x"`)).toBe("é\n\t/\u0000x");
  });

  test.each([
    "",
    "nul",
    "NaN",
    "01",
    "1.",
    "[1,]",
    "{,}",
    `{"a"}`,
    `{"a":1,}`,
    `"a`,
    `"\n"`,
    `"\\x"`,
    "1 2",
    "Infinity",
    "'a'",
    '"a\\',
  ])("refuses %j", (text) => {
    expect(() => parseJson(text)).toThrow(SyntaxError);
  });

  test("hostile depth is an error and no overflow", () => {
    expect(() => parseJson("[".repeat(100_000))).toThrow(/too deep/);
    const deep = "[".repeat(512) + "]".repeat(512);
    expect(stringifyJson(parseJson(deep))).toBe(deep);
  });

  test("what JSON.parse takes is taken, with the same meaning", () => {
    const value = { a: [1, -2.5e3, "x", { b: null }], "": true, "\u2028": "\u202e" };
    const text = JSON.stringify(value, null, 2);
    expect(JSON.parse(stringifyJson(parseJson(text)))).toEqual(value);
    expect(stringifyJson(parseJson(text), 2)).toBe(text);
  });
});
