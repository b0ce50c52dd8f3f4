import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The binary that is tested: built by make, with the page in it. */
export const binary = process.env.SILTSTONE ?? join(import.meta.dirname, "../../bin/siltstone");
export const built = existsSync(binary);

/** A real `siltstone up` on a folder of its own. */
export class Siltstone {
  readonly url: string;
  private readonly dir = mkdtempSync(join(tmpdir(), "siltstone-"));
  private readonly port: number;
  private readonly flags: readonly string[];
  private child: ChildProcess | null = null;

  private readonly env: NodeJS.ProcessEnv;

  private constructor(port: number, flags: readonly string[], base: string, env: NodeJS.ProcessEnv) {
    this.port = port;
    this.env = env;
    this.flags = flags;
    this.url = `http://127.0.0.1:${port}${base}/`;
  }

  static async up(flags: readonly string[] = [], base = "", env: NodeJS.ProcessEnv = {}): Promise<Siltstone> {
    const { PATH, HOME, TMPDIR } = process.env; // and nothing that would point it at another store
    const own = { PATH, HOME, TMPDIR, MERGE_QUIET: "2s", ...env };
    const s = new Siltstone(await freePort(), base === "" ? flags : [...flags, "--base-path", base], base, own);
    await s.start();
    return s;
  }

  /** Starts it on its folder and waits until it answers. */
  async start(): Promise<void> {
    const args = ["up", "--dir", this.dir, "--listen", `127.0.0.1:${this.port}`, ...this.flags];
    const child = spawn(binary, args, { stdio: ["ignore", "ignore", "pipe"], env: this.env });
    this.child = child;
    let said = "";
    child.stderr?.on("data", (chunk) => {
      said += chunk;
    });
    const until = Date.now() + 60_000;
    for (;;) {
      if (child.exitCode !== null || Date.now() > until) throw new Error(`siltstone up did not come up: ${said}`);
      const ok = await fetch(`${this.url}api/datasets`).then(
        (r) => r.ok || r.status === 401,
        () => false,
      );
      if (ok) return;
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.child;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((done) => child.once("exit", done));
    child.kill(signal);
    await gone;
  }

  /** As in a shell: `siltstone put D --batch B`. */
  put(dataset: string, batch: string, rows: readonly string[]): void {
    execFileSync(binary, ["--dir", this.dir, "put", dataset, "--batch", batch], {
      input: `${rows.join("\n")}\n`,
      env: this.env,
      stdio: ["pipe", "ignore", "pipe"],
    });
  }

  /** A shell that goes on writing: each row is stored at once, and the run is not complete until the feed ends. */
  feed(dataset: string, batch: string): { write(row: string): void; end(): Promise<void> } {
    const args = ["--dir", this.dir, "put", dataset, "--batch", batch, "--chunk-rows", "1"];
    const child = spawn(binary, args, { stdio: ["pipe", "ignore", "inherit"], env: this.env });
    const gone = new Promise<void>((done) => child.once("exit", () => done()));
    return {
      write: (row) => void child.stdin?.write(`${row}\n`),
      end: () => {
        child.stdin?.end();
        return gone;
      },
    };
  }

  run(...args: string[]): string {
    return execFileSync(binary, ["--dir", this.dir, ...args], {
      env: this.env,
      stdio: ["ignore", "pipe", "pipe"],
    }).toString();
  }

  async end(): Promise<void> {
    await this.kill("SIGTERM");
    rmSync(this.dir, { recursive: true, force: true });
  }
}

function freePort(): Promise<number> {
  return new Promise((done, fail) => {
    const server = createServer();
    server.on("error", fail);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => (address && typeof address === "object" ? done(address.port) : fail(new Error("no port"))));
    });
  });
}
