"""Inline SVG plots: the difference over time with its band, and an interval as dot and whisker."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10

from headway.nouns.evidence import Estimate

__all__ = ["curve_svg", "interval_svg"]

WIDTH, HEIGHT = 820, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 112, 16, 40


def curve_svg(curve: Sequence[tuple[int, float, float, float]], *, margin: float = 0.0, unit: str = "decisions") -> str:
    """Plot n, estimate, lower and upper bound; the first, very wide part of the band is cut off."""
    points = [point for point in curve if all(isfinite(number) for number in point)]
    if len(points) < 2:
        return ""
    last = points[-1]
    settled = points[len(points) // 4 :]
    top = max(*(point[3] for point in settled), margin, 0.0)
    bottom = min(*(point[2] for point in settled), margin, 0.0)
    space = 0.06 * (top - bottom) or 1.0
    top, bottom = top + space, bottom - space
    most = last[0]

    def x(n: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * n / most

    def y(value: float) -> float:
        value = min(max(value, bottom), top)
        return TOP + (HEIGHT - TOP - BOTTOM) * (top - value) / (top - bottom)

    upper = " ".join(f"{x(n):.1f},{y(high):.1f}" for n, _, _, high in points)
    lower = " ".join(f"{x(n):.1f},{y(low):.1f}" for n, _, low, _ in reversed(points))
    line = " ".join(f"{x(n):.1f},{y(mean):.1f}" for n, mean, _, _ in points)
    parts = [
        (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Difference over {most} {unit}" '
            'font-family="system-ui,sans-serif" font-size="13">'
        ),
        f'<polygon points="{upper} {lower}" fill="var(--band,#cfe0f5)"/>',
    ]
    parts += [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="var(--line,#d9dee6)"/>'
        f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end" fill="var(--soft,#5b6675)">'
        f"{_short(value, signed=True)}</text>"
        for value in _ticks(bottom, top, 5)
    ]
    parts += [
        f'<text x="{x(value):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle" fill="var(--soft,#5b6675)">'
        f"{value:,.0f}</text>"
        for value in _ticks(0, most, 5)
    ]
    zero = y(0.0)
    parts.append(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{zero:.1f}" y2="{zero:.1f}" stroke="var(--ink,#1c2330)" '
        'stroke-width="1.5"/>'
    )
    if margin:
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(margin):.1f}" y2="{y(margin):.1f}" '
            'stroke="var(--ink,#1c2330)" stroke-dasharray="5 4"/>'
        )
    parts.append(
        f'<polyline points="{line}" fill="none" stroke="var(--blue,#1f5fae)" stroke-width="2.5" '
        'stroke-linejoin="round"/>'
        f'<circle cx="{x(last[0]):.1f}" cy="{y(last[1]):.1f}" r="4" fill="var(--blue,#1f5fae)"/>'
    )
    side = WIDTH - RIGHT + 10
    parts.append(
        f'<text x="{side}" y="{y(last[1]) + 4:.1f}" font-weight="700" fill="var(--blue,#1f5fae)">'
        f"{_short(last[1], signed=True)}</text>"
    )
    if zero - TOP > 30:
        parts.append(f'<text x="{side}" y="{TOP + 12}" fill="var(--good,#187a3f)">▲ better</text>')
    if HEIGHT - BOTTOM - zero > 30:
        parts.append(f'<text x="{side}" y="{HEIGHT - BOTTOM - 4}" fill="var(--bad,#b3261e)">▼ worse</text>')
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle" '
        f'fill="var(--soft,#5b6675)">{unit}</text></svg>'
    )
    return "".join(parts)


def interval_svg(estimate: Estimate, low: float, high: float, width: int = 260, height: int = 16) -> str:
    """A dot with a whisker, on a scale from low to high shared by all rows of a table."""
    span = (high - low) or 1.0

    def x(value: float) -> float:
        return 6 + (width - 12) * (min(max(value, low), high) - low) / span

    middle = height / 2
    return (
        f'<svg width="{width}" height="{height}" aria-hidden="true">'
        f'<line x1="{x(estimate.low):.1f}" x2="{x(estimate.high):.1f}" y1="{middle}" y2="{middle}" '
        'stroke="var(--soft,#5b6675)" stroke-width="2"/>'
        f'<circle cx="{x(estimate.value):.1f}" cy="{middle}" r="4.5" fill="var(--blue,#1f5fae)"/></svg>'
    )


def _ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers between low and high."""
    raw = (high - low) / about
    if raw <= 0.0 or not isfinite(raw):
        return [low]
    size = 10.0 ** floor(log10(raw))
    step = next(factor * size for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * size >= raw * 0.999)
    first = ceil(low / step - 1e-9)
    return [index * step for index in range(first, floor(high / step + 1e-9) + 1)]


def _short(value: float, *, signed: bool = False) -> str:
    if abs(value) < 1e-12:
        return "0"
    digits = max(0, min(6, 2 - floor(log10(abs(value)))))
    digits = max(digits, 2) if abs(value) < 10 else digits
    return f"{value:{'+' if signed else ''}.{min(digits, 3)}f}"
