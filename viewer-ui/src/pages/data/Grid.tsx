import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useSyncExternalStore } from "react";
import type { Row } from "../../api/rows";
import { ColumnName } from "../../components/ColumnName";
import { fieldOf } from "../../lib/layers";
import type { Order } from "../../lib/urlState";
import { cellKind, cells } from "./cells";
import type { ColumnKind, GridColumn } from "./columns";
import { created } from "./names";
import type { RowStore } from "./rowStore";

export interface Cursor {
  /** The row's key. */
  readonly row: string;
  readonly column: number;
}

export interface GridHandle {
  toIndex(index: number): void;
  toTop(): void;
  /** Rows that fit. */
  screen(): number;
}

interface Props {
  readonly store: RowStore;
  readonly order: Order;
  readonly columns: readonly GridColumn[];
  readonly rowHeight: number;
  readonly wrap: boolean;
  readonly cursor: Cursor | null;
  readonly open: string | null;
  readonly onPick: (row: Row, column: number, how: "open" | "move") => void;
  readonly onAway: (away: boolean) => void;
  readonly handle: RefObject<GridHandle | null>;
}

const headHeight = 60;
const glyphs: Record<ColumnKind, string> = {
  time: "◷",
  id: "#",
  batch: "≡",
  text: "¶",
  label: "T",
  number: "#",
  boolean: "?",
  json: "{}",
};
const right: ReadonlySet<ColumnKind> = new Set(["number"]);
const ahead = 100;
const freshFor = 2400;

/** The rows, drawn only where they are seen. What is read stays in place when rows come or go above it. */
export function Grid(p: Props) {
  const { store, order, rowHeight, onAway } = p;
  const { total, atEnd, version, error } = useSyncExternalStore(store.subscribe, store.getSnapshot);
  const scroller = useRef<HTMLDivElement>(null);
  const anchor = useRef<{ readonly key: string; readonly offset: number } | null>(null);
  const away = useRef(false);
  const cursorIndex = p.cursor === null ? -1 : store.indexOf(p.cursor.row);
  // Bars in place of the rows to come, so that the end of what is read is not the end of the table.
  const waiting = atEnd || error !== null ? 0 : 12;

  const virtual = useVirtualizer({
    count: total + waiting,
    getScrollElement: () => scroller.current,
    estimateSize: useCallback(() => rowHeight, [rowHeight]),
    overscan: 12,
    scrollMargin: headHeight,
    scrollPaddingStart: headHeight,
    useFlushSync: false,
    // The row that a screen reader is at stays in the page.
    rangeExtractor: (range) => {
      const first = Math.max(0, range.startIndex - range.overscan);
      const last = Math.min(range.count - 1, range.endIndex + range.overscan);
      const out = cursorIndex >= 0 && cursorIndex < first ? [cursorIndex] : [];
      for (let i = first; i <= last; i++) out.push(i);
      if (cursorIndex > last) out.push(cursorIndex);
      return out;
    },
  });

  // biome-ignore lint/correctness/useExhaustiveDependencies: the virtualiser keeps the sizes that it measured before
  useEffect(() => {
    virtual.measure();
  }, [virtual, rowHeight]);

  /** Remembers what is at the top of the screen. */
  const remember = useCallback(() => {
    const el = scroller.current;
    if (!el) return;
    const index = Math.floor(el.scrollTop / rowHeight);
    const row = store.row(index);
    if (row) anchor.current = { key: row.key, offset: el.scrollTop - index * rowHeight };
    // A selection in the table is being read or copied: it stays where it is, too.
    const selecting = !(getSelection()?.isCollapsed ?? true) && el.contains(getSelection()?.anchorNode ?? null);
    const now = el.scrollTop > rowHeight / 2 || selecting;
    if (now !== away.current) {
      away.current = now;
      onAway(now);
    }
    store.setAtTop(!now);
  }, [store, rowHeight, onAway]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: each version may have moved the rows
  useLayoutEffect(() => {
    const el = scroller.current;
    if (!el) return;
    const at = anchor.current;
    if (at && (away.current || order === "oldest")) {
      const index = store.indexOf(at.key);
      const top = index * rowHeight + at.offset;
      if (index >= 0 && Math.abs(top - el.scrollTop) >= 1) el.scrollTop = top;
    }
    remember();
  }, [version, store, order, rowHeight, remember]);

  const items = virtual.getVirtualItems();
  const first = virtual.range?.startIndex ?? 0;
  const last = virtual.range?.endIndex ?? 0;
  useEffect(() => {
    store.see(Math.max(0, first - 12), last + 12);
    if (last + ahead >= total) store.more();
  }, [store, first, last, total]);

  p.handle.current = {
    // Remembered at once: rows may come before the event of the scrolling does, and would undo it.
    toIndex: (index) => {
      virtual.scrollToIndex(index, { align: "auto" });
      remember();
    },
    toTop: () => {
      scroller.current?.scrollTo({ top: 0 });
      remember();
    },
    screen: () => Math.max(1, Math.floor(((scroller.current?.clientHeight ?? 0) - headHeight) / rowHeight) - 1),
  };

  const template = p.columns.map((c) => (c.flex ? `minmax(${c.width}px, 1fr)` : `${c.width}px`)).join(" ");
  const width = p.columns.reduce((sum, c) => sum + c.width, 0);
  const style = { "--cols": template, "--w": `${width}px`, "--row": `${rowHeight}px` } as React.CSSProperties;
  const activeCell = p.cursor !== null && cursorIndex >= 0 ? cellId(cursorIndex, p.cursor.column) : undefined;

  return (
    <div
      ref={scroller}
      className={p.wrap ? "grid wrap" : "grid"}
      style={style}
      role="grid"
      aria-label="Rows"
      aria-rowcount={atEnd ? total + 1 : -1}
      aria-colcount={p.columns.length}
      aria-activedescendant={activeCell}
      tabIndex={0}
      onScroll={remember}
    >
      <Head columns={p.columns} order={order} />
      <div role="rowgroup" className="body" style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const row = store.row(item.index);
          const top = item.start - headHeight;
          if (!row) return <Bars key={`bars ${item.index}`} top={top} index={item.index} columns={p.columns} />;
          const arrived = store.arrived.get(row.key);
          return (
            <GridRow
              key={row.key}
              row={row}
              index={item.index}
              top={top}
              columns={p.columns}
              cursor={p.cursor?.row === row.key ? p.cursor.column : -1}
              open={p.open === row.key}
              fresh={arrived !== undefined && Date.now() - arrived < freshFor}
              onPick={p.onPick}
            />
          );
        })}
      </div>
    </div>
  );
}

