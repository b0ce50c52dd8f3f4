import type { Row } from "../../api/rows";
import { type JsonObject, type JsonValue, stringifyJson } from "../../lib/json";
import { annotatorOf } from "../../lib/layers";
import { batchColumn } from "./names";

/** A value as a person would paste it: a string without quotes, anything else as JSON. */
export function plain(v: JsonValue | undefined): string {
  if (v === undefined) return "";
  return typeof v === "string" ? v : stringifyJson(v);
}

/** The row as it lies in the store: without the batch and the columns of layers, which the server added. */
export function stored(row: Row, annotators: readonly string[] = []): JsonObject {
  const values = new Map(row.values);
  values.delete(batchColumn);
  for (const name of row.values.keys()) if (annotatorOf(name, annotators) !== null) values.delete(name);
  return values;
}
