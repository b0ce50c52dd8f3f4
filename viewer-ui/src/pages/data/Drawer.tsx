import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Annotation, type Found, getRow, type Row } from "../../api/rows";
import { ColumnName } from "../../components/ColumnName";
import { CopyButton } from "../../components/CopyButton";
import { ErrorStrip } from "../../components/ErrorStrip";
import { Icon } from "../../components/Icon";
import { LongText } from "../../components/LongText";
import { useDelayed } from "../../components/useDelayed";
import { VisibleText } from "../../components/VisibleText";
import { compareBytes } from "../../lib/compare";
import { formatCount, formatFull } from "../../lib/format";
import { isArray, isObject, type JsonValue, stringifyJson } from "../../lib/json";
import { recall, remember } from "../../lib/remember";
import type { RowName } from "../../lib/urlState";
import { paragraphs, reading, webAddress } from "./reading";
import { plain, stored } from "./value";

interface Props {
  readonly dataset: string;
  readonly name: RowName;
  /** Those who have a layer of the dataset. */
  readonly annotators: readonly string[];
  readonly link: () => string;
  readonly onPrevious: (() => void) | null;
  readonly onNext: (() => void) | null;
  readonly onClose: () => void;
}

type Mode = "reading" | "raw" | "json";
const modes: readonly (readonly [Mode, string])[] = [
  ["reading", "Reading"],
  ["raw", "Raw"],
  ["json", "JSON"],
];

/** Longer texts are cut until all of them is asked for. */
const proseMost = 20_000;
const fieldMost = 600;

export default function Drawer(p: Props) {
  const { dataset, name } = p;
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["row", dataset, name.batch, name.id],
    queryFn: ({ signal }) => getRow(dataset, name, signal),
  });
  const slow = useDelayed(isPending);
  return (
    <aside className="drawer" aria-label="Row detail">
      <div className="dh">
        <span className="id num" title={name.id}>
          <VisibleText text={name.id} />
        </span>
        <button
          type="button"
          className="icon"
          aria-label="Previous row (k)"
          disabled={!p.onPrevious}
          onClick={() => p.onPrevious?.()}
        >
          <Icon name="up" />
        </button>
        <button
          type="button"
          className="icon"
          aria-label="Next row (j)"
          disabled={!p.onNext}
          onClick={() => p.onNext?.()}
        >
          <Icon name="down" />
        </button>
        <CopyButton className="icon" icon="link" label="Copy link to row" text={p.link} />
        <CopyButton
          className="icon"
          icon="copy"
          label="Copy row as JSON (y)"
          text={() => (data ? stringifyJson(stored(data.row)) : "")}
        />
        <button type="button" className="icon" aria-label="Close (Esc)" onClick={p.onClose}>
          <Icon name="close" size={12} />
        </button>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard */}
      <div className="db" tabIndex={0} role="region" aria-label="Row">
        {error && !data && <ErrorStrip error={error} onRetry={() => void refetch()} />}
        {slow && <DrawerBars />}
        {data && <Body key={data.row.key} found={data} annotators={p.annotators} />}
      </div>
    </aside>
  );
}

function Body({ found, annotators }: { readonly found: Found; readonly annotators: readonly string[] }) {
  const { row, live } = found;
  const [mode, setMode] = useState<Mode>(() => {
    const last = recall("mode");
    return last === "raw" || last === "json" ? last : "reading";
  });
  const parts = reading(row);
  const length = parts.body?.text.length ?? 0;
  return (
    <>
      {parts.title && (
        <h2>
          <VisibleText text={parts.title.text} />
        </h2>
      )}
      <div className="sub">
        <VisibleText text={row.batch} />
        {row.createdAt && <> · {formatFull(row.createdAt)}</>}
        {live && (
          <>
            {" · "}
            <span className="unmerged">
              <i className="sw" aria-hidden="true" />
              not merged yet
            </span>
          </>
        )}
      </div>
      <div className="tx-h">
        <fieldset className="seg">
          <legend className="sr">Text as</legend>
          {modes.map(([m, label]) => (
            <button
              key={m}
              type="button"
              aria-pressed={mode === m}
              onClick={() => {
                setMode(m);
                remember("mode", m);
              }}
            >
              {label}
            </button>
          ))}
        </fieldset>
        {parts.body && (
          <span>
            <ColumnName name={parts.body.name} /> · {formatCount(length)} characters
          </span>
        )}
      </div>
      {mode === "reading" && <AsReading row={row} />}
      {mode === "raw" && <AsRaw row={row} />}
      {mode === "json" && (
        <pre className="code">
          <LongText text={stringifyJson(stored(row), 2)} most={proseMost} />
        </pre>
      )}
      <Annotations annotations={found.annotations} annotators={annotators} />
    </>
  );
}

