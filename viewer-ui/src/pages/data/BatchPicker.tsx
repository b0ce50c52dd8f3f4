import { useState } from "react";
import type { Batch } from "../../api/datasets";
import { Popover } from "../../components/Popover";
import { VisibleText } from "../../components/VisibleText";
import { formatCount } from "../../lib/format";

interface Props {
  readonly batches: readonly Batch[];
  readonly only: readonly string[];
  readonly onChange: (only: readonly string[]) => void;
}

/** More than this is found by typing. */
const mostListed = 200;

export function BatchPicker({ batches, only, onChange }: Props) {
  const [typed, setTyped] = useState("");
  const found = batches.filter((b) => b.name.toLowerCase().includes(typed.toLowerCase()));
  const chosen = new Set(only);
  const label = only.length === 0 ? "all" : only.length === 1 ? only[0] : `${only.length} of ${batches.length}`;
  return (
    <Popover
      title="Batches"
      label={
        <>
          Batches{" "}
          <em>
            <VisibleText text={label ?? ""} />
          </em>
        </>
      }
    >
      <div className="pick-head">
        <input
          type="search"
          aria-label="Find a batch"
          placeholder="Find"
          value={typed}
          onChange={(e) => setTyped(e.target.value)}
        />
        <button type="button" className="link" disabled={only.length === 0} onClick={() => onChange([])}>
          All batches
        </button>
      </div>
      <ul className="pick">
        {found.slice(0, mostListed).map((b) => (
          <li key={b.name}>
            <label>
              <input
                type="checkbox"
                checked={chosen.has(b.name)}
                onChange={() => onChange(chosen.has(b.name) ? only.filter((n) => n !== b.name) : [...only, b.name])}
              />
              <span className="flow">
                <VisibleText text={b.name} />
              </span>
              <small>{b.generation === 0 ? "not merged yet" : formatCount(b.rows)}</small>
            </label>
          </li>
        ))}
      </ul>
      {found.length > mostListed && (
        <p className="note">{formatCount(found.length - mostListed)} more: type to find them.</p>
      )}
    </Popover>
  );
}
