import { useState } from "react";
import type { Batch, Column, Layer } from "../../api/datasets";
import { downloadUrl } from "../../api/rows";
import { CopyButton } from "../../components/CopyButton";
import { Popover } from "../../components/Popover";
import { absoluteUrl } from "../../lib/location";
import type { View } from "../../lib/urlState";
import { BatchPicker } from "./BatchPicker";
import { ColumnPicker } from "./ColumnPicker";
import type { Layout } from "./layout";

interface Props {
  readonly view: View;
  readonly dataset: string;
  readonly batches: readonly Batch[];
  readonly layers: readonly Layer[];
  readonly all: readonly string[];
  readonly shown: readonly string[];
  readonly schema: readonly Column[] | undefined;
  readonly layout: Layout;
  readonly onView: (v: View) => void;
  readonly onLayout: (l: Layout) => void;
}

export function Toolbar(p: Props) {
  const { view, layout } = p;
  return (
    <div className="tools" role="toolbar" aria-label="View">
      <fieldset className="seg">
        <legend className="sr">Order</legend>
        {(["newest", "oldest"] as const).map((order) => (
          <button
            key={order}
            type="button"
            aria-pressed={view.order === order}
            onClick={() => p.onView({ ...view, order })}
          >
            {order === "newest" ? "Newest first" : "Oldest first"}
          </button>
        ))}
      </fieldset>
      {p.batches.length > 1 && (
        <BatchPicker batches={p.batches} only={view.only} onChange={(only) => p.onView({ ...view, only })} />
      )}
      <span className="sp" />
      <ColumnPicker
        all={p.all}
        shown={p.shown}
        schema={p.schema}
        layers={p.layers}
        annotators={view.annotators}
        chosen={view.columns !== null || view.annotators.length > 0}
        onChange={(columns, annotators) => p.onView({ ...view, columns, annotators })}
      />
      <span className="vr" />
      <button
        type="button"
        className="btn wide"
        aria-pressed={layout.compact}
        onClick={() => p.onLayout({ ...layout, compact: !layout.compact })}
      >
        Compact
      </button>
      <button
        type="button"
        className="btn wide"
        aria-pressed={layout.wrap}
        onClick={() => p.onLayout({ ...layout, wrap: !layout.wrap })}
      >
        Wrap
      </button>
      <Export view={view} dataset={p.dataset} />
      <CopyButton className="btn line wide" text={() => absoluteUrl(view)} label="Copy link" />
    </div>
  );
}

function Export({ view, dataset }: { readonly view: View; readonly dataset: string }) {
  const source = { dataset, only: view.only, order: view.order, annotators: view.annotators };
  const [what] = useState([
    ["ndjson", "NDJSON", "a line for each row, as it was written, and one at the end"],
    ["csv", "CSV", "for spreadsheets; nested values as JSON"],
  ] as const);
  return (
    <Popover label="Export" title="Export">
      <ul className="menu">
        {what.map(([format, name, note]) => (
          <li key={format}>
            <a href={downloadUrl(source, format)} download={`${dataset}.${format}`}>
              <b>{name}</b>
              <span>{note}</span>
            </a>
          </li>
        ))}
      </ul>
      <p className="note">
        {view.only.length === 0 ? "All rows of the dataset" : "All rows of the chosen batches"}, merged or not, with all
        their columns, in the order of their ids.
      </p>
    </Popover>
  );
}
