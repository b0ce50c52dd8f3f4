import type { Batch } from "../../api/datasets";
import type { Row } from "../../api/rows";

/**
 * Whether a row is known not to be merged yet. Batches tell: one without live chunks is all merged, one that was never
 * merged is all live. Of a batch that is both, rows that were written since its last merge are live. So are rows that
 * arrived after the batches were last looked at, which was at knownAt.
 */
export function isUnmerged(
  row: Row,
  batches: ReadonlyMap<string, Batch>,
  knownAt: number,
  arrivedAt: number | undefined,
): boolean {
  if (arrivedAt !== undefined && arrivedAt >= knownAt) return true;
  const batch = batches.get(row.batch);
  if (!batch) return arrivedAt !== undefined; // a batch so new that it is not listed yet
  if (batch.liveChunks === 0) return false;
  if (batch.generation === 0) return true;
  const merged = batch.updatedAt?.getTime() ?? 0;
  return row.createdAt === null ? (arrivedAt ?? 0) > merged : row.createdAt.getTime() > merged;
}
