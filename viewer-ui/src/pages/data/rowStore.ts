import { type Page as Answer, comparing, type PageRequest, type Row } from "../../api/rows";
import type { Order } from "../../lib/urlState";

/** A stretch of the view: the rows behind its cursor, up to the place where the cursor of the page below it is. */
interface Page {
  /** What it was asked with; null for the start of the view. */
  readonly cursor: string | null;
  /** Null where the page was given up; it comes back by its cursor. */
  rows: readonly Row[] | null;
  count: number;
  /** The row behind which the next page begins, also when it is gone; null where nothing followed. */
  end: Row | null;
  stale: boolean;
  seen: number;
}

export interface Snapshot {
  readonly version: number;
  /** Rows known so far, given-up ones included. */
  readonly total: number;
  /** Nothing follows the last row. */
  readonly atEnd: boolean;
  readonly loading: boolean;
  /** Of the newest request; rows already shown stay. */
  readonly error: unknown;
  readonly columns: readonly string[] | null;
  readonly tookMs: number;
  readonly bytesRead: number;
  readonly liveRows: number | null;
  /** Rows that came before the first row since the view was opened. */
  readonly arrivedAbove: number;
  /** More rows wait above than are held: the reader is away and they are many. */
  readonly overflow: boolean;
}

export type FetchPage = (r: PageRequest, signal: AbortSignal) => Promise<Answer>;

const pageSize = 200;
const mostAtOnce = 1000;
const residentPages = 40;
const topPageMost = 600;
const heldMost = 2000;
/** Browsers clamp the height of an element: Firefox at 17.9 million pixels, which is so many rows of 36. */
const mostRows = 450_000;
const arrivedKept = 5000;

/**
 * The rows of one view, read by cursor in pages of which only the last seen are kept. New rows are put where they belong
 * in the view's order; what is shown is never taken away because a request fails.
 *
 * All requests run one after the other, so that no answer meets a list that another one changed.
 */
export class RowStore {
  /** When each row arrived that came after the view was opened, by key. */
  readonly arrived = new Map<string, number>();

  private readonly fetchPage: FetchPage;
  private readonly order: Order;
  private readonly compare: (a: Row, b: Row) => number;
  private pages: Page[] = [];
  private starts: number[] = [];
  private next: string | null = null;
  private prev: string | null = null;
  private opened = false;
  private clock = 0;
  private queue: Promise<void> = Promise.resolve();
  private readonly pending = new Map<string, Promise<void>>();
  private waiting = 0;
  private arrivals = 0;
  private readonly aborter = new AbortController();
  private readonly watchers = new Set<() => void>();
  private atTop = true;
  private window: readonly [number, number] = [0, 0];
  private snapshot: Snapshot = {
    version: 0,
    total: 0,
    atEnd: false,
    loading: true,
    error: null,
    columns: null,
    tookMs: 0,
    bytesRead: 0,
    liveRows: null,
    arrivedAbove: 0,
    overflow: false,
  };

  constructor(fetchPage: FetchPage, order: Order) {
    this.fetchPage = fetchPage;
    this.order = order;
    this.compare = comparing(order);
  }

  readonly subscribe = (watch: () => void): (() => void) => {
    this.watchers.add(watch);
    return () => this.watchers.delete(watch);
  };

  readonly getSnapshot = (): Snapshot => this.snapshot;

  dispose(): void {
    this.aborter.abort();
  }

  row(index: number): Row | undefined {
    const i = this.pageAt(index);
    return this.pages[i]?.rows?.[index - (this.starts[i] ?? 0)];
  }

  /** Where a row is now; -1 if it is not among the rows that are held. */
  indexOf(key: string): number {
    for (const [i, page] of this.pages.entries()) {
      const at = page.rows?.findIndex((r) => r.key === key) ?? -1;
      if (at >= 0) return (this.starts[i] ?? 0) + at;
    }
    return -1;
  }

  /** Reads the view from its start; what is shown stays until the answer is here. */
  reload(): void {
    void this.run("reload", async () => {
      const answer = await this.ask(null, pageSize);
      this.open(answer);
    });
  }

