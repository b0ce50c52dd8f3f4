import { compareBytes } from "../lib/compare";
import { parseTime } from "../lib/format";
import { isObject, JsonNumber, type JsonObject, type JsonValue } from "../lib/json";
import { layerColumn } from "../lib/layers";
import type { Order, RowName } from "../lib/urlState";
import { apiUrl, getJson, segment } from "./client";
import { count, list, object, string, stringOrNull } from "./decode";
import { ApiError } from "./error";

export interface Row {
  /** Names the row within its dataset. */
  readonly key: string;
  readonly id: string;
  readonly batch: string;
  readonly createdAt: Date | null;
  /** The row as it came, without what the server added. */
  readonly values: JsonObject;
  /** It is still to be merged. */
  readonly live: boolean;
  /** The true length, in characters, of strings that were cut. */
  readonly clipped: ReadonlyMap<string, number>;
}

export interface Page {
  readonly columns: readonly string[];
  readonly rows: readonly Row[];
  readonly next: string | null;
  readonly prev: string | null;
  readonly liveRows: number | null;
  readonly tookMs: number;
  readonly bytesRead: number;
}

export interface PageRequest {
  readonly cursor: string | null;
  readonly limit: number;
}

export interface Source {
  readonly dataset: string;
  readonly only: readonly string[];
  readonly order: Order;
  /** Those whose layers are laid beside the rows. */
  readonly annotators: readonly string[];
}

/** Cells show no more than this; the drawer reads the row whole. */
const clip = 400;

export async function getPage(s: Source, r: PageRequest, signal: AbortSignal): Promise<Page> {
  const q = batchQuery(s);
  if (s.order === "newest") q.set("sort", "id:desc");
  q.set("limit", String(r.limit));
  q.set("clip", String(clip));
  if (r.cursor !== null) q.set("cursor", r.cursor);
  return decodePage(await getJson(`datasets/${segment(s.dataset)}/data`, q, signal));
}

/** A row read whole. */
export interface Found {
  readonly row: Row;
  /** It is still to be merged. */
  readonly live: boolean;
  /** By annotator. */
  readonly annotations: ReadonlyMap<string, Annotation>;
}

/** What an annotator wrote of a row. */
export interface Annotation {
  readonly live: boolean;
  readonly createdAt: Date | null;
  readonly data: JsonValue;
  readonly metadata: JsonObject;
}

/** Reads a row whole. Without a batch several rows can have the id; the first is taken. */
export async function getRow(dataset: string, name: RowName, signal: AbortSignal): Promise<Found> {
  const q = new URLSearchParams();
  let path = `datasets/${segment(dataset)}/rows`;
  // Browsers take dots out of a path, and proxies change slashes and percent signs in it, encoded or not.
  if (/^\.{1,2}$|[/\\%]/.test(name.id)) q.set("id", name.id);
  else path += `/${segment(name.id)}`;
  if (name.batch !== null) q.set("batch", name.batch);
  return decodeFound(await getJson(path, q, signal));
}

/** All rows of the shown batches, whole, in the order of their ids. */
export function downloadUrl(s: Source, format: "ndjson" | "csv"): string {
  const q = batchQuery(s);
  q.set("format", format);
  return apiUrl(`datasets/${segment(s.dataset)}/data`, q);
}

function batchQuery(s: Source): URLSearchParams {
  const q = new URLSearchParams();
  for (const batch of s.only) q.append("batch", batch);
  if (s.annotators.length > 0) q.set("annotators", JSON.stringify(s.annotators));
  return q;
}

export function decodePage(v: JsonValue): Page {
  const o = object(v);
  const live = o.get("live_rows");
  const rows = list(o.get("rows"), row);
  // A row may have a column that the list does not name: nothing of a row is hidden because of that.
  const columns = new Set(list(o.get("columns"), string));
  for (const r of rows) for (const name of r.values.keys()) if (name !== "_batch") columns.add(name);
  return {
    columns: [...columns],
    rows,
    next: stringOrNull(o.get("next_cursor")),
    prev: stringOrNull(o.get("prev_cursor")),
    liveRows: live instanceof JsonNumber && count(live) >= 0 ? count(live) : null,
    tookMs: count(o.get("took_ms")),
    bytesRead: count(o.get("bytes_read")),
  };
}

export function decodeFound(v: JsonValue): Found {
  const first = list(object(v).get("rows"), row)[0];
  if (!first) throw new ApiError(404, "There is no such row.", "It may have been dropped as a duplicate.");
  return {
    row: first,
    live: list(object(v).get("live"), (x) => x === true)[0] ?? false,
    annotations: list(object(v).get("annotations"), annotations)[0] ?? new Map(),
  };
}

function annotations(v: JsonValue): ReadonlyMap<string, Annotation> {
  const out = new Map<string, Annotation>();
  for (const [annotator, given] of object(v)) {
    const o = object(given);
    const line = object(o.get("annotation"));
    const metadata = line.get("metadata");
    out.set(annotator, {
      live: o.get("live") === true,
      createdAt: parseTime(line.get("_created_at")),
      data: line.get("data") ?? null,
      metadata: isObject(metadata) ? metadata : new Map(),
    });
  }
  return out;
}

/** A row read whole, with the fields of its annotations as the columns that a page would have. */
export function beside(f: Found): Row {
  const values = new Map(f.row.values);
  for (const [annotator, { data }] of f.annotations)
    if (isObject(data)) for (const [field, v] of data) values.set(layerColumn(annotator, field), v);
  return { ...f.row, values };
}

function row(v: JsonValue): Row {
  const o = object(v);
  const id = string(o.get("id"));
  const batch = string(o.get("_batch"));
  const values = new Map(o);
  values.delete("_silt_clipped");
  values.delete("_silt_live");
  const live = o.get("_silt_live") === true;
  const clipped = new Map<string, number>();
  const cut = o.get("_silt_clipped");
  if (isObject(cut)) for (const [name, length] of cut) clipped.set(name, count(length));
  // A batch's name holds no slash, so the key is unambiguous.
  return { key: `${batch}/${id}`, id, batch, createdAt: parseTime(o.get("_created_at")), values, live, clipped };
}

/** The order of a view: (id, batch), or the reverse of it. */
export function comparing(order: Order): (a: Row, b: Row) => number {
  const sign = order === "newest" ? -1 : 1;
  return (a, b) => sign * (compareBytes(a.id, b.id) || compareBytes(a.batch, b.batch));
}
