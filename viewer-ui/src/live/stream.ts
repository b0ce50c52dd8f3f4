import { type DomainEvent, decodeEvent, eventTypes } from "./events";
import { Rate } from "./rate";

export type LiveState =
  | { readonly kind: "connecting" }
  | { readonly kind: "live"; readonly perSecond: number }
  | { readonly kind: "reset" }
  | { readonly kind: "paused" }
  | { readonly kind: "reconnecting"; readonly since: number; readonly lastEventAt: number | null }
  | { readonly kind: "lost"; readonly since: number; readonly lastEventAt: number | null };

/** Why everything is read again. */
export type Refresh = "reconnected" | "reset" | "resumed" | "poll";

export type Signal =
  | { readonly kind: "event"; readonly event: DomainEvent }
  | { readonly kind: "refresh"; readonly why: Refresh; readonly awayMs: number };

/** What the stream needs of an EventSource. */
export interface EventConnection {
  readonly readyState: number;
  addEventListener(type: string, tell: (e: MessageEvent) => void): void;
  close(): void;
}

const closed = 2;
const lostAfter = 30_000;
const resetShownFor = 4_000;
const pollEvery = 10_000;

/**
 * The one event stream of a tab. It reconnects by itself, says what state it is in, and tells its listeners to read
 * everything again after whatever it may have missed: so nothing hangs on the replay of events. While it is down they
 * are told so every ten seconds: a proxy that holds the stream back does not hold the rows back.
 */
export class LiveStream {
  private readonly open: () => EventConnection;
  private readonly probe: () => void;
  private connection: EventConnection | null = null;
  private state: LiveState = { kind: "connecting" };
  private rate = new Rate();
  private lastEventAt: number | null = null;
  private downSince: number | null = null;
  private attempts = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private tick: ReturnType<typeof setInterval> | undefined;
  private everLive = false;
  private hidden = false;
  private lastPoll = 0;
  private resetAt = 0;
  private readonly watchers = new Set<() => void>();
  private readonly listeners = new Set<(s: Signal) => void>();

  /** probe is called when a connection is refused for good: its answer tells whether a token is needed. */
  constructor(open: () => EventConnection, probe: () => void) {
    this.open = open;
    this.probe = probe;
  }

  readonly subscribe = (watch: () => void): (() => void) => {
    this.watchers.add(watch);
    return () => this.watchers.delete(watch);
  };

  readonly getState = (): LiveState => this.state;

  listen(tell: (s: Signal) => void): () => void {
    this.listeners.add(tell);
    return () => this.listeners.delete(tell);
  }

  start(hidden: boolean): void {
    this.hidden = hidden;
    this.lastPoll = Date.now();
    this.tick = setInterval(() => this.onTick(), 1000);
    if (hidden) this.set({ kind: "paused" });
    else this.connect();
  }

  stop(): void {
    clearInterval(this.tick);
    this.disconnect();
  }

  /** A hidden tab gives its connection back: a browser has six of them per server. */
  setHidden(hidden: boolean): void {
    if (hidden === this.hidden) return;
    this.hidden = hidden;
    if (hidden) {
      this.disconnect();
      this.downSince = null;
      this.set({ kind: "paused" });
      return;
    }
    this.set({ kind: "connecting" });
    this.connect();
    this.emit({ kind: "refresh", why: "resumed", awayMs: 0 });
  }

  /** Connects at once, as after a token was given. */
  reconnect(): void {
    if (this.hidden) return;
    this.disconnect();
    this.connect();
  }

  private connect(): void {
    const c = this.open();
    this.connection = c;
    const mine = (handle: (e: MessageEvent) => void) => (e: MessageEvent) => {
      if (this.connection === c) handle(e);
    };
    c.addEventListener(
      "connected",
      mine(() => this.onConnected()),
    );
    c.addEventListener(
      "reset",
      mine(() => this.onReset()),
    );
    c.addEventListener(
      "error",
      mine(() => this.onError(c)),
    );
    for (const type of eventTypes)
      c.addEventListener(
        type,
        mine((e) => {
          const event = decodeEvent(type, String(e.data));
          if (event) this.onEvent(event);
        }),
      );
  }

  private disconnect(): void {
    clearTimeout(this.retry);
    this.connection?.close();
    this.connection = null;
  }

  private onConnected(): void {
    const downFor = this.downSince === null ? null : Date.now() - this.downSince;
    const first = !this.everLive;
    this.everLive = true;
    this.downSince = null;
    this.attempts = 0;
    this.setLive();
    if (downFor !== null && !first) this.emit({ kind: "refresh", why: "reconnected", awayMs: downFor });
    // Rows may have come between the first page and this moment.
    else if (first) this.emit({ kind: "refresh", why: "poll", awayMs: 0 });
  }

  private onReset(): void {
    this.everLive = true;
    this.downSince = null;
    this.resetAt = Date.now();
    this.set({ kind: "reset" });
    this.emit({ kind: "refresh", why: "reset", awayMs: 0 });
  }

  private onEvent(event: DomainEvent): void {
    const now = Date.now();
    this.lastEventAt = now;
    if (event.type === "rows_ingested" && event.annotator === null && event.rows !== null) {
      this.rate.add(event.rows, now);
      if (this.state.kind === "live") this.setLive();
    }
    this.emit({ kind: "event", event });
  }

  private onError(c: EventConnection): void {
    this.downSince ??= Date.now();
    this.setDown();
    if (c.readyState !== closed) return; // the browser tries again by itself, with the last id
    // It was refused (a proxy's 502, a 401): a new connection is ours to make.
    this.connection = null;
    clearTimeout(this.retry);
    const wait = Math.min(15_000, 1000 * 2 ** this.attempts++);
    this.retry = setTimeout(() => this.connect(), wait);
    this.probe();
  }

  private onTick(): void {
    const now = Date.now();
    switch (this.state.kind) {
      case "live":
        this.setLive();
        break;
      case "reset":
        if (now - this.resetAt >= resetShownFor) this.setLive();
        break;
      case "reconnecting":
      case "lost":
        this.setDown();
    }
    if (this.state.kind === "live" || this.state.kind === "reset" || this.state.kind === "paused") this.lastPoll = now;
    else if (now - this.lastPoll >= pollEvery) {
      this.lastPoll = now;
      this.emit({ kind: "refresh", why: "poll", awayMs: 0 });
    }
  }

  private setLive(): void {
    const perSecond = this.rate.perSecond(Date.now());
    if (this.state.kind === "live" && this.state.perSecond === perSecond) return;
    this.set({ kind: "live", perSecond });
  }

  private setDown(): void {
    const since = this.downSince ?? Date.now();
    const kind = Date.now() - since >= lostAfter ? "lost" : "reconnecting";
    if (this.state.kind === kind) return;
    this.set({ kind, since, lastEventAt: this.lastEventAt });
  }

  private set(s: LiveState): void {
    this.state = s;
    for (const watch of this.watchers) watch();
  }

  private emit(s: Signal): void {
    for (const tell of [...this.listeners]) tell(s);
  }
}
