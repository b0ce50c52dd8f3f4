import { useState } from "react";
import type { Column } from "../../api/datasets";
import { ColumnName } from "../../components/ColumnName";
import { Popover } from "../../components/Popover";
import { typeWords } from "./columns";

interface Props {
  readonly all: readonly string[];
  readonly shown: readonly string[];
  readonly schema: readonly Column[] | undefined;
  /** They were chosen, and are not the default ones. */
  readonly chosen: boolean;
  readonly onChange: (columns: readonly string[] | null) => void;
}

const mostListed = 300;

export function ColumnPicker({ all, shown, schema, chosen, onChange }: Props) {
  const [typed, setTyped] = useState("");
  const visible = new Set(shown);
  const found = all.filter((c) => c.toLowerCase().includes(typed.toLowerCase()));
  return (
    <Popover
      title="Columns"
      label={
        <>
          Columns{" "}
          <em>
            {shown.length} of {all.length}
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
        <button type="button" className="link" disabled={!chosen} onClick={() => onChange(null)}>
          Reset
        </button>
      </div>
      <ul className="pick">
        {found.slice(0, mostListed).map((name) => (
          <li key={name}>
            <label>
              <input
                type="checkbox"
                checked={visible.has(name)}
                // The last one stays: a table without columns is none.
                disabled={visible.has(name) && shown.length === 1}
                onChange={() => onChange(all.filter((c) => (c === name ? !visible.has(c) : visible.has(c))))}
              />
              <span className="flow">
                <ColumnName name={name} />
              </span>
              <small>{typeWords(schema, name)}</small>
            </label>
          </li>
        ))}
      </ul>
      {found.length > mostListed && <p className="note">{found.length - mostListed} more: type to find them.</p>}
    </Popover>
  );
}
