import { recall, remember } from "../../lib/remember";

/** How rows are drawn in this browser. */
export interface Layout {
  readonly compact: boolean;
  readonly wrap: boolean;
}

export function rowHeight(l: Layout): number {
  if (l.wrap) return l.compact ? 66 : 74;
  return l.compact ? 30 : 36;
}

export function recallLayout(): Layout {
  const words = recall("layout")?.split(" ") ?? [];
  return { compact: words.includes("compact"), wrap: words.includes("wrap") };
}

export function rememberLayout(l: Layout): void {
  remember("layout", [l.compact && "compact", l.wrap && "wrap"].filter(Boolean).join(" "));
}
