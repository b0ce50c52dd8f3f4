import { isObject, type JsonValue } from "../lib/json";

interface Extra {
  /** Milliseconds after which the server wants to be asked again. */
  readonly retryAfter?: number | null;
  /** The existing name that may have been meant. */
  readonly nearest?: string | null;
  /** Names the request in the server's log. */
  readonly request?: string | null;
}

/** Every failure of a call to the API is one of these. */
export class ApiError extends Error {
  /** 0 where no answer came. */
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  readonly retryAfter: number | null;
  readonly nearest: string | null;
  readonly request: string | null;

  constructor(status: number, title: string, detail: string, extra: Extra = {}) {
    super(detail === "" ? title : `${title} ${detail}`);
    this.name = "ApiError";
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.retryAfter = extra.retryAfter ?? null;
    this.nearest = extra.nearest ?? null;
    this.request = extra.request ?? null;
  }
}

export function unreachable(): ApiError {
  return new ApiError(0, "The server does not answer.", "It is asked again as soon as the connection is back.");
}

export function notJson(status: number): ApiError {
  return new ApiError(status, "The answer is not what was asked for.", "A proxy may stand in between.");
}

/** Reads an RFC 9457 problem document, or makes do with the status. */
export function problem(status: number, body: JsonValue | undefined, retryAfter: string | null): ApiError {
  const text = (name: string) => {
    const v = isObject(body) ? body.get(name) : undefined;
    return typeof v === "string" ? v : "";
  };
  const seconds = retryAfter !== null && /^\d+$/.test(retryAfter) ? Number(retryAfter) : null;
  // A problem without a type of its own has the words of its status as title, which say little to a reader.
  const generic = text("type") === "" || text("type") === "about:blank";
  return new ApiError(status, sentence((generic ? "" : text("title")) || words(status)), sentence(text("detail")), {
    retryAfter: seconds === null ? null : Math.min(seconds, 60) * 1000,
    nearest: text("nearest") || null,
    request: text("request") || null,
  });
}

// The server's texts are fragments in lower case, as Go's errors are.
function sentence(s: string): string {
  if (s === "") return "";
  const upper = (s[0] ?? "").toUpperCase() + s.slice(1);
  return /[.!?…]$/.test(upper) ? upper : `${upper}.`;
}

function words(status: number): string {
  switch (status) {
    case 401:
      return "A token is needed";
    case 404:
      return "This does not exist";
    case 503:
      return "The server is busy";
    case 400:
      return "The server does not take this request";
    case 500:
      return "The server failed";
    default:
      return `The server answered ${status}`;
  }
}
