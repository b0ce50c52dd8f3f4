import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { type Dataset, getDatasets } from "../../api/datasets";
import { Empty } from "../../components/Empty";
import { ErrorStrip } from "../../components/ErrorStrip";
import { Notice } from "../../components/Notice";
import { TopBar } from "../../components/TopBar";
import { useDelayed } from "../../components/useDelayed";
import { ViewLink } from "../../components/ViewLink";
import { VisibleText } from "../../components/VisibleText";
import { formatAgo, formatBytes, formatCount, formatFull, plural } from "../../lib/format";
import { throttle } from "../../lib/throttle";
import { home } from "../../lib/urlState";
import { useLiveSignal } from "../../live/LiveProvider";

export function DatasetsPage() {
  const queries = useQueryClient();
  const { data, error, isPending, refetch } = useQuery({
    queryKey: ["datasets"],
    queryFn: ({ signal }) => getDatasets(signal),
  });
  const slow = useDelayed(isPending);
  const [refresh] = useState(() => throttle(() => void queries.invalidateQueries({ queryKey: ["datasets"] }), 1000));
  useLiveSignal(refresh);

  useEffect(() => {
    document.title = "Datasets · siltstone";
  }, []);

  return (
    <div className="page">
      <TopBar dataset={null} />
      <main className="list">
        <div className="list-in">
          <div className="list-head">
            <h1>Datasets</h1>
            {data && data.length > 0 && <span>{summary(data)}</span>}
          </div>
          {error && <ErrorStrip error={error} onRetry={() => void refetch()} />}
          {slow && <Bars />}
          {data?.length === 0 && <NoDatasets />}
          {data && data.length > 0 && <Table datasets={data} />}
        </div>
      </main>
      <Notice />
    </div>
  );
}

function Table({ datasets }: { readonly datasets: readonly Dataset[] }) {
  const now = useMinute();
  return (
    <section className="card" aria-label="Datasets">
      <table className="sheet">
        <thead>
          <tr>
            <th scope="col">Dataset</th>
            <th scope="col" className="right">
              Rows
            </th>
            <th scope="col" className="right">
              Not merged yet
            </th>
            <th scope="col" className="right wide">
              Batches
            </th>
            <th scope="col" className="right wide">
              Stored
            </th>
            <th scope="col" className="right wide">
              Merged
            </th>
          </tr>
        </thead>
        <tbody>
          {datasets.map((d) => (
            <tr key={d.name}>
              <th scope="row">
                <ViewLink to={{ ...home, dataset: d.name }}>
                  <VisibleText text={d.name} />
                </ViewLink>
              </th>
              <td className="right num">{formatCount(d.rows + (d.liveRows ?? 0))}</td>
              <td className="right num">
                <Live rows={d.liveRows} />
              </td>
              <td className="right num wide">{formatCount(d.batches)}</td>
              <td className="right num wide">
                {d.bytes === 0 ? <span className="quiet">–</span> : formatBytes(d.bytes)}
              </td>
              <td className="right wide">
                {d.updatedAt ? (
                  <time dateTime={d.updatedAt.toISOString()} title={formatFull(d.updatedAt)}>
                    {formatAgo(d.updatedAt.getTime(), now)}
                  </time>
                ) : (
                  <span className="quiet">not yet</span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Live({ rows }: { readonly rows: number | null }) {
  if (rows === 0) return <span className="quiet">–</span>;
  return (
    <span className="unmerged">
      <i className="sw" aria-hidden="true" />
      {rows === null ? "some" : formatCount(rows)}
    </span>
  );
}

function NoDatasets() {
  return (
    <Empty title="No datasets yet">
      <p>Rows that are put show here by themselves. In a shell:</p>
      <pre>
        <code>echo '{'{"text":"hello"}'}' | siltstone put greetings --batch first</code>
      </pre>
    </Empty>
  );
}

function Bars() {
  return (
    <div className="card bars" role="status" aria-label="Loading">
      {[62, 48, 55].map((width) => (
        <div key={width}>
          <i style={{ width: `${width / 2}%` }} />
          <i style={{ width: "8%" }} />
          <i style={{ width: "8%" }} />
        </div>
      ))}
    </div>
  );
}

function summary(datasets: readonly Dataset[]): string {
  const rows = datasets.reduce((n, d) => n + d.rows + (d.liveRows ?? 0), 0);
  return `${plural(datasets.length, "dataset")}, ${plural(rows, "row")}`;
}

function useMinute(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const tick = setInterval(() => setNow(Date.now()), 10_000);
    return () => clearInterval(tick);
  }, []);
  return now;
}