  /** Reads on behind the last row. */
  more(): void {
    if (!this.opened || this.next === null || this.snapshot.total >= mostRows) return;
    void this.run("more", async () => {
      const cursor = this.next;
      if (cursor === null) return;
      const answer = await this.ask(cursor, pageSize);
      this.append(cursor, answer);
    });
  }

  /** Gets what has arrived at the end of the view where rows arrive, and says how many rows that were. */
  async pull(): Promise<number> {
    const before = this.arrivals;
    if (!this.opened) this.reload();
    else if (this.order === "oldest") await this.pullEnd();
    else await this.run("pull", () => this.pullTop());
    return this.arrivals - before;
  }

  /** Something may have changed anywhere: rows dropped by a merge, rows with ids of their own in the middle. */
  invalidate(): void {
    for (const page of this.pages) page.stale = true;
    void this.pull();
    if (this.opened) this.see(...this.window);
  }

  /** Tells what is on the screen, so that it is there and fresh. */
  see(first: number, last: number): void {
    this.window = [first, last];
    this.clock++;
    const from = this.pageAt(first);
    const to = this.pageAt(Math.max(first, last));
    for (let i = from; i <= to; i++) {
      const page = this.pages[i];
      if (!page) continue;
      page.seen = this.clock;
      if (page.rows === null || page.stale) void this.run(`page ${page.cursor}`, () => this.reread(page));
    }
    this.giveUpOld();
  }

  /** Tells whether the reader is at the start of the view, where rows may settle in without moving what is read. */
  setAtTop(atTop: boolean): void {
    this.atTop = atTop;
    if (!atTop || !this.opened) return;
    if (this.snapshot.overflow) this.reload();
    else if ((this.pages[0]?.count ?? 0) > topPageMost) this.reload();
  }

  private async pullTop(): Promise<void> {
    for (;;) {
      if (this.snapshot.overflow) return;
      const top = this.pages[0];
      if (!top || this.prev === null || top.count === 0) {
        this.open(await this.ask(null, pageSize), true);
        return;
      }
      const answer = await this.ask(this.prev, pageSize);
      this.prev = answer.prev ?? this.prev;
      const first = top.rows?.[0] ?? null;
      const rows = answer.rows.filter((r) => first === null || this.compare(r, first) < 0).sort(this.compare);
      if (rows.length === 0) return this.publish({});
      this.note(rows);
      top.rows = [...rows, ...(top.rows ?? [])];
      this.resize(top);
      const above = this.snapshot.arrivedAbove + rows.length;
      const overflow = !this.atTop && top.count > heldMost;
      this.publish({ arrivedAbove: above, overflow });
      if (answer.rows.length < pageSize) break;
    }
    // At the top the rest can be read anew at no cost to the reader, and the page stays small.
    if (this.atTop && (this.pages[0]?.count ?? 0) > topPageMost) this.open(await this.ask(null, pageSize), true);
  }

  private async pullEnd(): Promise<void> {
    const last = this.pages.at(-1);
    if (!last || this.next !== null) return;
    last.stale = true;
    if (last.rows !== null) await this.run(`page ${last.cursor}`, () => this.reread(last));
  }

  /** Reads a page again: what lies between its cursor and the page below, which may be more or less than before. */
  private async reread(page: Page): Promise<void> {
    const i = this.pages.indexOf(page);
    if (i < 0 || (page.rows !== null && !page.stale)) return;
    const bound = page.end;
    page.stale = false;
    const rows: Row[] = [];
    let cursor = page.cursor;
    let next: string | null = null;
    let whole = false;
    while (!whole && rows.length < heldMost) {
      const answer = await this.ask(cursor, Math.min(mostAtOnce, Math.max(pageSize, page.count + 1)));
      if (cursor === null && page.cursor === null) this.prev = answer.prev ?? this.prev;
      const inside = bound === null ? answer.rows : answer.rows.filter((r) => this.compare(r, bound) <= 0);
      rows.push(...inside);
      next = answer.next;
      whole = next === null || inside.length < answer.rows.length;
      cursor = next;
    }
    const known = new Set(page.rows?.map((r) => r.key));
    const had = page.rows !== null;
    const added = had ? rows.filter((r) => !known.has(r.key)) : [];
    this.note(added);
    page.rows = rows;
    const before = page.count;
    this.resize(page);
    if (bound === null || !whole) {
      // Nothing lies below, or so much came that it is cut here and read on by its cursor.
      this.pages.length = this.pages.indexOf(page) + 1;
      this.next = next;
      page.end = next === null ? null : (rows.at(-1) ?? null);
    }
    const top = this.pages[0] === page && this.order === "newest" && had;
    this.publish({ arrivedAbove: this.snapshot.arrivedAbove + (top ? Math.max(0, page.count - before) : 0) });
  }

