import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { axe, Browser } from "./browser";
import { FakeServer } from "./fake";

const dist = join(import.meta.dirname, "../dist");

let browser: Browser;
let server: FakeServer;
let page: Page;
let complaints: string[];

beforeAll(async () => {
  browser = await Browser.open({ permissions: ["clipboard-read", "clipboard-write"] });
});
afterAll(() => browser.close());

beforeEach(async () => {
  server = new FakeServer(dist, "/x");
  await server.start();
  ({ page, complaints } = await browser.page());
});
afterEach(async () => {
  await page.close();
  await server.stop();
  expect(complaints).toEqual([]);
});

const rows = (n: number, from = 0, prefix = "r") =>
  Array.from({ length: n }, (_, i) => {
    const id = `${prefix}${String(from + i).padStart(6, "0")}`;
    return `{"id":"${id}","_created_at":"2026-11-24T14:02:11.000000Z","term":"term ${from + i}","text":"A text about ${id}."}`;
  });

async function open(dataset: string, rest = ""): Promise<void> {
  await page.goto(`${server.url}?${new URLSearchParams({ dataset })}${rest}`);
}

const line = (text: string) => page.locator(".body [role=row]", { hasText: text });
const until = (check: () => Promise<boolean>) => expect.poll(check, { timeout: 15_000, interval: 50 }).toBe(true);
const indicator = () => page.locator(".live").innerText();

test("datasets are listed, and a new one shows by itself", async () => {
  await page.goto(server.url);
  await page.getByText("No datasets yet").waitFor();
  expect(await axe(page)).toEqual([]);
  server.put("greetings", "first", rows(3));
  await page.getByRole("link", { name: "greetings" }).waitFor();
  await page.getByRole("link", { name: "greetings" }).click();
  await line("r000002").waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "Datasets" }).waitFor();
});

test("rows settle in at the top, where the reader is", async () => {
  server.put("d", "b", rows(300));
  await open("d");
  await line("r000299").waitFor();
  await until(async () => (await indicator()).startsWith("Live"));
  server.put("d", "b", rows(2, 300));
  await line("r000301").waitFor();
  expect(await page.locator(".body [role=row]").first().innerText()).toContain("term 301");
  expect(await page.locator(".body .live-row").count()).toBeGreaterThan(0);
  server.merge("d", "b");
  await until(async () => (await page.locator(".body .live-row").count()) === 0);
});

test("rows that come while the reader is away move nothing and are counted", async () => {
  server.put("d", "b", rows(1000));
  await open("d");
  await line("r000999").waitFor();
  await until(async () => (await indicator()).startsWith("Live"));
  await page.locator(".grid").evaluate((el) => el.scrollTo(0, 100 * 36 + 11));
  await line("r000890").waitFor();
  const place = () => line("r000890").boundingBox();
  const before = await place();
  for (let i = 0; i < 5; i++) server.put("d", "b", rows(7, 1000 + i * 7));
  await page.getByRole("button", { name: "35 new rows" }).waitFor();
  expect(await place()).toEqual(before);
  expect(await indicator()).toMatch(/^Held/);
  await page.getByRole("button", { name: "35 new rows" }).click();
  await line("r001034").waitFor();
  await until(async () => (await page.locator(".newpill").count()) === 0);
});

test("rows with ids of their own show where they belong", async () => {
  server.put("d", "b", rows(20));
  await open("d");
  await line("r000010").waitFor();
  await until(async () => (await indicator()).startsWith("Live"));
  server.put("d", "b", [`{"id":"r000010x","text":"in between"}`]);
  await line("in between").waitFor();
});

test("all rows can be walked, in both orders", async () => {
  server.put("d", "b", rows(3000));
  for (const [order, end] of [
    ["newest", "r000000"],
    ["oldest", "r002999"],
  ] as const) {
    await open("d", `&order=${order}`);
    await page.locator(".body [role=row]").first().waitFor();
    await page.locator(".grid").focus();
    await until(async () => {
      await page.keyboard.press("End");
      return (await line(end).count()) > 0;
    });
    expect(await page.locator(".grid").getAttribute("aria-rowcount")).toBe("3001");
  }
});

test("the server is killed and started again: the page says so and catches up", async () => {
  server.put("d", "b", rows(300));
  await open("d", "&row=r000298&batch=b");
  await page.locator(".prose").waitFor();
  await until(async () => (await indicator()).startsWith("Live"));
  await server.stop();
  await until(async () => (await indicator()).startsWith("Reconnecting"));
  expect(await line("r000299").count()).toBe(1);
  server.put("d", "b", rows(3, 300));
  await server.start();
  await page.getByText(/^Connected again after .* The page is up to date\.$/).waitFor();
  await line("r000302").waitFor();
  expect(await indicator()).toMatch(/^Live/);
  expect(await page.locator(".error").count()).toBe(0);
});