function AsReading({ row }: { readonly row: Row }) {
  const { body, rest } = reading(row);
  return (
    <>
      {body && <Prose text={body.text} />}
      {rest.length > 0 && <Fields fields={rest} />}
    </>
  );
}

function Prose({ text }: { readonly text: string }) {
  const [all, setAll] = useState(false);
  const cut = !all && text.length > proseMost;
  const shown = cut ? text.slice(0, proseMost).toWellFormed() : text;
  return (
    <div className={/\S{400}/.test(shown) ? "prose endless" : "prose"}>
      {paragraphs(shown).map((paragraph, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: paragraphs have no other name, and do not move
        <p key={i} dir="auto">
          <VisibleText text={paragraph} />
        </p>
      ))}
      {cut && (
        <button type="button" className="link" onClick={() => setAll(true)}>
          Show all {formatCount(text.length)} characters
        </button>
      )}
    </div>
  );
}

function AsRaw({ row }: { readonly row: Row }) {
  return (
    <dl className="raw">
      {[...stored(row)].map(([name, v]) => (
        <div key={name}>
          <dt>
            <ColumnName name={name} />
            <CopyButton className="icon" icon="copy" label={`Copy ${name}`} text={() => plain(v)} />
          </dt>
          <dd>
            <LongText text={plain(v)} most={proseMost} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Fields({ fields }: { readonly fields: readonly (readonly [string, JsonValue])[] }) {
  return (
    <dl className="kv">
      {fields.map(([name, v]) => (
        <div key={name}>
          <dt>
            <ColumnName name={name} />
          </dt>
          <dd className={typeof v === "string" ? undefined : "num"}>
            <FieldValue value={v} />
            <CopyButton className="icon" icon="copy" label={`Copy ${name}`} text={() => plain(v)} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** What each annotator wrote of the row; one who has not come to it yet is named all the same. */
function Annotations({
  annotations,
  annotators,
}: {
  readonly annotations: Found["annotations"];
  readonly annotators: readonly string[];
}) {
  const names = [...new Set([...annotators, ...annotations.keys()])].sort(compareBytes);
  return names.map((name) => {
    const note = annotations.get(name);
    return (
      <section key={name} className="annotation" aria-label={`Annotation by ${name}`}>
        <div className="name">{name}</div>
        {note ? <AnnotationBody note={note} /> : <p className="quiet">not annotated yet</p>}
      </section>
    );
  });
}

function AnnotationBody({ note }: { readonly note: Annotation }) {
  const { data, metadata } = note;
  return (
    <>
      <div className="sub">
        {note.createdAt && formatFull(note.createdAt)}
        {note.live && (
          <>
            {note.createdAt && " · "}
            <span className="unmerged">
              <i className="sw" aria-hidden="true" />
              not merged yet
            </span>
          </>
        )}
      </div>
      {isObject(data) && data.size > 0 ? <Fields fields={[...data]} /> : <p className="quiet">no fields</p>}
      {metadata.size > 0 && (
        <details>
          <summary>Metadata</summary>
          <Fields fields={[...metadata]} />
        </details>
      )}
    </>
  );
}

function FieldValue({ value }: { readonly value: JsonValue }) {
  if (value === "") return <span className="quiet">empty</span>;
  const href = webAddress(value);
  if (href !== null)
    return (
      <a className="link" href={href} target="_blank" rel="noopener noreferrer">
        <VisibleText text={String(value)} />
      </a>
    );
  const nested = isArray(value) || isObject(value);
  return <LongText text={nested ? stringifyJson(value, 1).replace(/\n\s*/g, " ") : plain(value)} most={fieldMost} />;
}

function DrawerBars() {
  return (
    <div className="bars" role="status" aria-label="Loading">
      {[80, 45, 95, 92, 97, 60].map((width) => (
        <i key={width} style={{ width: `${width}%` }} />
      ))}
    </div>
  );
}
