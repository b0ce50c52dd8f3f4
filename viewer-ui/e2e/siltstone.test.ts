import { mkdirSync, readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { axe, Browser } from "./browser";
import { built, Siltstone } from "./siltstone";

const additions = [
  `{"term":"sediment","grammar":"n.","text":"[from geology] What is left at the bottom of a log directory once all that anybody reads has been taken out. Compare {bit rot}.","chars":132,"letter":"S"}`,
  `{"term":"strata","grammar":"pl.n.","text":"The layers of a system that nobody dares to dig through. Each was the new architecture once; see {cruft}.","chars":107,"letter":"S"}`,
];

/** A folder for pictures, where they are wanted. */
const pictures = process.env.SCREENSHOTS;

const line = (page: Page, text: string) => page.locator(".body [role=row]", { hasText: text });
const until = (check: () => Promise<boolean>, timeout = 30_000) =>
  expect.poll(check, { timeout, interval: 50 }).toBe(true);

describe.runIf(built)("with a real siltstone", () => {
  let siltstone: Siltstone;
  let browser: Browser;
  let page: Page;
  let complaints: string[];

  beforeAll(async () => {
    if (pictures) mkdirSync(pictures, { recursive: true });
    [siltstone, browser] = await Promise.all([
      Siltstone.up(["--demo"], "/x", pictures ? { MERGE_QUIET: "120s" } : {}),
      Browser.open({ deviceScaleFactor: pictures ? 2 : 1 }),
    ]);
  });
  afterAll(() => Promise.all([siltstone.end(), browser.close()]));
  beforeEach(async () => {
    ({ page, complaints } = await browser.page());
  });
  afterEach(async () => {
    await page.close();
    expect(complaints).toEqual([]);
  });

  async function open(dataset: string, rest = ""): Promise<void> {
    await page.goto(`${siltstone.url}?${new URLSearchParams({ dataset })}${rest}`);
  }

  async function picture(name: string): Promise<void> {
    if (!pictures) return;
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path: `${pictures}/${name}.png` });
  }

  test("a row that is put in a shell appears by itself", async () => {
    await page.goto(siltstone.url);
    await page.getByRole("link", { name: "jargon-file" }).waitFor();
    siltstone.put("greetings", "first", [`{"text":"hello"}`]);
    await page.getByRole("link", { name: "greetings" }).click();
    await line(page, "hello").waitFor();
    await until(async () => (await page.locator(".live").innerText()).startsWith("Live"));
    const shell = siltstone.feed("greetings", "first");
    shell.write(`{"text":"good morning","n":9007199254740993,"e":1e400}`);
    await line(page, "good morning").waitFor();
    const first = await page.locator(".body [role=row]").first().innerText();
    expect(first).toContain("good morning");
    expect(first).toContain("9007199254740993");
    expect(first).toContain("1e400");
    expect(await line(page, "good morning").getAttribute("class")).toContain("live-row");
    await shell.end();
    // The merge takes the mark away and moves nothing.
    await until(async () => (await page.locator(".live-row").count()) === 0);
    expect(await line(page, "good morning").count()).toBe(1);
    expect(await line(page, "hello").count()).toBe(1);
  });

  test("the demo can be walked from the newest to the oldest row", async () => {
    await open("jargon-file");
    await page.locator(".body [role=row]").first().waitFor();
    await until(async () => /2,3\d\d rows/.test(await page.locator(".status").innerText()));
    await page.locator(".grid").focus();
    await until(async () => {
      await page.keyboard.press("End");
      return (await page.locator(".grid").getAttribute("aria-rowcount")) !== "-1";
    });
    const n = Number(await page.locator(".grid").getAttribute("aria-rowcount")) - 1;
    expect((await page.locator(".status b").first().innerText()).replace(",", "")).toBe(String(n));
    await page.keyboard.press("Enter");
    await page.locator(".db h2").waitFor();
  });

  test("the server is killed and started again: the page recovers and says so", async () => {
    siltstone.put("killed", "b", [`{"text":"before"}`]);
    await open("killed");
    await line(page, "before").waitFor();
    await until(async () => (await page.locator(".live").innerText()).startsWith("Live"));
    await siltstone.kill();
    await until(async () => (await page.locator(".live").innerText()).startsWith("Reconnecting"));
    expect(await line(page, "before").count()).toBe(1);
    await siltstone.start();
    await page.getByText(/^Connected again after .* The page is up to date\.$/).waitFor({ timeout: 30_000 });
    siltstone.put("killed", "b", [`{"text":"after"}`]);
    await line(page, "after").waitFor();
    expect(await page.locator(".error").count()).toBe(0);
  });

  test("odd names and hostile data survive the page, the row's link and the download", async () => {
    const names = ["naïve", "50%", "a+b", "a b", "x=1&y", "日本語", '"', "v1.2", "#?", "<b>", "%2F", "'", "🙂"];
    const payload = `<img src=x onerror=alert(1)>\u202e</script><script>alert(1)</script>`;
    for (const name of names)
      siltstone.put(name, name, [JSON.stringify({ id: `../${name}`, text: payload, [payload]: `in ${name}` })]);
    for (const name of names) {
      await open(name);
      await line(page, `in ${name}`).click();
      await page.locator(".db", { hasText: `in ${name}` }).waitFor();
      expect(await page.locator(".body img, .hd img, .db img, #root script").count()).toBe(0);
      const link = page.url();
      await page.getByLabel("Close (Esc)").click();
      for (const format of ["NDJSON", "CSV"]) {
        await page.getByRole("button", { name: "Export" }).click();
        const [download] = await Promise.all([
          page.waitForEvent("download"),
          page.getByRole("link", { name: new RegExp(`^${format}`) }).click(),
        ]);
        expect(readFileSync(await download.path(), "utf8")).toContain("onerror=alert(1)");
        await page.keyboard.press("Escape");
      }
      await page.goto("about:blank");
      await page.goto(link);
      await page.locator(".db", { hasText: `in ${name}` }).waitFor();
    }
  });

  test("what an annotator wrote stands beside the rows, in the row, and in the link", async () => {
    siltstone.put("notes", "b", [`{"id":"a","text":"one two"}`, `{"id":"b","text":"three"}`]);
    siltstone.run("merge", "notes");
    const answer = `{"data":{"words":2,"kind":{"a":1}},"metadata":{"cost_usd":0.25}}`;
    const script = `while read -r line; do echo '${answer}'; done`;
    const first = `{"column":"id","op":"eq","value":"a"}`;
    siltstone.run("annotate", "notes", "--annotator", "shape", "--where", first, "--", "sh", "-c", script);
    await open("notes");
    await line(page, "one two").waitFor();
    expect(await page.locator(".of-layer").count()).toBe(0);

    await page.getByRole("button", { name: /^Columns/ }).click();
    const group = page.getByRole("group", { name: "shape" });
    await group.getByText(/of rows/).waitFor();
    await group.getByLabel(/words/).check();
    await page.keyboard.press("Escape");
    const cell = (text: string) => line(page, text).locator("[role=gridcell]").last();
    await until(async () => (await cell("one two").innerText()) === "2");
    expect((await cell("three").innerText()).trim()).toBe("");
    expect(await page.getByRole("columnheader").last().innerText()).toContain("words");
    expect(await page.locator(".of-layer").innerText()).toBe("shape");
    expect(page.url()).toContain("annotator=shape");
    expect(page.url()).toContain("column=shape.words");
    expect(await axe(page)).toEqual([]);
    await picture("layer-table");

    // A link to it shows the same; without columns of its own, those of the annotator are there.
    await page.goto("about:blank");
    await open("notes", "&annotator=shape");
    await until(async () => (await page.locator(".of-layer").count()) === 2);
    await line(page, "one two").click();
    const note = page.getByRole("region", { name: "Annotation by shape" });
    await note.getByText("words").waitFor();
    await note.getByText("Metadata").click();
    await note.getByText("0.25").waitFor();
    expect(await axe(page)).toEqual([]);
    await picture("layer-row");
    await page.keyboard.press("j");
    await page.keyboard.press("k");
    await page.getByLabel("Close (Esc)").click();
    await line(page, "three").click();
    await note.getByText("not annotated yet").waitFor();

    // What is annotated while one looks appears by itself.
    siltstone.run("annotate", "notes", "--annotator", "shape", "--", "sh", "-c", script);
    await until(async () => (await line(page, "three").innerText()).includes("2"));
  });

  test("axe finds nothing, light and dark, wide and narrow", { timeout: 240_000 }, async () => {
    for (const [i, colorScheme] of (["light", "dark"] as const).entries()) {
      await page.setViewportSize({ width: 1440, height: 900 });
      await page.emulateMedia({ colorScheme });
      await page.goto(siltstone.url);
      await page.getByRole("link", { name: "jargon-file" }).waitFor();
      expect(await axe(page)).toEqual([]);
      await picture(`list-${colorScheme}`);
      await page.getByRole("link", { name: "jargon-file" }).click();
      await page.locator(".body [role=row]").first().waitFor();
      await until(async () => (await page.locator(".live").innerText()).startsWith("Live"));
      await until(async () => (await page.locator(".live-row").count()) === 0);
      const shell = siltstone.feed("jargon-file", `additions-${i}`);
      for (const text of additions) shell.write(text);
      await line(page, "strata").first().waitFor();
      await line(page, "zombie").click();
      await page.locator(".prose").waitFor();
      await until(async () => (await page.locator(".status").innerText()).includes("not merged yet"));
      await page.mouse.move(0, 0);
      await picture(`row-${colorScheme}`);
      expect(await axe(page)).toEqual([]);
      await page.setViewportSize({ width: 390, height: 844 });
      expect(await axe(page)).toEqual([]);
      await picture(`phone-row-${colorScheme}`);
      await page.getByLabel("Close (Esc)").click();
      await page.locator(".grid").evaluate((el) => el.scrollTo(0, 0));
      await picture(`phone-table-${colorScheme}`);
      await shell.end();
    }
  });
});

describe.runIf(built)("with a token", () => {
  test("the page asks once, and then reads, listens and downloads", async () => {
    const siltstone = await Siltstone.up([], "", { VIEWER_TOKEN: "open sesame" });
    const browser = await Browser.open();
    try {
      const { page } = await browser.page();
      siltstone.put("d", "b", [`{"text":"hidden"}`]);
      await page.goto(`${siltstone.url}?dataset=d`);
      await page.getByLabel(/^Token/).fill("open sesame");
      await page.getByRole("button", { name: "Continue" }).click();
      await line(page, "hidden").waitFor();
      siltstone.put("d", "b", [`{"text":"live"}`]);
      await line(page, "live").waitFor();
      await page.reload();
      await line(page, "live").waitFor();
    } finally {
      await Promise.all([siltstone.end(), browser.close()]);
    }
  });
});