test("a reset is said, and everything is read again", async () => {
  server.put("d", "b", rows(10));
  await open("d");
  await line("r000009").waitFor();
  await until(async () => (await indicator()).startsWith("Live"));
  server.emit("reset", {});
  await until(async () => (await indicator()).startsWith("Read anew"));
  await page.getByText("Events were missed. The page was read anew and is up to date.").waitFor();
});

test("an error stays beside the rows, and goes with the next answer", async () => {
  server.put("d", "b", rows(600));
  await open("d");
  await line("r000599").waitFor();
  server.failing = 500;
  await page.locator(".grid").evaluate((el) => el.scrollTo(0, 1e6));
  await page.getByText("The server failed.").waitFor();
  expect(await axe(page)).toEqual([]);
  expect(await page.locator(".body [role=row]").count()).toBeGreaterThan(5);
  server.failing = 0;
  await page.getByRole("button", { name: "Try again" }).click();
  await until(async () => (await page.locator(".error").count()) === 0);
});

test("a busy server is asked again without a click", async () => {
  server.put("d", "b", rows(10));
  server.failing = 503;
  await open("d");
  await page.getByText("The server is busy.").waitFor();
  server.failing = 0;
  await line("r000009").waitFor();
});

test("a dataset that is not there has a nearest one", async () => {
  server.put("jargon-file", "b", rows(1));
  await open("jargon");
  await page.getByRole("link", { name: "jargon-file" }).click();
  await line("r000000").waitFor();
});

test("the token is asked for once", async () => {
  server.put("d", "b", rows(5));
  server.token = "secret";
  await open("d");
  await page.getByLabel(/^Token/).fill("wrong");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByText("This is not the token.").waitFor();
  expect(await axe(page)).toEqual([]);
  await page.getByLabel(/^Token/).fill("secret");
  await page.getByRole("button", { name: "Continue" }).click();
  await line("r000004").waitFor();
  await until(async () => (await indicator()).startsWith("Live"));
  await page.reload();
  await line("r000004").waitFor();
  expect(await page.locator("dialog").count()).toBe(0);
  await browser.context.clearCookies();
});

test("keys alone will do", async () => {
  server.put("d", "b", rows(1000));
  await open("d");
  await line("r000999").waitFor();
  for (let i = 0; i < 5; i++) await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByText("A text about r000995.").last().waitFor();
  expect(new URL(page.url()).searchParams.get("row")).toBe("r000995");
  await page.keyboard.press("j");
  await page.locator(".prose", { hasText: "A text about r000994." }).waitFor();
  await page.keyboard.press("y");
  await until(async () => (await page.evaluate(() => navigator.clipboard.readText())).includes('"id":"r000994"'));
  await page.keyboard.press("Escape");
  await until(async () => (await page.locator(".drawer").count()) === 0);
  await page.locator(".grid").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("c");
  await until(async () => (await page.evaluate(() => navigator.clipboard.readText())) === "term 994");
  const active = await page.locator(".grid").getAttribute("aria-activedescendant");
  expect(await page.locator(`[id="${active}"]`).innerText()).toBe("term 994");
  // The active cell stays in the page, however far away the reader goes.
  await page.locator(".grid").evaluate((el) => el.scrollTo(0, 36 * 180));
  await line("r000815").waitFor();
  expect(await page.locator(`[id="${active}"]`).count()).toBe(1);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  expect(await axe(page)).toEqual([]);
  await page.keyboard.press("Escape");
  await until(async () => (await page.locator("dialog").count()) === 0);
});

test("columns are chosen, batches are chosen, and the link holds both", async () => {
  server.put("d", "b1", rows(5));
  server.put("d", "b 2", rows(5, 100));
  await open("d");
  await line("r000104").waitFor();
  await page.getByRole("button", { name: /^Columns/ }).click();
  await page.getByRole("checkbox", { name: /^term\b/ }).uncheck();
  await page.getByRole("checkbox", { name: /^id\b/ }).check();
  expect(await axe(page)).toEqual([]);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: /^Batches/ }).click();
  await page.getByRole("checkbox", { name: /^b 2/ }).check();
  await page.keyboard.press("Escape");
  await until(async () => (await line("r000004").count()) === 0);
  await page.reload();
  await line("r000104").waitFor();
  expect(await page.getByRole("columnheader").allInnerTexts()).not.toContain("term");
  expect(await line("r000004").count()).toBe(0);
});

const payloads = [
  `<img src=x onerror=alert(1)>`,
  `</script><script>alert(1)</script>`,
  `"><svg onload=alert(1)>`,
  `javascript:alert(1)`,
  `{{constructor.constructor('alert(1)')()}}`,
  `\u202egnp.exe`,
  `x\u0000y`,
];

