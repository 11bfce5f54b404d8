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

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

export function synthetic(sources: Record<string, number>): boolean {
  return (sources["synthetic"] ?? 0) > 0;
}
