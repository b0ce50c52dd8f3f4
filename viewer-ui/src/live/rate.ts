/** Rows per second over the last ten seconds. */
export class Rate {
  private readonly seen: { readonly at: number; readonly n: number }[] = [];
  private static readonly windowMs = 10_000;

  add(n: number, now: number): void {
    this.seen.push({ at: now, n });
  }

  perSecond(now: number): number {
    while (this.seen[0] && this.seen[0].at < now - Rate.windowMs) this.seen.shift();
    return this.seen.reduce((sum, s) => sum + s.n, 0) / (Rate.windowMs / 1000);
  }
}
