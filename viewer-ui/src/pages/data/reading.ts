import type { Row } from "../../api/rows";
import type { JsonValue } from "../../lib/json";
import { batchColumn, created, titles } from "./names";

/** A row taken apart for reading. */
export interface Reading {
  readonly title: { readonly name: string; readonly text: string } | null;
  readonly body: { readonly name: string; readonly text: string } | null;
  readonly rest: readonly (readonly [name: string, value: JsonValue])[];
}

const titleMost = 240;

/** The longest string is what is read; a column with the name of a title is one. */
export function reading(row: Row): Reading {
  const own = [...row.values].filter(([name]) => name !== created && name !== "id" && name !== batchColumn);
  const strings = own.filter((e): e is [string, string] => typeof e[1] === "string" && e[1] !== "");
  let title: Reading["title"] = null;
  for (const name of titles) {
    const found = strings.find(([n, text]) => n.toLowerCase() === name && text.length <= titleMost);
    if (!found) continue;
    title = { name: found[0], text: found[1] };
    break;
  }
  let body: Reading["body"] = null;
  for (const [name, text] of strings)
    if (name !== title?.name && text.length > (body?.text.length ?? 0)) body = { name, text };
  return { title, body, rest: own.filter(([name]) => name !== title?.name && name !== body?.name) };
}

/** Blank lines part paragraphs. */
export function paragraphs(text: string): readonly string[] {
  return text.split(/\r?\n[ \t]*\r?\n\s*/).filter((p) => p.trim() !== "");
}

/** Only a whole value that is a web address becomes a link, and never one that runs something. */
export function webAddress(v: JsonValue): string | null {
  if (typeof v !== "string" || v.length > 2000 || !/^https?:\/\/\S+$/i.test(v)) return null;
  try {
    const url = new URL(v);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}
