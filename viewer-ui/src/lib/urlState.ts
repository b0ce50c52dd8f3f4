/** What a link holds. Names travel in the query and not in the path: a dot or a percent sign in one needs no care. */
export interface View {
  readonly dataset: string | null;
  /** The batches that are shown; none means all. */
  readonly only: readonly string[];
  readonly order: Order;
  /** Those whose layers are laid beside the rows. */
  readonly annotators: readonly string[];
  /** The columns that are shown, in order; null means the default ones. */
  readonly columns: readonly string[] | null;
  /** The row that is open. */
  readonly row: RowName | null;
}

export type Order = "newest" | "oldest";

export interface RowName {
  readonly id: string;
  readonly batch: string | null;
}

export const home: View = { dataset: null, only: [], order: "newest", annotators: [], columns: null, row: null };

export function encodeView(v: View): string {
  if (v.dataset === null) return "";
  const q = new URLSearchParams({ dataset: v.dataset });
  for (const batch of v.only) q.append("only", batch);
  if (v.order !== "newest") q.set("order", v.order);
  for (const annotator of v.annotators) q.append("annotator", annotator);
  if (v.columns?.length === 0) q.set("columns", "none");
  for (const column of v.columns ?? []) q.append("column", column);
  if (v.row) {
    q.set("row", v.row.id);
    if (v.row.batch !== null) q.set("batch", v.row.batch);
  }
  return `?${q}`;
}

export function decodeView(search: string): View {
  const q = new URLSearchParams(search);
  const dataset = q.get("dataset");
  if (dataset === null || dataset === "") return home;
  const columns = q.getAll("column");
  const id = q.get("row");
  return {
    dataset,
    only: q.getAll("only"),
    order: q.get("order") === "oldest" ? "oldest" : "newest",
    annotators: [...new Set(q.getAll("annotator"))],
    columns: columns.length > 0 || q.get("columns") === "none" ? columns : null,
    row: id === null ? null : { id, batch: q.get("batch") },
  };
}