test("data is text, whatever it says", async () => {
  server.put(
    "d",
    "b",
    payloads.map((p, i) => JSON.stringify({ id: `${i} ${p}`, text: p, url: p, [p]: p, __proto: null })),
  );
  server.put("d", "b", [
    `{"id":"9","__proto__":"proto","constructor":1,"length":2642853,"toString":"t","":"nameless"}`,
  ]);
  await open("d");
  await line("proto").waitFor();
  expect(await line("proto").innerText()).toContain("2642853");
  await until(async () => (await page.locator(".body [role=row]").count()) === payloads.length + 1);
  expect(await page.locator(".body img, .body script, .body svg, .hd img, .hd svg").count()).toBe(0);
  expect(await page.locator(".body .hiddenchar").allInnerTexts()).toContain("U+202E");
  for (const [i, p] of payloads.entries()) {
    await page.locator(`.body [role=row][aria-rowindex="${payloads.length - i + 2}"]`).click();
    await until(async () => new URL(page.url()).searchParams.get("row") === `${i} ${p}`);
    for (const [mode, shown] of [
      ["Raw", ".raw"],
      ["JSON", ".code"],
      ["Reading", ".prose"],
    ] as const) {
      await page.getByRole("button", { name: mode, exact: true }).click();
      await page.locator(shown).waitFor();
      expect(await page.locator(".db img, .db script, .db a[href^='javascript' i]").count()).toBe(0);
      expect(await page.locator(".db").innerText()).toContain(p.replace(/\P{ASCII}|\p{Cc}.*/gu, "").slice(0, 7));
    }
  }
  await open("d", `&${new URLSearchParams({ row: `0 ${payloads[0]}`, batch: "b" })}`);
  await page.locator(".prose", { hasText: payloads[0] ?? "" }).waitFor();
});

test("numbers are shown and copied as they were written", async () => {
  const numbers = ["9007199254740993", "1e400", "-0", "1.0", "18446744073709551616", "0.10"];
  const row = `{"id":"a",${numbers.map((n, i) => `"n${i}":${n}`).join(",")}}`;
  server.put("d", "b", [row]);
  await open("d", "&row=a&batch=b");
  await page.locator(".kv").waitFor();
  for (const n of numbers) {
    expect(await page.locator(".kv dd", { hasText: new RegExp(`^${n.replace(".", "\\.")}$`) }).count()).toBe(1);
    expect(
      await page.locator(".body [role=gridcell]", { hasText: new RegExp(`^${n.replace(".", "\\.")}$`) }).count(),
    ).toBe(1);
  }
  await page.getByRole("button", { name: "Copy row as JSON (y)" }).click();
  await until(async () => (await page.evaluate(() => navigator.clipboard.readText())) === row);
});

test("a very long text is cut until all of it is asked for", async () => {
  const text = `start ${"silt ".repeat(20_000)}end`;
  server.put("d", "b", [JSON.stringify({ id: "a", text })]);
  await open("d", "&row=a&batch=b");
  await page.locator(".prose").waitFor();
  expect(await page.locator(".body .len").innerText()).toBe("100,009");
  expect((await page.locator(".prose").innerText()).length).toBeLessThan(25_000);
  await page.getByRole("button", { name: "Show all 100,009 characters" }).click();
  await until(async () => (await page.locator(".prose").innerText()).endsWith("end"));
});

test("a phone has the row as wide as the screen, and nothing sticks out", async () => {
  server.put("d", "b", rows(50));
  await page.setViewportSize({ width: 390, height: 844 });
  await open("d");
  await line("r000049").click();
  await page.locator(".prose").waitFor();
  expect(await page.locator(".drawer").boundingBox()).toMatchObject({ x: 0, width: 390 });
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  expect(await axe(page)).toEqual([]);
  await page.goBack();
  await until(async () => (await page.locator(".drawer").count()) === 0);
  await page.goto(server.url);
  await page.getByRole("link", { name: "d", exact: true }).waitFor();
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
});

test("axe finds nothing, light and dark", async () => {
  server.put("d", "b", rows(100));
  server.merge("d", "b");
  server.put("d", "c", rows(10, 200));
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.goto(server.url);
    await page.getByRole("link", { name: "d", exact: true }).waitFor();
    expect(await axe(page)).toEqual([]);
    await open("d", "&row=r000205&batch=c");
    await page.locator(".prose").waitFor();
    await page.waitForFunction(() =>
      document.getAnimations().every((a) => a.playState !== "running" || a.effect?.getTiming().iterations === Infinity),
    );
    expect(await axe(page)).toEqual([]);
  }
  await page.getByRole("button", { name: "Light theme" }).click();
  expect(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme)).toBe("light");
  await page.evaluate(() => localStorage.clear());
});

test("an idle page asks for nothing", async () => {
  server.put("d", "b", rows(500));
  await open("d");
  await line("r000499").waitFor();
  await until(async () => (await indicator()).startsWith("Live"));
  await page.waitForLoadState("load");
  await until(async () => (await page.locator(".status").innerText()).includes("500 rows"));
  const asked: string[] = [];
  // What the opening of the stream asks for comes first.
  await new Promise((done) => setTimeout(done, 2500));
  page.on("request", (r) => asked.push(r.url()));
  await new Promise((done) => setTimeout(done, 4000));
  expect(asked).toEqual([]);
});
