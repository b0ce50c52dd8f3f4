/** Columns that every row has, by the names that are reserved for them. */
export const created = "_created_at";
export const batchColumn = "_batch";

/** What the column with the title of a row is often called. */
export const titles: readonly string[] = ["title", "headline", "subject", "name", "term", "question", "heading"];
