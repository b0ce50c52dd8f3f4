import { JsonNumber, type JsonValue } from "./json";

const integer = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A counter of ours, with thousands separators. */
export function formatCount(n: number): string {
  return integer.format(n);
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${formatCount(n)} ${n === 1 ? one : many}`;
}

export function formatBytes(n: number): string {
  if (n < 1000) return `${n} B`;
  let value = n;
  let unit = "B";
  for (const next of ["KB", "MB", "GB", "TB", "PB"]) {
    if (value < 999.5) break;
    value /= 1000;
    unit = next;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`;
}

export function formatRate(perSecond: number): string {
  return `${perSecond < 10 ? perSecond.toFixed(1) : formatCount(perSecond)} rows/s`;
}

export function formatSpan(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.round(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} days`;
}

export function formatAgo(at: number, now: number): string {
  return now - at < 5000 ? "just now" : `${formatSpan(now - at)} ago`;
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const pad = (n: number) => String(n).padStart(2, "0");

/** A share of rows; only none of them is 0%, and only all of them 100%. */
export function formatShare(share: number): string {
  if (share > 0 && share < 0.01) return "<1%";
  if (share > 0.99 && share < 1) return ">99%";
  return `${Math.round(share * 100)}%`;
}

/** The day and the time of day in UTC, apart, because a table mutes the day. */
export function formatMoment(at: Date, now: Date): readonly [day: string, time: string] {
  const day = `${at.getUTCDate()} ${months[at.getUTCMonth()]}`;
  const year = at.getUTCFullYear() === now.getUTCFullYear() ? "" : ` ${at.getUTCFullYear()}`;
  return [day + year, `${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}:${pad(at.getUTCSeconds())}`];
}

const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeStyle: "medium", timeZone: "UTC" });

export function formatFull(at: Date): string {
  return `${full.format(at).replace(" at ", ", ")} UTC`;
}

/**
 * Reads a `_created_at`: RFC 3339, or an integer of seconds, milliseconds or microseconds since 1970, told apart by
 * size. A time is no number of the user's: rounding to milliseconds is for showing only.
 */
export function parseTime(v: JsonValue | undefined): Date | null {
  let ms = Number.NaN;
  if (typeof v === "string" && /^\d{4}-\d\d-\d\d[Tt ]/.test(v)) ms = Date.parse(v);
  else if (v instanceof JsonNumber && /^-?\d{1,17}$/.test(v.literal)) {
    const n = Number(v.literal);
    const size = Math.abs(n);
    if (size < 1e11) ms = n * 1000;
    else if (size < 1e14) ms = n;
    else if (size < 1e17) ms = n / 1000;
  }
  return Number.isNaN(ms) ? null : new Date(ms);
}
