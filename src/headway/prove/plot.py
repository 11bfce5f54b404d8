"""Inline SVG plots: the difference over time with its band, and an interval as dot and whisker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

from headway.nouns import Estimate

WIDTH, HEIGHT = 820, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 112, 16, 40
SIDE = WIDTH - RIGHT + 10
Point = tuple[int, float, float, float]  # n, estimate, lower and upper bound


def curve_svg(curve: Sequence[Point], *, margin: float = 0.0, unit: str = "decisions") -> str:
    """Plot n, estimate, lower and upper bound; the first, very wide part of the band is cut off."""
    points = [point for point in curve if all(isfinite(number) for number in point)]
    if len(points) < 2:
        return ""
    axes = _axes(points, margin)
    return "".join(
        [
            (
                f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Difference over {axes.most} {unit}" '
                'font-family="system-ui,sans-serif" font-size="13">'
            ),
            _band(axes, points),
            *_grid(axes),
            _across(axes.y(0.0), 'stroke="var(--ink,#1c2330)" stroke-width="1.5"'),
            _across(axes.y(margin), 'stroke="var(--ink,#1c2330)" stroke-dasharray="5 4"') if margin else "",
            _line(axes, points),
            _better_worse(axes.y(0.0)),
            (
                f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle" '
                f'fill="var(--soft,#5b6675)">{unit}</text></svg>'
            ),
        ]
    )


class _Axes(NamedTuple):
    most: int
    bottom: float
    top: float

    def x(self, n: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * n / self.most

    def y(self, value: float) -> float:
        value = min(max(value, self.bottom), self.top)
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.top - value) / (self.top - self.bottom)


def _axes(points: Sequence[Point], margin: float) -> _Axes:
    settled = points[len(points) // 4 :]
    top = max(*(point[3] for point in settled), margin, 0.0)
    bottom = min(*(point[2] for point in settled), margin, 0.0)
    space = 0.06 * (top - bottom) or 1.0
    return _Axes(points[-1][0], bottom - space, top + space)


def _band(axes: _Axes, points: Sequence[Point]) -> str:
    upper = " ".join(f"{axes.x(n):.1f},{axes.y(high):.1f}" for n, _, _, high in points)
    lower = " ".join(f"{axes.x(n):.1f},{axes.y(low):.1f}" for n, _, low, _ in reversed(points))
    return f'<polygon points="{upper} {lower}" fill="var(--band,#cfe0f5)"/>'


def _grid(axes: _Axes) -> Iterator[str]:
    for value in _ticks(axes.bottom, axes.top, 5):
        y = axes.y(value)
        yield _across(y, 'stroke="var(--line,#d9dee6)"')
        yield (
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="var(--soft,#5b6675)">'
            f"{_short(value, signed=True)}</text>"
        )
    for value in _ticks(0, axes.most, 5):
        yield (
            f'<text x="{axes.x(value):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle" '
            f'fill="var(--soft,#5b6675)">{value:,.0f}</text>'
        )


def _across(y: float, stroke: str) -> str:
    return f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" {stroke}/>'


def _line(axes: _Axes, points: Sequence[Point]) -> str:
    line = " ".join(f"{axes.x(n):.1f},{axes.y(mean):.1f}" for n, mean, _, _ in points)
    n, mean, _, _ = points[-1]
    return (
        f'<polyline points="{line}" fill="none" stroke="var(--blue,#1f5fae)" stroke-width="2.5" '
        'stroke-linejoin="round"/>'
        f'<circle cx="{axes.x(n):.1f}" cy="{axes.y(mean):.1f}" r="4" fill="var(--blue,#1f5fae)"/>'
        f'<text x="{SIDE}" y="{axes.y(mean) + 4:.1f}" font-weight="700" fill="var(--blue,#1f5fae)">'
        f"{_short(mean, signed=True)}</text>"
    )


def _better_worse(zero: float) -> str:
    """Which side of zero is better, where there is room for it."""
    better = f'<text x="{SIDE}" y="{TOP + 12}" fill="var(--good,#187a3f)">▲ better</text>'
    worse = f'<text x="{SIDE}" y="{HEIGHT - BOTTOM - 4}" fill="var(--bad,#b3261e)">▼ worse</text>'
    return (better if zero - TOP > 30 else "") + (worse if HEIGHT - BOTTOM - zero > 30 else "")


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
