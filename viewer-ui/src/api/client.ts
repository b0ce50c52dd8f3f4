import { type JsonValue, parseJson } from "../lib/json";
import { ApiError, notJson, problem, unreachable } from "./error";

/** Where the API lives: beside the page, under whatever base path a proxy gives both. */
export function apiUrl(path: string, query?: URLSearchParams): string {
  const q = query?.toString();
  return new URL(`api/${path}${q ? `?${q}` : ""}`, document.baseURI).href;
}

/** Encodes a name for a path. (encodeURIComponent alone throws on half a surrogate pair.) */
export function segment(name: string): string {
  return encodeURIComponent(name.toWellFormed());
}

/** Asks for JSON. All calls go through here, and every failure is an ApiError or the signal's abort. */
export async function getJson(path: string, query: URLSearchParams | undefined, signal: AbortSignal) {
  return send(apiUrl(path, query), { signal });
}

export async function postJson(path: string, body: unknown, signal?: AbortSignal) {
  return send(apiUrl(path), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });
}

async function send(url: string, init: RequestInit): Promise<JsonValue> {
  let answer: Response;
  let text: string;
  try {
    const headers = new Headers(init.headers);
    headers.set("Accept", "application/json");
    answer = await fetch(url, { ...init, headers, credentials: "same-origin" });
    text = await answer.text();
  } catch (err) {
    if (init.signal?.aborted) throw err;
    throw unreachable();
  }
  let body: JsonValue | undefined;
  try {
    body = text === "" ? undefined : parseJson(text);
  } catch {
    body = undefined;
  }
  if (!answer.ok) {
    const err = problem(answer.status, body, answer.headers.get("Retry-After"));
    if (err.status === 401) for (const tell of unauthorized) tell();
    throw err;
  }
  if (body === undefined) {
    if (text === "") return null;
    throw notJson(answer.status);
  }
  return body;
}

const unauthorized = new Set<() => void>();

/** Calls back whenever an answer was 401. */
export function onUnauthorized(tell: () => void): () => void {
  unauthorized.add(tell);
  return () => unauthorized.delete(tell);
}

export function isApiError(err: unknown): err is ApiError {
  return err instanceof ApiError;
}
