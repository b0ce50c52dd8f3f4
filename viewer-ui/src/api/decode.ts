import { isArray, isObject, JsonNumber, type JsonObject, type JsonValue } from "../lib/json";
import { notJson } from "./error";

/** Readers of the server's answers. What a newer server adds is passed over; what must be there and is not is an error. */
export function object(v: JsonValue | undefined): JsonObject {
  if (!isObject(v)) throw notJson(200);
  return v;
}

export function list<T>(v: JsonValue | undefined, read: (v: JsonValue) => T): readonly T[] {
  if (v === null || v === undefined) return [];
  if (!isArray(v)) throw notJson(200);
  return v.map(read);
}

export function string(v: JsonValue | undefined): string {
  if (typeof v !== "string") throw notJson(200);
  return v;
}

export function stringOrNull(v: JsonValue | undefined): string | null {
  return typeof v === "string" && v !== "" ? v : null;
}

/** A counter of the server's own, never a number of the user's. */
export function count(v: JsonValue | undefined): number {
  return v instanceof JsonNumber ? Number(v.literal) : 0;
}
