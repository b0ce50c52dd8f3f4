import { expect, test } from "vitest";
import { parseJson } from "../lib/json";
import { problem } from "./error";

test("a problem document says what happened and what to do", () => {
  const body = parseJson(
    `{"type":"about:blank","title":"Not Found","status":404,"detail":"there is no dataset \\"jargon\\"","nearest":"jargon-file"}`,
  );
  expect(problem(404, body, null)).toMatchObject({
    status: 404,
    title: "This does not exist.",
    detail: 'There is no dataset "jargon".',
    nearest: "jargon-file",
    retryAfter: null,
  });
});

test("an answer that is no problem document still is an error in words", () => {
  expect(problem(503, undefined, "2")).toMatchObject({ title: "The server is busy.", detail: "", retryAfter: 2000 });
  expect(problem(418, parseJson("[1]"), "soon")).toMatchObject({ title: "The server answered 418.", retryAfter: null });
  expect(problem(500, parseJson(`{"request":"7f31c2"}`), null).request).toBe("7f31c2");
});
