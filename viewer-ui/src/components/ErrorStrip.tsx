import { isApiError } from "../api/client";
import type { ApiError } from "../api/error";

interface Props {
  readonly error: unknown;
  readonly onRetry: () => void;
}

/** What happened in a sentence, what to do, and a button for it. */
export function ErrorStrip({ error, onRetry }: Props) {
  const e: Pick<ApiError, "title" | "detail" | "request"> = isApiError(error)
    ? error
    : { title: "This page failed.", detail: String(error), request: null };
  return (
    <div className="error" role="alert">
      <b>{e.title}</b>
      {e.detail !== "" && <p>{e.detail}</p>}
      <div className="error-end">
        <button type="button" className="btn line" onClick={onRetry}>
          Try again
        </button>
        {e.request !== null && <span className="num">{e.request}</span>}
      </div>
    </div>
  );
}
