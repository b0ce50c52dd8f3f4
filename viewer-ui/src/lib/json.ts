/**
 * JSON that keeps what JSON.parse changes: number literals stay text (no value passes through a double), and objects
 * are Maps, so that `__proto__`, `constructor` and the order of keys such as "1" survive.
 */

/** A number as it was written: `1.0`, `1e400`, `9007199254740993`. */
export class JsonNumber {
  readonly literal: string;
  constructor(literal: string) {
    this.literal = literal;
  }
}

export type JsonObject = ReadonlyMap<string, JsonValue>;
export type JsonArray = readonly JsonValue[];
export type JsonValue = null | boolean | string | JsonNumber | JsonArray | JsonObject;

export function isObject(v: JsonValue | undefined): v is JsonObject {
  return v instanceof Map;
}

export function isArray(v: JsonValue | undefined): v is JsonArray {
  return Array.isArray(v);
}

// Rows nest 512 deep at most; what nests deeper did not come from us, and must not overflow the stack.
const maxDepth = 600;
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

export function parseJson(text: string): JsonValue {
  return new Parser(text).document();
}

class Parser {
  private readonly text: string;
  private at = 0;

  constructor(text: string) {
    this.text = text;
  }

  document(): JsonValue {
    const value = this.value(0);
    this.space();
    if (this.at !== this.text.length) throw this.error("something after the value");
    return value;
  }

  private value(depth: number): JsonValue {
    if (depth > maxDepth) throw this.error("nested too deep");
    this.space();
    switch (this.text[this.at]) {
      case "{":
        return this.object(depth);
      case "[":
        return this.array(depth);
      case '"':
        return this.string();
      case "t":
        return this.word("true", true);
      case "f":
        return this.word("false", false);
      case "n":
        return this.word("null", null);
      default:
        return this.number();
    }
  }

  private object(depth: number): JsonObject {
    const members = new Map<string, JsonValue>();
    this.at++;
    if (this.follows("}")) return members;
    for (;;) {
      this.space();
      if (this.text[this.at] !== '"') throw this.error("a key was expected");
      const key = this.string();
      if (!this.follows(":")) throw this.error("a colon was expected");
      members.set(key, this.value(depth + 1));
      if (this.follows("}")) return members;
      if (!this.follows(",")) throw this.error("a comma or } was expected");
    }
  }

  private array(depth: number): JsonArray {
    const elements: JsonValue[] = [];
    this.at++;
    if (this.follows("]")) return elements;
    for (;;) {
      elements.push(this.value(depth + 1));
      if (this.follows("]")) return elements;
      if (!this.follows(",")) throw this.error("a comma or ] was expected");
    }
  }

  private string(): string {
    const start = ++this.at;
    let escaped = false;
    for (;;) {
      const c = this.text.charCodeAt(this.at); // NaN at the end, which is below nothing and equal to nothing
      if (c === 0x22) break;
      if (c === 0x5c) {
        escaped = true;
        this.at++;
      } else if (!(c >= 0x20)) throw this.error("a string does not end");
      this.at++;
    }
    this.at++;
    if (!escaped) return this.text.slice(start, this.at - 1);
    return JSON.parse(this.text.slice(start - 1, this.at)) as string;
  }

  private number(): JsonNumber {
    number.lastIndex = this.at;
    const literal = number.exec(this.text)?.[0];
    if (literal === undefined) throw this.error("a value was expected");
    this.at += literal.length;
    return new JsonNumber(literal);
  }

  private word<T>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) throw this.error("a value was expected");
    this.at += word.length;
    return value;
  }

  private follows(c: string): boolean {
    this.space();
    if (this.text[this.at] !== c) return false;
    this.at++;
    return true;
  }

  private space(): void {
    for (;;) {
      const c = this.text.charCodeAt(this.at);
      if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) return;
      this.at++;
    }
  }

  private error(what: string): SyntaxError {
    return new SyntaxError(`JSON, at character ${this.at}: ${what}`);
  }
}

/** Writes a value: on one line, or indented for reading. */
export function stringifyJson(v: JsonValue, indent = 0): string {
  const out: string[] = [];
  write(out, v, indent, "\n");
  return out.join("");
}

function write(out: string[], v: JsonValue, indent: number, line: string): void {
  if (v instanceof JsonNumber) out.push(v.literal);
  else if (isArray(v)) {
    const inner = line + " ".repeat(indent);
    out.push("[");
    v.forEach((element, i) => {
      if (i > 0) out.push(",");
      if (indent > 0) out.push(inner);
      write(out, element, indent, inner);
    });
    out.push(indent > 0 && v.length > 0 ? `${line}]` : "]");
  } else if (isObject(v)) {
    const inner = line + " ".repeat(indent);
    out.push("{");
    let first = true;
    for (const [key, value] of v) {
      if (!first) out.push(",");
      first = false;
      if (indent > 0) out.push(inner);
      out.push(JSON.stringify(key), indent > 0 ? ": " : ":");
      write(out, value, indent, inner);
    }
    out.push(indent > 0 && v.size > 0 ? `${line}}` : "}");
  } else out.push(JSON.stringify(v));
}
