import { parseTime } from "../lib/format";
import { JsonNumber, type JsonValue } from "../lib/json";
import { getJson, segment } from "./client";
import { count, list, object, string, stringOrNull } from "./decode";

export interface Dataset {
  readonly name: string;
  readonly batches: number;
  /** Merged rows. */
  readonly rows: number;
  readonly bytes: number;
  /** Rows that are not merged yet; null where it is unknown. */
  readonly liveRows: number | null;
  /** Those who have a layer, by name. */
  readonly annotators: readonly string[];
  readonly updatedAt: Date | null;
}

/** What an annotator has written of a dataset. */
export interface Layer {
  readonly annotator: string;
  /** Of the merged rows, 0 to 1. */
  readonly share: number;
  /** Annotations that are not merged yet; null where it is unknown. */
  readonly liveRows: number | null;
}

export interface Batch {
  readonly name: string;
  readonly rows: number;
  readonly bytes: number;
  /** 0 while nothing of it is merged. */
  readonly generation: number;
  readonly liveChunks: number;
  readonly updatedAt: Date | null;
}

export interface DatasetDetail {
  readonly dataset: Dataset;
  readonly batches: readonly Batch[];
  readonly layers: readonly Layer[];
}

export interface Column {
  readonly name: string;
  readonly types: readonly string[];
  /** Whose it is: an annotator, or null for the rows themselves. */
  readonly annotator: string | null;
}

export interface Count {
  readonly count: number;
  readonly exact: boolean;
}

export async function getDatasets(signal: AbortSignal): Promise<readonly Dataset[]> {
  return decodeDatasets(await getJson("datasets", undefined, signal));
}

export async function getDataset(name: string, signal: AbortSignal): Promise<DatasetDetail> {
  return decodeDetail(await getJson(`datasets/${segment(name)}`, undefined, signal));
}

export async function getSchema(name: string, signal: AbortSignal): Promise<readonly Column[]> {
  return decodeSchema(await getJson(`datasets/${segment(name)}/schema`, undefined, signal));
}

export async function getCount(name: string, only: readonly string[], signal: AbortSignal): Promise<Count> {
  const q = new URLSearchParams();
  for (const batch of only) q.append("batch", batch);
  return decodeCount(await getJson(`datasets/${segment(name)}/count`, q, signal));
}

export function decodeDatasets(v: JsonValue): readonly Dataset[] {
  return list(object(v).get("datasets"), dataset);
}

export function decodeDetail(v: JsonValue): DatasetDetail {
  const batches = list(object(v).get("batches"), batch);
  const layers = list(object(v).get("layers"), layer);
  return { dataset: { ...dataset(v), batches: batches.length }, batches, layers };
}

export function decodeSchema(v: JsonValue): readonly Column[] {
  return list(object(v).get("columns"), (c) => {
    const source = stringOrNull(object(c).get("source"));
    return {
      name: string(object(c).get("name")),
      types: list(object(c).get("types"), string),
      annotator: source === "base" ? null : source,
    };
  });
}

export function decodeCount(v: JsonValue): Count {
  return { count: count(object(v).get("count")), exact: object(v).get("exact") !== false };
}

function dataset(v: JsonValue): Dataset {
  const o = object(v);
  return {
    name: string(o.get("name")),
    batches: count(o.get("batches")),
    rows: count(o.get("rows")),
    bytes: count(o.get("bytes")),
    liveRows: known(o.get("live_rows")),
    annotators: list(o.get("annotators"), string),
    updatedAt: parseTime(o.get("updated_at")),
  };
}

function layer(v: JsonValue): Layer {
  const o = object(v);
  const share = o.get("share");
  return {
    annotator: string(o.get("annotator")),
    share: share instanceof JsonNumber ? Number(share.literal) : 0,
    liveRows: known(o.get("live_rows")),
  };
}

function known(v: JsonValue | undefined): number | null {
  return v === undefined || v === null || count(v) < 0 ? null : count(v);
}

function batch(v: JsonValue): Batch {
  const o = object(v);
  return {
    name: string(o.get("name")),
    rows: count(o.get("rows")),
    bytes: count(o.get("bytes")),
    generation: count(o.get("generation")),
    liveChunks: count(o.get("live_chunks")),
    updatedAt: parseTime(o.get("updated_at")),
  };
}
