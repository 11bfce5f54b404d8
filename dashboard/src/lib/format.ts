// Formats numbers and times for people.
const MINUS = "−";

export function whole(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

export function fixed(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toFixed(digits).replace("-", MINUS);
}

export function signed(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value < 0 ? MINUS : "+"}${text}`;
}

export function percent(value: number | null | undefined, digits = 0): string {
  return value === null || value === undefined ? "–" : `${(value * 100).toFixed(digits)}%`;
}

/** As many digits as a price or a latency needs. */
export function amount(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return Number(value.toPrecision(3)).toLocaleString("en-US", { maximumSignificantDigits: 3 }).replace("-", MINUS);
}

/** A price: $12.50, or $0.00022 where cents say nothing. */
export function dollars(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const text =
    size >= 1
      ? size.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })
      : size.toLocaleString("en-US", { maximumSignificantDigits: size >= 0.01 ? 3 : 2 });
  return `${value < 0 ? MINUS : ""}$${text}`;
}

/** A signal's value in its unit, as its name tells it. */
export function measure(name: string, value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (isMoney(name)) return dollars(value);
  if (/_s$|seconds/.test(name)) return `${amount(value)} s`;
  return /_ms$/.test(name) ? `${amount(value)} ms` : amount(value);
}

export function isMoney(name: string): boolean {
  return /usd|dollar|price|^cost$/.test(name);
}

/** A difference of rewards, with digits that say something: +0.041, +0.00022. */
export function gap(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return signed(value, size === 0 || size >= 0.0095 ? 3 : size >= 0.00095 ? 4 : 5);
}

/** 3 Nov 2026 */
export function day(at: string | number): string {
  const then = new Date(typeof at === "number" ? at * 1000 : at);
  return then.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
}

export function ago(at: string | number, now: number): string {
  const then = typeof at === "number" ? at * 1000 : Date.parse(at);
  const seconds = Math.max(0, (now - then) / 1000);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return new Date(then).toISOString().slice(0, 10);
}

export function moment(at: string | number): string {
  const then = new Date(typeof at === "number" ? at * 1000 : at);
  return `${then.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** 14:05, in UTC like every time here */
export function clockTime(at: string): string {
  return new Date(at).toISOString().slice(11, 16);
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

export function synthetic(sources: Record<string, number>): boolean {
  return (sources["synthetic"] ?? 0) > 0;
}
