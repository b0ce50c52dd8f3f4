import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BrowserContext, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const paths = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Debian's Chromium; nothing is downloaded. */
export function chromiumPath(): string {
  const found = paths.find((p) => p !== undefined && existsSync(p));
  if (!found) throw new Error("no Chromium: apt-get install chromium, or name one in CHROMIUM");
  return found;
}

export class Browser {
  readonly context: BrowserContext;
  private readonly folder: string;

  private constructor(context: BrowserContext, folder: string) {
    this.context = context;
    this.folder = folder;
  }

  static async open(options: BrowserContextOptions = {}): Promise<Browser> {
    const folder = mkdtempSync(join(tmpdir(), "chromium-"));
    const context = await chromium.launchPersistentContext(folder, {
      executablePath: chromiumPath(),
      headless: true,
      args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"],
      viewport: { width: 1440, height: 900 },
      acceptDownloads: true,
      ...options,
    });
    context.setDefaultTimeout(15_000);
    return new Browser(context, folder);
  }

  /** A page whose errors, dialogs and refused loads are collected. */
  async page(): Promise<{ page: Page; complaints: string[] }> {
    const page = await this.context.newPage();
    const complaints: string[] = [];
    page.on("pageerror", (e) => complaints.push(String(e)));
    page.on("dialog", (d) => {
      complaints.push(`dialog: ${d.message()}`);
      void d.dismiss();
    });
    page.on("console", (m) => {
      // That a request failed is told by Chromium itself; the tests of failures cause it.
      if (m.type() === "error" && !m.text().startsWith("Failed to load resource")) complaints.push(m.text());
    });
    return { page, complaints };
  }

  async close(): Promise<void> {
    await this.context.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface AxeResult {
  readonly violations: {
    readonly id: string;
    readonly nodes: { readonly html: string; readonly failureSummary: string }[];
  }[];
}

/** What axe finds on a page. The source is evaluated, and not loaded: that passes a strict CSP. */
export async function axe(page: Page): Promise<string[]> {
  await page.evaluate(axeSource);
  const result = await page.evaluate(() =>
    (globalThis as unknown as { axe: { run: (o: object) => Promise<AxeResult> } }).axe.run({
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    }),
  );
  return result.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html.slice(0, 200)}: ${n.failureSummary}`));
}
