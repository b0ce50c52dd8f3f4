import type { Batch } from "../../api/datasets";
import type { Row } from "../../api/rows";

/**
 * Whether a row is known not to be merged yet. Batches tell: one without live chunks is all merged, one that was never
 * merged is all live. Of a batch that is both, rows that arrived since its last merge are live.
 */
export function isUnmerged(row: Row, batches: ReadonlyMap<string, Batch>, arrivedAt: number | undefined): boolean {
  const batch = batches.get(row.batch);
  if (!batch) return arrivedAt !== undefined; // a batch so new that it is not listed yet
  if (batch.liveChunks === 0) return false;
  if (batch.generation === 0) return true;
  const merged = batch.updatedAt?.getTime() ?? 0;
  return row.createdAt === null ? (arrivedAt ?? 0) > merged : row.createdAt.getTime() > merged;
}
