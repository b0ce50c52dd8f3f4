import type { ReactNode } from "react";
import type { Row } from "../../../api/rows";
import { isArray, isObject, JsonNumber, type JsonValue } from "../../../lib/json";
import type { GridColumn } from "../columns";

export type CellKind = "missing" | "null" | "time" | "id" | "number" | "boolean" | "label" | "text" | "json";

/** How one kind of value shows in a cell of fixed height. */
export interface Cell {
  readonly className: string;
  render(v: JsonValue, column: GridColumn, row: Row): ReactNode;
}

/** The kind of a value decides, and not that of its column: a column may hold anything. */
export function cellKind(v: JsonValue | undefined, column: GridColumn, row: Row): CellKind {
  if (column.kind === "time" && row.createdAt) return "time";
  if (v === undefined) return "missing";
  if (v === null) return "null";
  if (v instanceof JsonNumber) return "number";
  if (typeof v === "boolean") return "boolean";
  if (isArray(v) || isObject(v)) return "json";
  if (column.kind === "id") return "id";
  return column.kind === "text" || row.clipped.has(column.name) ? "text" : "label";
}
