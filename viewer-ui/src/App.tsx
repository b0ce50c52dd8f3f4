import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { isApiError, onUnauthorized } from "./api/client";
import { TokenDialog } from "./components/TokenDialog";
import { useView } from "./lib/location";
import { LiveProvider } from "./live/LiveProvider";
import { DataPage } from "./pages/data/DataPage";
import { DatasetsPage } from "./pages/datasets/DatasetsPage";

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1000,
      refetchOnWindowFocus: false,
      // What a second try can help with: no answer, and a server that is busy.
      retry: (failures, err) => failures < 2 && isApiError(err) && (err.status === 0 || err.status === 503),
      retryDelay: (failures, err) => (isApiError(err) && err.retryAfter) || 500 * 2 ** failures,
    },
  },
});

export function App() {
  const view = useView();
  const [tokenNeeded, setTokenNeeded] = useState(false);
  const [session, setSession] = useState(0);

  useEffect(() => onUnauthorized(() => setTokenNeeded(true)), []);

  return (
    <QueryClientProvider client={queries}>
      {/* A new session starts everything anew: what was refused before is asked for again. */}
      <LiveProvider key={session} dataset={view.dataset}>
        {view.dataset === null ? <DatasetsPage /> : <DataPage key={view.dataset} view={view} dataset={view.dataset} />}
      </LiveProvider>
      {tokenNeeded && (
        <TokenDialog
          onDone={() => {
            setTokenNeeded(false);
            void queries.resetQueries();
            setSession(session + 1);
          }}
        />
      )}
    </QueryClientProvider>
  );
}
