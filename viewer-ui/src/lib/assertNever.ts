/** Ends a switch over a union: a new member does not compile until it has a case. */
export function assertNever(x: never): never {
  throw new Error(`unexpected: ${JSON.stringify(x)}`);
}
