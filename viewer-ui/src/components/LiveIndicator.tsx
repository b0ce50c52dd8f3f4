import { useEffect, useState } from "react";
import { assertNever } from "../lib/assertNever";
import { formatRate, formatSpan } from "../lib/format";
import { useLiveState } from "../live/LiveProvider";
import type { LiveState } from "../live/stream";

interface Shown {
  readonly kind: LiveState["kind"] | "held";
  readonly word: string;
  readonly detail: string;
}

/** Says in a word whether new rows show. Held: the reader is away from where they arrive. */
export function LiveIndicator({ held }: { readonly held: boolean }) {
  const state = useLiveState();
  const now = useClock(state.kind === "reconnecting" || state.kind === "lost");
  const shown = describe(state, held, now);
  return (
    <div className={`live is-${shown.kind}`} title={shown.detail}>
      <i className="dot" aria-hidden="true" />
      <span role="status">{shown.word}</span>
      <span className="live-detail">{shown.detail}</span>
    </div>
  );
}

function describe(state: LiveState, held: boolean, now: number): Shown {
  switch (state.kind) {
    case "connecting":
      return { kind: state.kind, word: "Connecting", detail: "" };
    case "live":
      if (held) return { kind: "held", word: "Held", detail: "You scrolled; rows wait above" };
      return { kind: state.kind, word: "Live", detail: state.perSecond > 0 ? formatRate(state.perSecond) : "" };
    case "reset":
      return { kind: state.kind, word: "Read anew", detail: "Events were missed" };
    case "paused":
      return { kind: state.kind, word: "Paused", detail: "Tab hidden; resumes on return" };
    case "reconnecting":
      return { kind: state.kind, word: "Reconnecting", detail: since(state.lastEventAt ?? state.since, state, now) };
    case "lost":
      return { kind: state.kind, word: "Connection lost", detail: since(state.lastEventAt ?? state.since, state, now) };
    default:
      return assertNever(state);
  }
}

function since(at: number, state: { readonly lastEventAt: number | null }, now: number): string {
  return `${state.lastEventAt === null ? "Down for" : "Last row"} ${formatSpan(now - at)}${state.lastEventAt === null ? "" : " ago"}`;
}

function useClock(running: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!running) return;
    setNow(Date.now());
    const tick = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(tick);
  }, [running]);
  return now;
}
