import { count, object, string, stringOrNull } from "../api/decode";
import { parseJson } from "../lib/json";

/** What the server says happened. Events are hints: whoever hears one reads the present state of what it names. */
export interface DomainEvent {
  readonly type: EventType;
  readonly dataset: string;
  readonly batch: string;
  readonly annotator: string | null;
  /** Null where only the store told of the chunk. */
  readonly rows: number | null;
}

export const eventTypes = [
  "rows_ingested",
  "run_completed",
  "batch_merged",
  "annotation_updated",
  "index_refreshed",
  "conversion_progress",
] as const;

export type EventType = (typeof eventTypes)[number];

/** Null for what is no event that this page understands. */
export function decodeEvent(type: EventType, data: string): DomainEvent | null {
  try {
    const o = object(parseJson(data));
    const rows = o.get("rows");
    return {
      type,
      dataset: string(o.get("dataset")),
      batch: string(o.get("batch")),
      annotator: stringOrNull(o.get("annotator")),
      rows: rows === undefined || rows === null ? null : count(rows),
    };
  } catch {
    return null;
  }
}
