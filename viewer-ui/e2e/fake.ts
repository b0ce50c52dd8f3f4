import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";

/** A row as its writer wrote it: JSON text, so that numbers stay as they are. */
interface Stored {
  readonly id: string;
  readonly batch: string;
  readonly text: string;
}

const csp =
  "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'; " +
  "connect-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'";
const mimes: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

/** Answers as the viewer API does, from memory: for faults that the real one cannot be asked for. */
export class FakeServer {
  token = "";
  /** Answers to rows get this status when it is not 0. */
  failing = 0;
  delay = 0;
  private readonly data = new Map<string, Stored[]>();
  private readonly merged = new Set<string>();
  private readonly dist: string;
  private readonly base: string;
  private server: Server | null = null;
  private port = 0;
  private seq = 0;
  private readonly listeners = new Set<ServerResponse>();

  constructor(dist: string, base = "") {
    this.dist = dist;
    this.base = base;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}${this.base}/`;
  }

  async start(): Promise<void> {
    this.server = createServer((req, res) => void this.answer(req, res));
    await new Promise<void>((done) => this.server?.listen(this.port, "127.0.0.1", done));
    this.port = (this.server.address() as AddressInfo).port;
  }

  /** As kill -9 does: all connections end at once. */
  async stop(): Promise<void> {
    this.listeners.clear();
    this.server?.closeAllConnections();
    await new Promise<void>((done) => this.server?.close(() => done()));
  }

  /** Rows as JSON texts that have an id. */
  put(dataset: string, batch: string, rows: readonly string[]): void {
    const all = this.data.get(dataset) ?? [];
    for (const text of rows) all.push({ id: JSON.parse(text).id, batch, text });
    all.sort((a, b) => compare(a.id, b.id) || compare(a.batch, b.batch));
    this.data.set(dataset, all);
    this.emit("rows_ingested", { dataset, batch, annotator: null, rows: rows.length });
  }

  merge(dataset: string, batch: string): void {
    this.merged.add(`${dataset}/${batch}`);
    this.emit("batch_merged", { dataset, batch, annotator: null, rows: 1, generation: 1 });
  }

  emit(type: string, data: object): void {
    this.seq++;
    const frame = `event: ${type}\nid: 1:${this.seq}\ndata: ${JSON.stringify({ version: 1, type, ...data })}\n\n`;
    for (const res of this.listeners) res.write(frame);
  }

  private async answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? "/", "http://x");
    if (!url.pathname.startsWith(`${this.base}/`)) return problem(res, 404, "nothing is here");
    const path = url.pathname.slice(this.base.length + 1);
    res.setHeader("Content-Security-Policy", csp);
    if (!path.startsWith("api/")) return this.file(path, res);
    if (this.delay > 0) await new Promise((done) => setTimeout(done, this.delay));
    const [what = "", name = "", part = "", id = ""] = path.slice(4).split("/").map(decodeURIComponent);
    if (what === "session") {
      let body = "";
      for await (const chunk of req) body += chunk;
      if (JSON.parse(body).token !== this.token) return problem(res, 401, "this is not the token");
      res.setHeader("Set-Cookie", `siltstone_session=${this.token}; HttpOnly; SameSite=Strict; Path=${this.base}/`);
      res.writeHead(204).end();
      return;
    }
    if (this.token !== "" && !req.headers.cookie?.includes(`siltstone_session=${this.token}`))
      return problem(res, 401, "a token is needed");
    if (what === "events") {
      res.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform" });
      res.write(`retry: 500\nevent: connected\nid: 1:${this.seq}\ndata: {}\n\n`);
      this.listeners.add(res);
      res.on("close", () => this.listeners.delete(res));
      return;
    }
    if (what !== "datasets") return problem(res, 404, "nothing is here");
    if (name === "") return json(res, `{"datasets":[${[...this.data.keys()].map((n) => this.info(n)).join(",")}]}`);
    const all = this.data.get(name);
    if (!all) return problem(res, 404, `there is no dataset ${JSON.stringify(name)}`, [...this.data.keys()][0]);
    const only = url.searchParams.getAll("batch");
    const rows = only.length === 0 ? all : all.filter((r) => only.includes(r.batch));
    if (part === "") return json(res, this.detail(name));
    if (part === "schema") return json(res, `{"columns":[]}`);
    if (part === "count") return json(res, `{"count":${rows.length},"exact":true}`);
    if (part === "rows") {
      const wanted = id || url.searchParams.get("id");
      const found = rows.filter((r) => r.id === wanted);
      if (found.length === 0) return problem(res, 404, `there is no row ${JSON.stringify(wanted)}`);
      const live = found.map((r) => !this.merged.has(`${name}/${r.batch}`));
      return json(res, `{"rows":[${found.map((r) => whole(r)).join(",")}],"live":${JSON.stringify(live)}}`);
    }
    if (this.failing > 0) return problem(res, this.failing, "the store does not answer");
    if (url.searchParams.get("format") !== null) {
      res.setHeader("Content-Disposition", "attachment");
      res.end(rows.map((r) => `{"type":"row","row":${whole(r)}}\n`).join(""));
      return;
    }
    json(res, this.page(name, rows, url.searchParams));
  }

  private page(name: string, rows: readonly Stored[], q: URLSearchParams): string {
    const limit = Number(q.get("limit") ?? 50);
    const list = q.get("sort") === "id:desc" ? [...rows].reverse() : rows;
    const [way, at] = JSON.parse(q.get("cursor") ?? "[]") as [string?, string?];
    const place = (r: Stored) => `${r.id} ${r.batch}`;
    const index = list.findIndex((r) => place(r) === at);
    let from = 0;
    let to = limit;
    if (way === "after") [from, to] = [index + 1, index + 1 + limit];
    if (way === "before") [from, to] = [Math.max(0, index - limit), index];
    const shown = list.slice(from, to);
    const first = shown[0];
    const last = shown.at(-1);
    const next = last && to < list.length ? JSON.stringify(JSON.stringify(["after", place(last)])) : "null";
    const prev = first ? JSON.stringify(JSON.stringify(["before", place(first)])) : JSON.stringify(q.get("cursor"));
    const live = rows.filter((r) => !this.merged.has(`${name}/${r.batch}`)).length;
    const columns = new Set(["id", "_created_at", ...shown.flatMap((r) => Object.keys(JSON.parse(r.text)))]);
    return (
      `{"columns":${JSON.stringify([...columns])},"rows":[${shown.map((r) => clipped(r, Number(q.get("clip")), !this.merged.has(`${name}/${r.batch}`))).join(",")}],` +
      `"next_cursor":${next},"prev_cursor":${prev},"live_rows":${live},"took_ms":3.4,"bytes_read":${shown.length * 412}}`
    );
  }

  private info(name: string): string {
    const all = this.data.get(name) ?? [];
    const live = all.filter((r) => !this.merged.has(`${name}/${r.batch}`)).length;
    const batches = new Set(all.map((r) => r.batch)).size;
    return (
      `{"name":${JSON.stringify(name)},"batches":${batches},"rows":${all.length - live},"bytes":${(all.length - live) * 300},` +
      `"live_rows":${live},"live_chunks":${live > 0 ? 1 : 0},"annotators":[],"updated_at":${live < all.length ? '"2026-11-30T06:00:00Z"' : "null"}}`
    );
  }

  private detail(name: string): string {
    const all = this.data.get(name) ?? [];
    const batches = [...new Set(all.map((r) => r.batch))].map((b) => {
      const merged = this.merged.has(`${name}/${b}`);
      const rows = merged ? all.filter((r) => r.batch === b).length : 0;
      return { name: b, rows, bytes: 0, generation: merged ? 1 : 0, live_chunks: merged ? 0 : 1, updated_at: null };
    });
    return this.info(name).replace(/"batches":\d+/, `"batches":${JSON.stringify(batches)}`);
  }

  private file(path: string, res: ServerResponse): void {
    const name = normalize(path === "" ? "index.html" : decodeURIComponent(path));
    const full = join(this.dist, name);
    if (name.startsWith("..") || !existsSync(full) || !statSync(full).isFile()) {
      problem(res, 404, "no such file");
      return;
    }
    res.setHeader("Content-Type", mimes[extname(full)] ?? "application/octet-stream");
    createReadStream(full).pipe(res);
  }
}

function compare(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function whole(r: Stored): string {
  return `${r.text.slice(0, -1)},"_batch":${JSON.stringify(r.batch)}}`;
}

function clipped(r: Stored, clip: number, live: boolean): string {
  const marked = live ? `${whole(r).slice(0, -1)},"_silt_live":true}` : whole(r);
  const long = Object.entries(JSON.parse(r.text)).filter((e): e is [string, string] => {
    return typeof e[1] === "string" && clip > 0 && e[1].length > clip;
  });
  if (long.length === 0) return marked;
  let text = marked;
  for (const [, v] of long) text = text.replace(JSON.stringify(v), () => JSON.stringify(v.slice(0, clip)));
  const lengths = Object.fromEntries(long.map(([name, v]) => [name, v.length]));
  return `${text.slice(0, -1)},"_silt_clipped":${JSON.stringify(lengths)}}`;
}

function json(res: ServerResponse, body: string): void {
  res.setHeader("Content-Type", "application/json");
  res.end(body);
}

function problem(res: ServerResponse, status: number, detail: string, nearest?: string): void {
  res.writeHead(status, { "Content-Type": "application/problem+json" });
  res.end(JSON.stringify({ type: "about:blank", title: "x", status, detail, ...(nearest ? { nearest } : {}) }));
}
