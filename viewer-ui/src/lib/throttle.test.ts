import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { throttle } from "./throttle";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("many calls are few, and the last one counts", () => {
  let calls = 0;
  const call = throttle(() => calls++, 100);
  for (let i = 0; i < 10; i++) call();
  expect(calls).toBe(1);
  vi.advanceTimersByTime(100);
  expect(calls).toBe(2);
  vi.advanceTimersByTime(1000);
  expect(calls).toBe(2);
  call();
  expect(calls).toBe(3);
});