  private open(answer: Answer, arriving = false): void {
    if (arriving && this.opened) {
      const top = this.pages[0]?.rows?.[0] ?? null;
      this.note(answer.rows.filter((r) => top === null || this.compare(r, top) < 0));
    }
    this.opened = true;
    this.pages = [];
    this.prev = answer.prev;
    this.append(null, answer, { arrivedAbove: 0, overflow: false });
  }

  private append(cursor: string | null, answer: Answer, patch: Partial<Snapshot> = {}): void {
    const { rows, next } = answer;
    const end = next === null ? null : (rows.at(-1) ?? null);
    this.pages.push({ cursor, rows, count: rows.length, end, stale: false, seen: ++this.clock });
    this.next = next;
    this.giveUpOld();
    this.publish(patch);
  }

  private resize(page: Page): void {
    page.count = page.rows?.length ?? page.count;
  }

  private note(rows: readonly Row[]): void {
    const now = Date.now();
    this.arrivals += rows.length;
    for (const r of rows) this.arrived.set(r.key, now);
    for (const key of this.arrived.keys()) {
      if (this.arrived.size <= arrivedKept) break;
      this.arrived.delete(key);
    }
  }

  private giveUpOld(): void {
    // The first page stays: rows arrive in it.
    const held = this.pages.slice(1).filter((p) => p.rows !== null);
    if (held.length < residentPages) return;
    held.sort((a, b) => a.seen - b.seen);
    for (const page of held.slice(0, held.length - residentPages + 1)) if (page.seen !== this.clock) page.rows = null;
  }

  private pageAt(index: number): number {
    let low = 0;
    let high = this.starts.length - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if ((this.starts[mid] ?? 0) <= index) low = mid;
      else high = mid - 1;
    }
    return low;
  }

  private async ask(cursor: string | null, limit: number): Promise<Answer> {
    const answer = await this.fetchPage({ cursor, limit }, this.aborter.signal);
    this.aborter.signal.throwIfAborted();
    const columns = merged(this.snapshot.columns, answer.columns);
    const { tookMs, bytesRead, liveRows } = answer;
    this.snapshot = { ...this.snapshot, columns, tookMs, bytesRead, liveRows };
    return answer;
  }

  /** Queues a request, once for each name. */
  private run(name: string, work: () => Promise<void>): Promise<void> {
    const waiting = this.pending.get(name);
    if (waiting) return waiting;
    this.waiting++;
    if (!this.snapshot.loading) this.publish({ loading: true });
    const done = this.queue.then(async () => {
      this.pending.delete(name);
      if (this.aborter.signal.aborted) return;
      let error: unknown = null;
      try {
        await work();
      } catch (err) {
        error = err;
      }
      this.waiting--;
      if (!this.aborter.signal.aborted) this.publish({ loading: this.waiting > 0, error });
    });
    this.queue = done;
    this.pending.set(name, done);
    return done;
  }

  private publish(patch: Partial<Snapshot>): void {
    this.starts = [];
    let total = 0;
    for (const page of this.pages) {
      this.starts.push(total);
      total += page.count;
    }
    const atEnd = this.opened && this.next === null;
    this.snapshot = { ...this.snapshot, ...patch, total, atEnd, version: this.snapshot.version + 1 };
    for (const watch of this.watchers) watch();
  }
}

/** Columns stay where they are; new ones come behind them. */
function merged(have: readonly string[] | null, got: readonly string[]): readonly string[] {
  if (have === null) return got;
  const known = new Set(have);
  const more = got.filter((c) => !known.has(c));
  return more.length === 0 ? have : [...have, ...more];
}
