import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Browser } from "./browser";
import { built, Siltstone } from "./siltstone";

const image = "<img src=x onerror=alert(1)>";
const script = "</script><script>alert(1)</script>";
const deep = (levels: number) => "[".repeat(levels) + "]".repeat(levels);

/** What a row holds behind its id, and what has to be seen of it, in the table and in the drawer. */
const odd: readonly { readonly id: string; readonly body: string; readonly seen: readonly string[] }[] = [
  { id: image, body: `"${image}":"${script}","<b>":"</style><svg onload=alert(1)>"`, seen: [image, script] },
  { id: "link", body: `"url":"javascript:alert(1)","page":"data:text/html,${script}"`, seen: ["javascript:alert(1)"] },
  {
    id: "names",
    body: `"__proto__":"p","constructor":"c","length":2642853,"toString":"t","hasOwnProperty":0,"":"empty"," ":"space"`,
    seen: ["__proto__", "constructor", "2642853", "toString", "hasOwnProperty", "empty name", "blank name"],
  },
  { id: "nul", body: `"t":"x\\u0000y\\u001bz","a\\u0000b":1,"a":2`, seen: ["x\\x00y\\x1Bz", "a\\x00b"] },
  { id: "surrogate", body: `"t":"x\\ud83dy"`, seen: ["xU+D83Dy"] },
  {
    id: "numbers",
    body: `"n":9007199254740993,"m":123456789012345678901234567890,"e":1e400,"z":1.0,"neg":-0,"in":{"n":[9007199254740993,1.0]}`,
    seen: ["9007199254740993", "123456789012345678901234567890", "1e400", "1.0", "-0"],
  },
  { id: "rtl", body: `"t":"\\u202egnp.exe","שם":"שלום עולם"`, seen: ["U+202Egnp.exe", "שלום עולם"] },
  { id: "deep", body: `"d":${deep(511)},"after":"the deep"`, seen: ["the deep"] },
  { id: "wide", body: `"t":"${"x".repeat(100_000)}","after":"the long"`, seen: ["the long"] },
];

const until = (check: () => Promise<boolean>, timeout = 30_000) =>
  expect.poll(check, { timeout, interval: 50 }).toBe(true);

describe.runIf(built)("hostile rows in a real siltstone", () => {
  let siltstone: Siltstone;
  let browser: Browser;
  let page: Page;
  let complaints: string[];
  let elsewhere: string[];

  beforeAll(async () => {
    [siltstone, browser] = await Promise.all([Siltstone.up([], "", { MERGE_QUIET: "1s" }), Browser.open()]);
    siltstone.put(
      "odd",
      image,
      odd.map((r) => `{"id":${JSON.stringify(r.id)},${r.body}}`),
    );
  });
  afterAll(() => Promise.all([siltstone.end(), browser.close()]));
  beforeEach(async () => {
    ({ page, complaints } = await browser.page());
    elsewhere = [];
    page.on("request", (r) => {
      const { protocol, origin } = new URL(r.url());
      if (protocol !== "data:" && `${origin}/` !== siltstone.url) elsewhere.push(r.url());
      // What an image in a cell would ask for.
      if (r.url().endsWith("/x")) elsewhere.push(r.url());
    });
    await page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (e) => console.error(`CSP: ${e.violatedDirective}`));
    });
  });
  afterEach(async () => {
    const own = await page.evaluate(() => document.querySelectorAll("#root :is(script, img, iframe, style)").length);
    await page.close();
    expect(own).toBe(0);
    expect(complaints).toEqual([]);
    expect(elsewhere).toEqual([]);
  });

  const drawer = () => page.locator(".db");

  async function open(row: string): Promise<void> {
    await page.goto(`${siltstone.url}?${new URLSearchParams({ dataset: "odd", row, batch: image })}`);
    await drawer().locator(".tx-h").waitFor();
  }

  test.each(odd)("$id: the table, the drawer in each of its ways, and the link", async ({ id, seen }) => {
    await open(id);
    await page.locator(".body [role=row]").first().waitFor();
    // Layers of text over each other would be no reading: what is hidden shows as a glyph, and in its own direction.
    for (const mode of ["Reading", "Raw", "JSON"]) {
      await page.getByRole("button", { name: mode, exact: true }).click();
      const text = await drawer().innerText();
      if (mode === "JSON") continue; // escaped as JSON is
      for (const s of seen) expect(text).toContain(s);
    }
    expect(await drawer().locator("a[href^='javascript:' i], a[href^='data:' i]").count()).toBe(0);
    await page.getByRole("button", { name: "Reading", exact: true }).click();
    const link = page.url();
    await page.getByLabel("Close (Esc)").click();
    await page.goto("about:blank");
    await page.goto(link);
    await drawer().locator(".tx-h").waitFor();
    expect(new URL(page.url()).searchParams.get("row")).toBe(id);
  });

  test("the table holds every column and row, each with its own bytes", async () => {
    const names = [
      "__proto__",
      "constructor",
      "length",
      "toString",
      "hasOwnProperty",
      "",
      " ",
      image,
      "<b>",
      "a\0b",
      "n",
      "e",
      "t",
    ];
    const columns = new URLSearchParams(names.map((name) => ["column", name]));
    await page.goto(`${siltstone.url}?dataset=odd&${columns}`);
    await until(async () => (await page.locator(".body [role=row]:not(.bar)").count()) === odd.length);
    const heads = (await page.locator("[role=columnheader]").allInnerTexts()).map((h) => h.split("\n").at(-1));
    expect(heads).toEqual([...names.slice(0, 5), "empty name", "blank name", image, "<b>", "a\\x00b", "n", "e", "t"]);
    const body = await page.locator(".body").innerText();
    for (const s of ["9007199254740993", "1e400", "2642853", script, "xU+D83Dy", "x\\x00y\\x1Bz"])
      expect(body).toContain(s);
  });

  test("the merge changes nothing, and the downloads hold what was put", async () => {
    await page.goto(`${siltstone.url}?dataset=odd`);
    await page.locator(".body [role=row]").first().waitFor();
    await until(async () => (await page.locator(".live-row").count()) === 0, 60_000);
    await open("numbers");
    expect(await drawer().innerText()).not.toContain("not merged yet");
    await page.getByLabel("Close (Esc)").click();
    for (const format of ["NDJSON", "CSV"]) {
      await page.getByRole("button", { name: "Export" }).click();
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("link", { name: new RegExp(`^${format}`) }).click(),
      ]);
      const text = readFileSync(await download.path(), "utf8");
      if (format === "NDJSON")
        for (const r of odd) expect(text).toContain(`,${r.body},"_batch":${JSON.stringify(image)}}`);
      else for (const s of ["9007199254740993", "1e400", image]) expect(text).toContain(s);
      await page.keyboard.press("Escape");
    }
  });

  test("names that are markup show as names, in the list and in the bar", async () => {
    siltstone.put(script.replaceAll("/", "⁄"), image, [`{"id":"1"}`]);
    siltstone.put(image, "constructor", [`{"id":"1"}`]);
    await page.goto(siltstone.url);
    await page.getByRole("link", { name: image }).click();
    await page.locator(".body [role=row]").first().waitFor();
    expect(await page.locator("header").innerText()).toContain(image);
    expect(await page.title()).toContain(image);
    siltstone.put(image, "toString", [`{"id":"2"}`]);
    await until(async () => (await page.locator(".body [role=row]:not(.bar)").count()) === 2);
  });
});
