import { useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { isApiError } from "../../api/client";
import { getCount, getDataset, getSchema } from "../../api/datasets";
import { beside, getPage, getRow, type Row } from "../../api/rows";
import { Empty } from "../../components/Empty";
import { ErrorStrip } from "../../components/ErrorStrip";
import { KeysDialog } from "../../components/KeysDialog";
import { Notice } from "../../components/Notice";
import { TopBar } from "../../components/TopBar";
import { ViewLink } from "../../components/ViewLink";
import { VisibleText } from "../../components/VisibleText";
import { copyText } from "../../lib/copy";
import { formatCount } from "../../lib/format";
import { stringifyJson } from "../../lib/json";
import { annotatorOf } from "../../lib/layers";
import { absoluteUrl, go } from "../../lib/location";
import { home, type View } from "../../lib/urlState";
import { allColumns, defaultColumns, layOut } from "./columns";
import { type Cursor, Grid, type GridHandle } from "./Grid";
import { recallLayout, rememberLayout, rowHeight } from "./layout";
import { RowStore } from "./rowStore";
import { StatusBar } from "./StatusBar";
import { Toolbar } from "./Toolbar";
import { useKeys } from "./useKeys";
import { useLiveRows } from "./useLiveRows";
import { plain, stored } from "./value";

const Drawer = lazy(() => import("./Drawer"));

interface Props {
  readonly view: View;
  readonly dataset: string;
}

export function DataPage({ view, dataset }: Props) {
  const detail = useQuery({
    queryKey: ["dataset", dataset],
    queryFn: ({ signal }) => getDataset(dataset, signal),
  });
  useEffect(() => {
    document.title = `${dataset} · siltstone`;
  }, [dataset]);

  const missing = isApiError(detail.error) && (detail.error.status === 404 || detail.error.status === 400);
  if (missing && !detail.data)
    return <NoDataset dataset={dataset} error={detail.error} onRetry={() => void detail.refetch()} />;
  return <Rows view={view} dataset={dataset} />;
}

function Rows({ view, dataset }: Props) {
  const store = useRowStore(dataset, view);
  return store ? <Shown key={view.order} view={view} dataset={dataset} store={store} /> : null;
}

/** A store for what the address names; it lives as long as that. */
function useRowStore(dataset: string, view: View): RowStore | null {
  const [store, setStore] = useState<RowStore | null>(null);
  const only = view.only.join("/"); // a batch's name holds no slash
  const layers = view.annotators.join("/"); // nor does an annotator's
  useEffect(() => {
    const parts = (s: string) => (s === "" ? [] : s.split("/"));
    const source = { dataset, only: parts(only), order: view.order, annotators: parts(layers) };
    const opened = new RowStore((r, signal) => getPage(source, r, signal), view.order);
    opened.reload();
    setStore(opened);
    return () => opened.dispose();
  }, [dataset, only, layers, view.order]);
  return store;
}

function Shown({ view, dataset, store }: Props & { readonly store: RowStore }) {
  const queries = useQueryClient();
  const rows = useSyncExternalStore(store.subscribe, store.getSnapshot);
  const detail = useQuery({ queryKey: ["dataset", dataset], queryFn: ({ signal }) => getDataset(dataset, signal) });
  const schema = useQuery({
    queryKey: ["schema", dataset],
    queryFn: ({ signal }) => getSchema(dataset, signal),
    staleTime: 60_000,
  });
  const count = useQuery({
    queryKey: ["count", dataset, view.only],
    queryFn: ({ signal }) => getCount(dataset, view.only, signal),
  });
  const batches = detail.data?.batches ?? [];
  const [layout, setLayout] = useState(recallLayout);
  const [cursor, setCursor] = useState<Cursor | null>(null);
  const [away, setAway] = useState(false);
  const [leftAt, setLeftAt] = useState(0);
  const [keysShown, setKeysShown] = useState(false);
  const [said, setSaid] = useState("");
  const grid = useRef<GridHandle>(null);

  useLiveRows(store, dataset, view.only, view.annotators, () => {
    for (const what of ["dataset", "count"]) void queries.invalidateQueries({ queryKey: [what, dataset] });
  });

  const { columns: all, shown } = useColumns(rows.columns, batches.length, view);
  // Laid out by the first rows there are, and then left alone: columns do not move under the reader.
  const hasRows = rows.total > 0;
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  const laid = useMemo(() => layOut(shown, firstRows(store), view.annotators), [store, shown, hasRows]);

  const openKey = view.row ? `${view.row.batch ?? ""}/${view.row.id}` : null;
  const open = useCallback(
    (row: Row, column: number, how: "open" | "move") => {
      setCursor({ row: row.key, column });
      if (how === "move" && !view.row) return;
      go({ ...view, row: { id: row.id, batch: row.batch } }, view.row ? "replace" : "push");
    },
    [view],
  );
  const close = () => go({ ...view, row: null });

  const at = () => store.indexOf(cursor?.row ?? openKey ?? "");
  function move(by: number | "first" | "last") {
    const from = at();
    const end = rows.total - 1;
    const to = by === "first" ? 0 : by === "last" ? end : from < 0 ? 0 : Math.max(0, Math.min(end, from + by));
    const row = store.row(to);
    if (by === "first") grid.current?.toTop();
    else grid.current?.toIndex(to);
    if (row) open(row, cursor?.column ?? 0, "move");
  }
  async function copy(what: "cell" | "row") {
    const row = store.row(at());
    const column = laid[cursor?.column ?? 0];
    if (!row || !column) return;
    // A cell that was cut is read whole before it is copied.
    const whole = row.clipped.size > 0 ? await readWhole(dataset, row) : row;
    const text = what === "row" ? stringifyJson(stored(whole, view.annotators)) : plain(whole.values.get(column.name));
    setSaid((await copyText(text)) ? `The ${what} was copied.` : `The ${what} could not be copied.`);
  }

  useKeys({
    move,
    side: (by) => {
      const row = store.row(at());
      if (row) setCursor({ row: row.key, column: Math.max(0, Math.min(laid.length - 1, (cursor?.column ?? 0) + by)) });
    },
    screen: () => grid.current?.screen() ?? 10,
    open: () => {
      const row = store.row(at());
      if (row) open(row, cursor?.column ?? 0, "open");
    },
    close: () => view.row && close(),
    copy: (what) => void copy(what),
    help: () => setKeysShown(true),
  });

  const fresh = rows.arrivedAbove - leftAt;
  const held = view.order === "newest" && away;
  const openIndex = openKey === null ? -1 : store.indexOf(openKey);

  return (
    <div className="page">
      <TopBar dataset={dataset} held={held} />
      <main className="data">
        <Toolbar
          view={view}
          dataset={dataset}
          batches={batches}
          layers={detail.data?.layers ?? []}
          all={all}
          shown={shown}
          schema={schema.data}
          layout={layout}
          onView={(v) => go(v, "replace")}
          onLayout={(l) => {
            setLayout(l);
            rememberLayout(l);
          }}
        />
        <div className={view.row ? "main with-drawer" : "main"}>
          <section className="gridwrap" aria-label="Table">
            {rows.error !== null && <ErrorStrip error={rows.error} onRetry={() => store.invalidate()} />}
            <Grid
              store={store}
              order={view.order}
              columns={laid}
              rowHeight={rowHeight(layout)}
              wrap={layout.wrap}
              cursor={cursor}
              open={openKey}
              onPick={open}
              onAway={(now) => {
                setAway(now);
                setLeftAt(store.getSnapshot().arrivedAbove);
              }}
              handle={grid}
            />
            {held && (fresh > 0 || rows.overflow) && (
              <button type="button" className="newpill" onClick={() => move("first")}>
                <i aria-hidden="true" />
                {formatCount(fresh)}
                {rows.overflow && " and more"} new {fresh === 1 ? "row" : "rows"}
              </button>
            )}
            {rows.atEnd && rows.total === 0 && <NoRows view={view} />}
          </section>
          {view.row && (
            <Suspense fallback={<aside className="drawer" aria-label="Row detail" />}>
              <Drawer
                dataset={dataset}
                name={view.row}
                annotators={detail.data?.dataset.annotators ?? []}
                link={() => absoluteUrl({ ...home, dataset, row: view.row })}
                onPrevious={openIndex > 0 ? () => move(-1) : null}
                onNext={openIndex >= 0 && openIndex < rows.total - 1 ? () => move(1) : null}
                onClose={close}
              />
            </Suspense>
          )}
        </div>
      </main>
      <StatusBar store={store} count={count.data} order={view.order} onKeys={() => setKeysShown(true)} />
      <Notice />
      <div className="sr" role="status">
        {said}
      </div>
      {keysShown && <KeysDialog onClose={() => setKeysShown(false)} />}
    </div>
  );
}

function useColumns(answer: readonly string[] | null, batches: number, view: View) {
  const { columns: chosen, annotators } = view;
  const columns = useMemo(() => allColumns(answer ?? [], annotators), [answer, annotators]);
  const names = useMemo(() => {
    // No row that was read may have been annotated: the column is there all the same.
    const wanted = chosen?.filter((c) => columns.includes(c) || annotatorOf(c, annotators) !== null) ?? [];
    return wanted.length > 0 ? wanted : defaultColumns(answer ?? [], batches, annotators);
  }, [answer, batches, chosen, columns, annotators]);
  // The same list as long as it names the same columns: each render of the table hangs on it.
  const key = JSON.stringify(names);
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  const shown = useMemo(() => names, [key]);
  return { columns, shown };
}

function firstRows(store: RowStore): readonly Row[] {
  const out: Row[] = [];
  for (let i = 0; i < 100; i++) {
    const row = store.row(i);
    if (row) out.push(row);
  }
  return out;
}

async function readWhole(dataset: string, row: Row): Promise<Row> {
  return beside(await getRow(dataset, row, AbortSignal.timeout(60_000)));
}

function NoRows({ view }: { readonly view: View }) {
  return (
    <Empty title="No rows yet">
      {view.only.length > 0 ? (
        <>
          <p>The chosen batches hold none.</p>
          <ViewLink className="btn line" to={{ ...view, only: [] }}>
            Show all batches
          </ViewLink>
        </>
      ) : (
        <p>They show here by themselves as soon as their chunk is stored.</p>
      )}
    </Empty>
  );
}

interface NoDatasetProps {
  readonly dataset: string;
  readonly error: unknown;
  readonly onRetry: () => void;
}

function NoDataset({ dataset, error, onRetry }: NoDatasetProps) {
  const nearest = isApiError(error) ? error.nearest : null;
  return (
    <div className="page">
      <TopBar dataset={dataset} />
      <main className="list">
        <Empty title="There is no such dataset">
          {nearest !== null ? (
            <p>
              Did you mean{" "}
              <ViewLink className="link" to={{ ...home, dataset: nearest }}>
                <VisibleText text={nearest} />
              </ViewLink>
              ?
            </p>
          ) : (
            <p>It may have been deleted, or nothing was put into it yet.</p>
          )}
          <div className="empty-end">
            <ViewLink className="btn line" to={home}>
              All datasets
            </ViewLink>
            <button type="button" className="btn" onClick={onRetry}>
              Try again
            </button>
          </div>
        </Empty>
      </main>
    </div>
  );
}
