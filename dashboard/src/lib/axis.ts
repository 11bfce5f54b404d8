// The range of an axis, and round numbers on it.
export type Span = [number, number];

/** From the smallest to the largest value, with some room on both sides. */
export function span(values: number[]): Span {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = (high - low || Math.abs(high) || 1) * 0.15;
  return [low - room, high + room];
}

/** About `count` round numbers, or fewer. */
export function ticks([from, to]: Span, count = 4): number[] {
  const raw = (to - from) / count;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * ([1, 2, 5, 10].find((factor) => factor * unit >= raw) ?? 10);
  const marks: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) marks.push(Number(at.toPrecision(10)));
  return marks;
}
