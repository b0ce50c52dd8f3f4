/** The column of an annotator's metadata: rows show it, tables do not. */
export const metadataField = "_metadata";

/** The name under which a field of an annotation is a column of its row. */
export function layerColumn(annotator: string, field: string): string {
  return `${annotator}.${field}`;
}

/** Whose column that is: an annotator's name has no dot in it. null: the row's own. */
export function annotatorOf(column: string, annotators: readonly string[]): string | null {
  const dot = column.indexOf(".");
  if (dot < 0) return null;
  const name = column.slice(0, dot);
  return annotators.includes(name) ? name : null;
}

/** A column as its annotator calls it. */
export function fieldOf(column: string, annotator: string | null): string {
  return annotator === null ? column : column.slice(annotator.length + 1);
}