const cellId = (index: number, column: number) => `cell-${index}-${column}`;

const Head = memo(function Head({
  columns,
  order,
}: {
  readonly columns: readonly GridColumn[];
  readonly order: Order;
}) {
  return (
    <div className="hd" role="rowgroup">
      <div className="r gh" aria-hidden="true">
        {columns.map((c, i) => (
          <div key={c.name} className={`${i === 0 ? "pin" : ""}${c.annotator === null ? "" : " of-layer"}`}>
            {c.annotator !== columns[i - 1]?.annotator && (c.annotator ?? "Base columns")}
          </div>
        ))}
      </div>
      <div className="r" role="row" aria-rowindex={1}>
        {columns.map((c, i) => (
          <div
            key={c.name}
            role="columnheader"
            aria-colindex={i + 1}
            className={`h${i === 0 ? " pin" : ""}${right.has(c.kind) ? " right" : ""}`}
            title={headTitle(c)}
          >
            <span className="t" aria-hidden="true">
              {glyphs[c.kind]}
            </span>
            <span className="flow">
              {c.annotator !== null && <span className="sr">{c.annotator}.</span>}
              <ColumnName name={fieldOf(c.name, c.annotator)} />
            </span>
            {c.name === "id" ? (
              <span className="ar" aria-hidden="true">
                {order === "newest" ? "↓" : "↑"}
              </span>
            ) : null}
          </div>
        ))}
      </div>
    </div>
  );
});

function headTitle(c: GridColumn): string | undefined {
  if (c.name === created) return "When the row was written, in UTC";
  return c.annotator === null ? undefined : `${fieldOf(c.name, c.annotator)}, from annotator ${c.annotator}`;
}

interface RowProps {
  readonly row: Row;
  readonly index: number;
  readonly top: number;
  readonly columns: readonly GridColumn[];
  /** The column of the cursor; -1 where it is in another row. */
  readonly cursor: number;
  readonly open: boolean;
  readonly fresh: boolean;
  readonly onPick: Props["onPick"];
}

const GridRow = memo(function GridRow(p: RowProps) {
  const { row } = p;
  const classes = ["r", p.open && "sel", p.fresh && "fresh", row.live && "live-row", p.cursor >= 0 && "at"];
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Enter opens the row of the cursor
    <div
      className={classes.filter(Boolean).join(" ")}
      style={{ transform: `translateY(${p.top}px)` }}
      role="row"
      aria-rowindex={p.index + 2}
      aria-selected={p.open}
      onClick={(e) => {
        // A selection in the row is being copied, and not the row opened.
        if (!(getSelection()?.isCollapsed ?? true)) return;
        const cell = (e.target as Element).closest<HTMLElement>("[data-c]");
        p.onPick(row, Number(cell?.dataset.c ?? 0), "open");
      }}
    >
      {p.columns.map((c, i) => {
        const v = row.values.get(c.name);
        const kind = cellKind(v, c, row);
        const cell = cells[kind];
        return (
          <div
            key={c.name}
            id={cellId(p.index, i)}
            data-c={i}
            role="gridcell"
            aria-colindex={i + 1}
            className={`c ${cell.className}${i === 0 ? " pin" : ""}${p.cursor === i ? " cur" : ""}`}
          >
            {cell.render(v ?? null, c, row)}
            {i === 0 && row.live && <span className="sr">, not merged yet</span>}
          </div>
        );
      })}
    </div>
  );
});

interface BarsProps {
  readonly index: number;
  readonly top: number;
  readonly columns: readonly GridColumn[];
}

function Bars({ index, top, columns }: BarsProps) {
  return (
    <div className="r bar" style={{ transform: `translateY(${top}px)` }} aria-hidden="true">
      {columns.map((c, i) => (
        <div key={c.name} className={i === 0 ? "c pin" : "c"}>
          <i style={{ width: `${40 + ((index * 7 + i * 13) % 5) * 9}%` }} />
        </div>
      ))}
    </div>
  );
}
