import { useState } from "react";
import type { Column, Layer } from "../../api/datasets";
import { ColumnName } from "../../components/ColumnName";
import { Popover } from "../../components/Popover";
import { formatShare } from "../../lib/format";
import { annotatorOf, fieldOf } from "../../lib/layers";
import { type ColumnGroup, groupColumns, typeWords } from "./columns";

interface Props {
  readonly all: readonly string[];
  readonly shown: readonly string[];
  readonly schema: readonly Column[] | undefined;
  readonly layers: readonly Layer[];
  /** Those whose layers the view has. */
  readonly annotators: readonly string[];
  /** They were chosen, and are not the default ones. */
  readonly chosen: boolean;
  readonly onChange: (columns: readonly string[] | null, annotators: readonly string[]) => void;
}

const mostListed = 300;

export function ColumnPicker({ all, shown, schema, layers, annotators, chosen, onChange }: Props) {
  const [typed, setTyped] = useState("");
  const groups = groupColumns(all, schema, layers, annotators);
  const total = groups.reduce((sum, g) => sum + g.columns.length, 0);
  const visible = new Set(shown);
  const found = groups.map((g) => ({
    ...g,
    columns: g.columns.filter((c) => c.toLowerCase().includes(typed.toLowerCase())),
  }));
  let left = mostListed;
  let hidden = 0;
  const listed = found.map((g) => {
    const columns = g.columns.slice(0, left);
    left -= columns.length;
    hidden += g.columns.length - columns.length;
    return { ...g, columns };
  });

  /** Shows or hides columns; the layers of those that show come along, and no others. */
  function set(names: readonly string[], on: boolean) {
    const next = new Set(shown);
    for (const name of names) {
      if (on) next.add(name);
      else next.delete(name);
    }
    if (next.size === 0) return; // a table without columns is none
    const columns = groups.flatMap((g) => g.columns).filter((c) => next.has(c));
    const known = groups.flatMap((g) => (g.annotator === null ? [] : [g.annotator]));
    const own = new Set(groups[0]?.columns);
    onChange(
      columns,
      known.filter((a) => columns.some((c) => !own.has(c) && annotatorOf(c, known) === a)),
    );
  }

  return (
    <Popover
      title="Columns"
      label={
        <>
          Columns{" "}
          <em>
            {shown.length} of {total}
          </em>
        </>
      }
    >
      <div className="pick-head">
        <input
          type="search"
          aria-label="Find a column"
          placeholder="Find"
          value={typed}
          onChange={(e) => setTyped(e.target.value)}
        />
        <button type="button" className="link" disabled={!chosen} onClick={() => onChange(null, [])}>
          Reset
        </button>
      </div>
      {listed.map((g, i) => (
        <Group
          key={g.annotator ?? ""}
          group={g}
          whole={groups[i]?.columns ?? []}
          alone={groups.length === 1}
          visible={visible}
          schema={schema}
          onSet={set}
        />
      ))}
      {hidden > 0 && <p className="note">{hidden} more: type to find them.</p>}
    </Popover>
  );
}

interface GroupProps {
  readonly group: ColumnGroup;
  /** All of its columns, found or not. */
  readonly whole: readonly string[];
  /** There is no other. */
  readonly alone: boolean;
  readonly visible: ReadonlySet<string>;
  readonly schema: readonly Column[] | undefined;
  readonly onSet: (names: readonly string[], on: boolean) => void;
}

function Group({ group, whole, alone, visible, schema, onSet }: GroupProps) {
  const { annotator, layer, columns } = group;
  const on = whole.filter((c) => visible.has(c)).length;
  return (
    <fieldset className="pick-group">
      <legend className={alone ? "sr" : undefined}>{annotator ?? "Base columns"}</legend>
      {annotator !== null && (
        <div className="pick-layer">
          <span>{layerWords(layer)}</span>
          {whole.length > 0 && (
            <button type="button" className="link" onClick={() => onSet(whole, on < whole.length)}>
              {on < whole.length ? "Show all" : "Hide all"}
              <span className="sr"> of {annotator}</span>
            </button>
          )}
        </div>
      )}
      <ul className="pick">
        {columns.map((name) => (
          <li key={name}>
            <label>
              <input
                type="checkbox"
                checked={visible.has(name)}
                // The last one stays: a table without columns is none.
                disabled={visible.has(name) && visible.size === 1}
                onChange={() => onSet([name], !visible.has(name))}
              />
              <span className="flow">
                {annotator !== null && <span className="sr">{annotator}.</span>}
                <ColumnName name={fieldOf(name, annotator)} />
              </span>
              <small>{typeWords(schema, name, annotator)}</small>
            </label>
          </li>
        ))}
      </ul>
    </fieldset>
  );
}

function layerWords(layer: Layer | null): string {
  if (!layer) return "no annotations";
  const some = layer.liveRows === null || layer.liveRows > 0;
  return `${formatShare(layer.share)} of rows${some ? ", and some not merged yet" : ""}`;
}
