import { useSyncExternalStore } from "react";
import type { Count } from "../../api/datasets";
import { formatBytes, formatCount, plural } from "../../lib/format";
import type { Order } from "../../lib/urlState";
import type { RowStore } from "./rowStore";

interface Props {
  readonly store: RowStore;
  readonly count: Count | undefined;
  readonly order: Order;
  readonly onKeys: () => void;
}

export function StatusBar({ store, count, order, onKeys }: Props) {
  const s = useSyncExternalStore(store.subscribe, store.getSnapshot);
  const n = count?.count ?? (s.atEnd ? s.total : null);
  return (
    <footer className="status">
      {n !== null && (
        <span>
          {count?.exact === false && "about "}
          <b>{formatCount(n)}</b> {n === 1 ? "row" : "rows"}
        </span>
      )}
      {(s.liveRows ?? 0) > 0 && (
        <span className="unmerged">
          <i className="sw" aria-hidden="true" />
          {formatCount(s.liveRows ?? 0)} not merged yet
        </span>
      )}
      {s.columns !== null && (
        <span className="wide" title="The newest request for rows">
          {plural(Math.max(1, Math.round(s.tookMs)), "ms", "ms")} · {formatBytes(s.bytesRead)} read
        </span>
      )}
      <span className="wide">
        sorted by <b>id</b> {order === "newest" ? "↓" : "↑"}
      </span>
      <span className="sp" />
      <span className="k">
        <kbd>j</kbd>
        <kbd>k</kbd> move
      </span>
      <span className="k">
        <kbd>↵</kbd> open
      </span>
      <button type="button" className="k" onClick={onKeys}>
        <kbd>?</kbd> all keys
      </button>
    </footer>
  );
}
