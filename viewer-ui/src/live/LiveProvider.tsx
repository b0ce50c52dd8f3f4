import { createContext, type ReactNode, useContext, useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { apiUrl, getJson } from "../api/client";
import { type LiveState, LiveStream, type Signal } from "./stream";

const Live = createContext<LiveStream | null>(null);

interface Props {
  /** Events of this dataset only; of all for null. */
  readonly dataset: string | null;
  readonly children: ReactNode;
}

/** Owns the one EventSource of the tab. */
export function LiveProvider({ dataset, children }: Props) {
  const stream = useMemo(() => {
    const q = new URLSearchParams();
    if (dataset !== null) q.set("dataset", dataset);
    return new LiveStream(
      () => new EventSource(apiUrl("events", q)),
      () => {
        getJson("datasets", undefined, AbortSignal.timeout(10_000)).catch(() => undefined);
      },
    );
  }, [dataset]);

  useEffect(() => {
    const onVisibility = () => stream.setHidden(document.hidden);
    stream.start(document.hidden);
    document.addEventListener("visibilitychange", onVisibility);
    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      stream.stop();
    };
  }, [stream]);

  return <Live.Provider value={stream}>{children}</Live.Provider>;
}

export function useLiveStream(): LiveStream {
  const stream = useContext(Live);
  if (!stream) throw new Error("used outside LiveProvider");
  return stream;
}

export function useLiveState(): LiveState {
  const stream = useLiveStream();
  return useSyncExternalStore(stream.subscribe, stream.getState);
}

/** Calls tell for each signal; a new function each time is fine. */
export function useLiveSignal(tell: (s: Signal) => void): void {
  const stream = useLiveStream();
  const latest = useRef(tell);
  useEffect(() => {
    latest.current = tell;
  });
  useEffect(() => stream.listen((s) => latest.current(s)), [stream]);
}
