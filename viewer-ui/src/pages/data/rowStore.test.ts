import { expect, test, vi } from "vitest";
import { comparing, type Page, type PageRequest, type Row } from "../../api/rows";
import type { Order } from "../../lib/urlState";
import { RowStore } from "./rowStore";

/** A server that keeps ids in a sorted list and answers as the contract says. */
class Server {
  ids: string[] = [];
  down = false;
  asked: PageRequest[] = [];
  private readonly order: Order;

  constructor(order: Order, n: number) {
    this.order = order;
    for (let i = 0; i < n; i++) this.ids.push(`m${String(i).padStart(7, "0")}`);
  }

  fetch = async (r: PageRequest): Promise<Page> => {
    this.asked.push(r);
    if (this.down) throw new Error("down");
    const all = this.ids.map(row).sort(comparing(this.order));
    const [way, id] = r.cursor?.split(" ") ?? [];
    const compare = comparing(this.order);
    let rows = all;
    if (way === "after") rows = all.filter((x) => compare(x, row(id ?? "")) > 0).slice(0, r.limit);
    else if (way === "before") rows = all.filter((x) => compare(x, row(id ?? "")) < 0).slice(-r.limit);
    else rows = all.slice(0, r.limit);
    const first = rows[0];
    const last = rows.at(-1);
    return {
      columns: ["id"],
      rows,
      next: last && compare(last, all.at(-1) as Row) < 0 ? `after ${last.id}` : null,
      prev: first ? `before ${first.id}` : r.cursor,
      liveRows: 0,
      tookMs: 1,
      bytesRead: 1,
    };
  };
}

function row(id: string): Row {
  const values = new Map([["id", id]]);
  return { key: `b/${id}`, id, batch: "b", createdAt: null, values, live: false, clipped: new Map() };
}

async function settled(store: RowStore): Promise<void> {
  await vi.waitFor(() => {
    if (store.getSnapshot().loading) throw new Error("loading");
  });
}

async function opened(order: Order, n: number): Promise<[Server, RowStore]> {
  const server = new Server(order, n);
  const store = new RowStore(server.fetch, order);
  store.reload();
  await settled(store);
  return [server, store];
}

const shown = (store: RowStore) =>
  Array.from({ length: store.getSnapshot().total }, (_, i) => store.row(i)?.id ?? null);

async function toEnd(store: RowStore): Promise<void> {
  while (!store.getSnapshot().atEnd) {
    store.more();
    await settled(store);
  }
}

test.each(["newest", "oldest"] as const)("all rows come once and in order, %s first", async (order) => {
  const [server, store] = await opened(order, 1234);
  await toEnd(store);
  expect(shown(store)).toEqual(order === "oldest" ? server.ids : [...server.ids].reverse());
});

test("new rows come above, newest first, and are known as new", async () => {
  const [server, store] = await opened("newest", 500);
  server.ids.push("n1", "n2", "n3");
  void store.pull();
  await settled(store);
  expect(shown(store).slice(0, 4)).toEqual(["n3", "n2", "n1", "m0000499"]);
  expect(store.getSnapshot().arrivedAbove).toBe(3);
  expect([...store.arrived.keys()].sort()).toEqual(["b/n1", "b/n2", "b/n3"]);
  await toEnd(store);
  expect(shown(store)).toEqual([...server.ids].reverse());
});

test("rows arrive in an empty view", async () => {
  for (const order of ["newest", "oldest"] as const) {
    const [server, store] = await opened(order, 0);
    expect(store.getSnapshot()).toMatchObject({ total: 0, atEnd: true });
    server.ids.push("a");
    void store.pull();
    await settled(store);
    expect(shown(store)).toEqual(["a"]);
    expect(store.arrived.has("b/a")).toBe(true);
  }
});

test("new rows come at the end, oldest first, once the end was reached", async () => {
  const [server, store] = await opened("oldest", 300);
  server.ids.push("n1");
  void store.pull();
  await settled(store);
  expect(store.getSnapshot().total).toBe(200);
  await toEnd(store);
  server.ids.push("n2", "n3");
  void store.pull();
  await settled(store);
  expect(shown(store)).toEqual(server.ids);
});

test("rows with ids of their own appear in the middle, and dropped rows go", async () => {
  const [server, store] = await opened("newest", 1000);
  await toEnd(store);
  server.ids = server.ids.filter((id) => id !== "m0000700" && id !== "m0000100");
  server.ids.push("m0000500x", "m0000799x", "zz");
  server.ids.sort();
  store.see(0, 999);
  store.invalidate();
  await settled(store);
  expect(shown(store)).toEqual([...server.ids].reverse());
});

test("a page that doubles in size loses nothing", async () => {
  const [server, store] = await opened("newest", 600);
  await toEnd(store);
  for (let i = 0; i < 1500; i++) server.ids.push(`m0000300-${String(i).padStart(5, "0")}`);
  server.ids.sort();
  store.see(0, 599);
  store.invalidate();
  await settled(store);
  await toEnd(store);
  expect(shown(store)).toEqual([...server.ids].reverse());
});

test("pages that were given up come back when they are seen", async () => {
  const [server, store] = await opened("newest", 12_000);
  await toEnd(store);
  const gone = shown(store).filter((id) => id === null).length;
  expect(gone).toBeGreaterThan(2000);
  const at = shown(store).indexOf(null);
  store.see(at, at + 40);
  await settled(store);
  expect(shown(store).slice(at, at + 40)).toEqual([...server.ids].reverse().slice(at, at + 40));
});

test("a reader who is away is not buried: the rest waits until the top is asked for", async () => {
  const [server, store] = await opened("newest", 500);
  store.setAtTop(false);
  for (let i = 0; i < 5000; i++) server.ids.push(`n${String(i).padStart(6, "0")}`);
  void store.pull();
  await settled(store);
  expect(store.getSnapshot().overflow).toBe(true);
  expect(store.getSnapshot().total).toBeLessThan(2600);
  const asked = server.asked.length;
  void store.pull();
  await settled(store);
  expect(server.asked.length).toBe(asked);
  store.setAtTop(true);
  await settled(store);
  expect(shown(store)[0]).toBe("n004999");
  expect(store.getSnapshot().overflow).toBe(false);
});

test("at the top the first page stays small while rows stream in", async () => {
  const [server, store] = await opened("newest", 500);
  for (let round = 0; round < 30; round++) {
    for (let i = 0; i < 50; i++) server.ids.push(`n${String(round * 50 + i).padStart(6, "0")}`);
    void store.pull();
    await settled(store);
    expect(store.getSnapshot().total).toBeLessThanOrEqual(800);
  }
  await toEnd(store);
  expect(shown(store)).toEqual([...server.ids].reverse());
});

test("rows stay when the server is gone, and the error is told until it is back", async () => {
  const [server, store] = await opened("newest", 300);
  server.down = true;
  store.more();
  await settled(store);
  expect(store.getSnapshot()).toMatchObject({ total: 200, error: new Error("down") });
  server.down = false;
  server.ids.push("n");
  store.invalidate();
  await settled(store);
  expect(store.getSnapshot()).toMatchObject({ total: 201, error: null });
});

test("requests made while one runs are made once", async () => {
  const [server, store] = await opened("newest", 300);
  const before = server.asked.length;
  for (let i = 0; i < 20; i++) void store.pull();
  await settled(store);
  expect(server.asked.length - before).toBe(1);
});
