import { parseTime } from "../lib/format";
import type { JsonValue } from "../lib/json";
import { getJson, segment } from "./client";
import { count, list, object, string } from "./decode";

export interface Dataset {
  readonly name: string;
  readonly batches: number;
  /** Merged rows. */
  readonly rows: number;
  readonly bytes: number;
  /** Rows that are not merged yet; null where it is unknown. */
  readonly liveRows: number | null;
  readonly updatedAt: Date | null;
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
}

export interface Column {
  readonly name: string;
  readonly types: readonly string[];
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
  return { dataset: { ...dataset(v), batches: batches.length }, batches };
}

export function decodeSchema(v: JsonValue): readonly Column[] {
  return list(object(v).get("columns"), (c) => ({
    name: string(object(c).get("name")),
    types: list(object(c).get("types"), string),
  }));
}

export function decodeCount(v: JsonValue): Count {
  return { count: count(object(v).get("count")), exact: object(v).get("exact") !== false };
}

function dataset(v: JsonValue): Dataset {
  const o = object(v);
  const live = o.get("live_rows");
  return {
    name: string(o.get("name")),
    batches: count(o.get("batches")),
    rows: count(o.get("rows")),
    bytes: count(o.get("bytes")),
    liveRows: live === undefined || live === null || count(live) < 0 ? null : count(live),
    updatedAt: parseTime(o.get("updated_at")),
  };
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
