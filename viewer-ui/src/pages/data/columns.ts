import type { Column, Layer } from "../../api/datasets";
import type { Row } from "../../api/rows";
import { isArray, isObject, JsonNumber, type JsonValue } from "../../lib/json";
import { annotatorOf, fieldOf, layerColumn, metadataField } from "../../lib/layers";
import { batchColumn, created, titles } from "./names";

export type ColumnKind = "time" | "id" | "batch" | "text" | "label" | "number" | "boolean" | "json";

export interface GridColumn {
  readonly name: string;
  /** Whose it is; null: the row's own. */
  readonly annotator: string | null;
  readonly kind: ColumnKind;
  /** Pixels. */
  readonly width: number;
  /** Its values are what rows are called. */
  readonly title: boolean;
  /** Takes the room that is left. */
  readonly flex: boolean;
}

/** More columns than this are shown only when they are asked for. */
const mostByDefault = 24;
const sampled = 100;

/** All columns of a view, those that every row has first, and those of layers last. */
export function allColumns(answer: readonly string[], annotators: readonly string[] = []): readonly string[] {
  const own = [created, "id", batchColumn];
  const rest = answer.filter((c) => !own.includes(c));
  const of = (a: string | null) => rest.filter((c) => annotatorOf(c, annotators) === a);
  return [...own, ...of(null), ...annotators.flatMap(of)];
}

/** Columns that one can choose from, of one source. */
export interface ColumnGroup {
  /** null: the rows themselves. */
  readonly annotator: string | null;
  readonly layer: Layer | null;
  readonly columns: readonly string[];
}

/** The columns of a view, and those of the layers that it does not show yet. */
export function groupColumns(
  all: readonly string[],
  schema: readonly Column[] | undefined,
  layers: readonly Layer[],
  shown: readonly string[],
): readonly ColumnGroup[] {
  const base = all.filter((c) => annotatorOf(c, shown) === null);
  const names = [...layers.map((l) => l.annotator), ...shown.filter((a) => !layers.some((l) => l.annotator === a))];
  return [
    { annotator: null, layer: null, columns: base },
    ...names.map((annotator) => {
      const known = (schema ?? []).filter((c) => c.annotator === annotator).map((c) => c.name);
      const given = all.filter((c) => annotatorOf(c, shown) === annotator);
      const columns = [...new Set([...known, ...given])].filter((c) => c !== layerColumn(annotator, metadataField));
      return { annotator, layer: layers.find((l) => l.annotator === annotator) ?? null, columns };
    }),
  ];
}

/** The columns that show when none were chosen. */
export function defaultColumns(
  answer: readonly string[],
  batches: number,
  annotators: readonly string[] = [],
): readonly string[] {
  const all = allColumns(answer, annotators).filter((c) => c !== "id" && (c !== batchColumn || batches > 1));
  const most = (of: boolean) => all.filter((c) => (annotatorOf(c, annotators) !== null) === of).slice(0, mostByDefault);
  // Layers were asked for: many columns of rows do not push them out.
  return [...most(false), ...most(true)];
}

/** Lays columns out by what their first rows hold. */
export function layOut(
  names: readonly string[],
  rows: readonly Row[],
  annotators: readonly string[] = [],
): readonly GridColumn[] {
  const seen = names.map((name) => profile(name, rows.slice(0, sampled)));
  let widest = -1;
  for (const [i, p] of seen.entries())
    if (p.kind === "text" && (widest < 0 || p.length > (seen[widest]?.length ?? 0))) widest = i;
  return names.map((name, i) => {
    const p = seen[i] ?? { kind: "label", length: 0 };
    const annotator = annotatorOf(name, annotators);
    return {
      name,
      annotator,
      kind: p.kind,
      title: annotator === null && titles.includes(name.toLowerCase()),
      flex: i === widest,
      width: width(fieldOf(name, annotator), p),
    };
  });
}

interface Profile {
  readonly kind: ColumnKind;
  /** Characters: of a text on average, of another value as most of them have at most. */
  readonly length: number;
}

function profile(name: string, rows: readonly Row[]): Profile {
  if (name === created) return { kind: "time", length: 0 };
  if (name === "id") return { kind: "id", length: 0 };
  const counts = { number: 0, boolean: 0, string: 0, json: 0 };
  const lengths: number[] = [];
  for (const row of rows) {
    const v = row.values.get(name);
    if (v === undefined || v === null) continue;
    const type = typeOf(v);
    counts[type]++;
    const length =
      typeof v === "string" ? (row.clipped.get(name) ?? v.length) : v instanceof JsonNumber ? v.literal.length : 0;
    lengths.push(length);
  }
  lengths.sort((a, b) => a - b);
  const sum = lengths.reduce((a, b) => a + b, 0);
  const most = lengths.at(-1) ?? 0;
  const usual = lengths[Math.floor(lengths.length * 0.85)] ?? 0;
  if (name === batchColumn) return { kind: "batch", length: usual };
  const all = counts.number + counts.boolean + counts.string + counts.json;
  if (all === 0) return { kind: "label", length: 0 };
  if (counts.number * 2 > all) return { kind: "number", length: most };
  if (counts.boolean * 2 > all) return { kind: "boolean", length: 0 };
  if (counts.json * 2 > all) return { kind: "json", length: 0 };
  return sum / all > 48 || most > 160 ? { kind: "text", length: sum / all } : { kind: "label", length: usual };
}

function typeOf(v: JsonValue): "number" | "boolean" | "string" | "json" {
  if (v instanceof JsonNumber) return "number";
  if (isArray(v) || isObject(v)) return "json";
  return typeof v === "boolean" ? "boolean" : "string";
}

const clamp = (n: number, low: number, high: number) => Math.max(low, Math.min(high, Math.round(n)));

function width(name: string, p: Profile): number {
  const head = name.length * 7.2 + 48;
  switch (p.kind) {
    case "time":
      return 148;
    case "id":
      return 150;
    case "text":
      return 360;
    case "json":
      return clamp(head, 200, 240);
    case "number":
      return clamp(Math.max(head, p.length * 7.4 + 26), 76, 200);
    case "boolean":
      return clamp(head, 76, 160);
    case "batch":
    case "label":
      return clamp(Math.max(head, p.length * 7 + 26), 84, 220);
  }
}

/** What the picker says of a column. */
export function typeWords(schema: readonly Column[] | undefined, name: string, annotator: string | null): string {
  if (name === created) return "time";
  if (name === "id" || name === batchColumn) return "string";
  return schema?.find((c) => c.name === name && c.annotator === annotator)?.types.join(", ") ?? "";
}
