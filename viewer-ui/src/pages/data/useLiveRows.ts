import { useEffect, useMemo, useRef } from "react";
import { isApiError } from "../../api/client";
import { throttle } from "../../lib/throttle";
import { useLiveSignal } from "../../live/LiveProvider";
import type { RowStore } from "./rowStore";

/** Keeps a store up with what the server says happens. changed is called when numbers about the dataset may be others. */
export function useLiveRows(
  store: RowStore,
  dataset: string,
  only: readonly string[],
  annotators: readonly string[],
  changed: () => void,
): void {
  const latest = useRef(changed);
  useEffect(() => {
    latest.current = changed;
  });

  const todo = useMemo(() => {
    // Rows that were announced and did not come at the place for new rows: they have ids of their own, and lie anywhere.
    let announced = 0;
    const anywhere = throttle(() => store.invalidate(), 3000);
    const pull = throttle(() => {
      const expected = announced;
      announced = 0;
      void store.pull().then((got) => {
        if (got < expected) anywhere();
      });
    }, 150);
    return {
      ingested: (rows: number | null) => {
        announced += rows ?? 1;
        pull();
      },
      merged: throttle(() => store.invalidate(), 1000),
      changed: throttle(() => latest.current(), 1000),
    };
  }, [store]);

  useLiveSignal((s) => {
    if (s.kind === "refresh") {
      store.invalidate();
      todo.changed();
      return;
    }
    const e = s.event;
    if (e.dataset !== dataset) return;
    todo.changed();
    if (only.length > 0 && !only.includes(e.batch)) return;
    if (e.annotator !== null) {
      // Annotations change rows that are there: those that are seen are read again.
      if (annotators.includes(e.annotator)) todo.merged();
      return;
    }
    if (e.type === "rows_ingested") todo.ingested(e.rows);
    // The second comes when every reader of the catalog knows of the merge, the first perhaps before.
    if (e.type === "batch_merged" || e.type === "index_refreshed") todo.merged();
  });

  // A busy server says when it wants to be asked again.
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = store.subscribe(() => {
      const { error } = store.getSnapshot();
      if (timer !== undefined || !isApiError(error) || error.status !== 503) return;
      timer = setTimeout(() => {
        timer = undefined;
        store.invalidate();
      }, error.retryAfter ?? 2000);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [store]);
}
