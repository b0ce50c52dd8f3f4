import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type EventConnection, LiveStream, type Signal } from "./stream";

class FakeConnection implements EventConnection {
  readyState = 0;
  private readonly tells = new Map<string, (e: MessageEvent) => void>();
  addEventListener(type: string, tell: (e: MessageEvent) => void): void {
    this.tells.set(type, tell);
  }
  close(): void {
    this.readyState = 2;
  }
  send(type: string, data: unknown = {}): void {
    this.tells.get(type)?.(new MessageEvent(type, { data: typeof data === "string" ? data : JSON.stringify(data) }));
  }
  fail(readyState: number): void {
    this.readyState = readyState;
    this.send("error");
  }
}

let made: FakeConnection[];
let signals: Signal[];
let probes: number;
let stream: LiveStream;

beforeEach(() => {
  vi.useFakeTimers();
  made = [];
  signals = [];
  probes = 0;
  stream = new LiveStream(
    () => {
      const c = new FakeConnection();
      made.push(c);
      return c;
    },
    () => {
      probes++;
    },
  );
  stream.listen((s) => signals.push(s));
  stream.start(false);
});

afterEach(() => {
  stream.stop();
  vi.useRealTimers();
});

const last = () => made.at(-1) as FakeConnection;
const rows = (n: number | null) => ({ dataset: "d", batch: "b", annotator: null, rows: n });

test("it is connecting, then live with the rate of the last ten seconds", () => {
  expect(stream.getState().kind).toBe("connecting");
  last().send("connected");
  expect(stream.getState()).toEqual({ kind: "live", perSecond: 0 });
  last().send("rows_ingested", rows(30));
  last().send("rows_ingested", rows(null));
  last().send("rows_ingested", { ...rows(100), annotator: "a" });
  expect(stream.getState()).toEqual({ kind: "live", perSecond: 3 });
  expect(signals.filter((s) => s.kind === "event")).toHaveLength(3);
  vi.advanceTimersByTime(12_000);
  expect(stream.getState()).toEqual({ kind: "live", perSecond: 0 });
});

test("what is no event is passed over", () => {
  last().send("connected");
  signals.length = 0;
  for (const data of ["", "nonsense", "[]", "{}", `{"dataset":1,"batch":"b"}`]) last().send("rows_ingested", data);
  expect(signals).toEqual([]);
});

test("after a cut it says so, and then has everything read again", () => {
  last().send("connected");
  signals.length = 0;
  last().fail(0);
  expect(stream.getState().kind).toBe("reconnecting");
  vi.advanceTimersByTime(5_000);
  last().send("connected");
  expect(stream.getState().kind).toBe("live");
  expect(signals).toEqual([{ kind: "refresh", why: "reconnected", awayMs: 5_000 }]);
  expect(made).toHaveLength(1);
});

test("a connection that is refused is made anew, and asked about", () => {
  last().fail(2);
  expect(probes).toBe(1);
  vi.advanceTimersByTime(1_000);
  expect(made).toHaveLength(2);
  last().fail(2);
  vi.advanceTimersByTime(1_000);
  expect(made).toHaveLength(2);
  vi.advanceTimersByTime(1_000);
  expect(made).toHaveLength(3);
});

test("after half a minute the connection is lost; rows are asked for meanwhile", () => {
  last().send("connected");
  signals.length = 0;
  last().fail(0);
  vi.advanceTimersByTime(31_000);
  expect(stream.getState().kind).toBe("lost");
  expect(signals.filter((s) => s.kind === "refresh" && s.why === "poll")).toHaveLength(3);
});

test("a stream that never speaks does not keep rows away", () => {
  vi.advanceTimersByTime(10_000);
  expect(signals).toEqual([{ kind: "refresh", why: "poll", awayMs: 0 }]);
});

test("a reset is shown for a moment", () => {
  last().send("connected");
  signals.length = 0;
  last().send("reset");
  expect(stream.getState().kind).toBe("reset");
  expect(signals).toEqual([{ kind: "refresh", why: "reset", awayMs: 0 }]);
  vi.advanceTimersByTime(5_000);
  expect(stream.getState().kind).toBe("live");
});

test("a hidden tab gives its connection back and catches up on return", () => {
  last().send("connected");
  signals.length = 0;
  const first = last();
  stream.setHidden(true);
  expect(stream.getState().kind).toBe("paused");
  expect(first.readyState).toBe(2);
  first.send("rows_ingested", rows(1));
  vi.advanceTimersByTime(60_000);
  expect(signals).toEqual([]);
  stream.setHidden(false);
  expect(made).toHaveLength(2);
  expect(signals).toEqual([{ kind: "refresh", why: "resumed", awayMs: 0 }]);
});
