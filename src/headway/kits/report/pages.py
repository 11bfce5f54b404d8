"""A verdict as a page: terminal text, Markdown, and a single HTML file (the plot is inline SVG).

text(verdict)       # 100 columns, no colour
markdown(verdict)   # for an issue or a pull request
html(verdict)       # one file; everything from data is escaped
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from math import ceil, floor, isfinite, log10
from textwrap import fill
from typing import NamedTuple

from headway.nouns import Estimate, Verdict
from headway.prove import Line, Page

WIDTH = 100


def text(verdict: Verdict | Page) -> str:
    """The page for a terminal."""
    page = _page(verdict)
    parts = [
        f"{page.word.upper()}  {page.title}",
        "",
        fill(page.headline, WIDTH),
        "",
        fill(page.summary, WIDTH),
        "",
        *[fill(f"- {reason}", WIDTH, subsequent_indent="  ") for reason in page.reasons],
        *([fill(f"  Next: {page.hint}", WIDTH, subsequent_indent="  ")] if page.hint else []),
    ]
    for title, facts in page.facts:
        wide = max(len(name) for name, _ in facts)
        parts += ["", title]
        parts += [fill(f"  {name:{wide}}  {value}", WIDTH, subsequent_indent=" " * (wide + 4)) for name, value in facts]
    for title, lines in _tables(page):
        shown = [line for line in lines if title == page.earned or not line.ok or title in (GUARDS, RATERS)]
        passed = [line.name for line in lines if line not in shown]
        parts += ["", title]
        wide = max((len(line.name) for line in shown), default=0)
        for row in shown:
            mark = "" if title == page.earned else ("ok  " if row.ok else "NO  ")
            parts.append(fill(f"  {mark}{row.name:{wide}}  {row.text}", WIDTH, subsequent_indent=" " * (wide + 8)))
        if passed:
            parts.append(fill(f"  ok  {len(passed)} passed: {'; '.join(passed)}", WIDTH, subsequent_indent="      "))
    if page.notes:
        parts += ["", "Note", *[fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in page.notes]]
    if page.counts:
        parts += ["", "Counted: " + ", ".join(f"{count} {name}" for name, count in page.counts)]
    parts += ["", fill(page.method, WIDTH), "", "Recompute"]
    parts += [f"  {name:14}  {value}" for name, value in page.recompute]
    return "\n".join(parts) + "\n"


def markdown(verdict: Verdict | Page) -> str:
    """The page as Markdown; cells are escaped."""
    page = _page(verdict)
    parts = [
        f"# {page.word.upper()}: {escaped(page.title)}",
        "",
        f"**{escaped(page.headline)}**",
        "",
        escaped(page.summary),
        "",
        *[f"- {escaped(reason)}" for reason in page.reasons],
        *([f"- Next: {escaped(page.hint)}"] if page.hint else []),
    ]
    for title, facts in page.facts:
        parts += ["", f"## {escaped(title)}", "", "| | |", "|---|---|"]
        parts += [f"| {escaped(name)} | {escaped(value)} |" for name, value in facts]
    for title, lines in _tables(page):
        parts += ["", f"## {title}", ""]
        if title == page.earned:
            parts += ["| policy | estimate | 95% interval |", "|---|---|---|"]
            for line in lines:
                estimate = line.estimate
                assert estimate is not None
                parts.append(
                    f"| {escaped(line.name)} | {estimate.value:+.3f} | {estimate.low:+.3f} to {estimate.high:+.3f} |"
                )
        else:
            parts += ["| | check | |", "|---|---|---|"]
            parts += [f"| {'✓' if line.ok else '✗'} | {escaped(line.name)} | {escaped(line.text)} |" for line in lines]
    if page.notes:
        parts += ["", "## Note", "", *[f"- {escaped(note)}" for note in page.notes]]
    if page.counts:
        parts += ["", "Counted: " + ", ".join(f"{count} {escaped(name)}" for name, count in page.counts) + "."]
    parts += ["", "## Method", "", escaped(page.method), "", "## Recompute", ""]
    parts += [f"- {escaped(name)}: `{value.replace('`', chr(39))}`" for name, value in page.recompute]
    return "\n".join(parts) + "\n"


def html(verdict: Verdict | Page) -> str:
    """The page as one HTML file."""
    page = _page(verdict)
    body = [
        f'<header><span class="badge {page.state}">{page.word.upper()}</span><h1>{escape(page.title)}</h1></header>',
        f'<p class="headline">{escape(page.headline)}</p>',
        f"<p>{escape(page.summary)}</p>",
    ]
    if page.curve:
        body.append(
            f"<figure>{curve_svg(page.curve, margin=page.margin, unit=page.unit)}<figcaption>The line is the estimated "
            "difference as data came in; the band shows the differences that the rule does not exclude. "
            f"The new policy passes once the whole band lies above {'the dashed line' if page.margin else 'zero'}."
            "</figcaption></figure>"
        )
    body.append("<h2>Why</h2><ul>" + "".join(f"<li>{escape(reason)}</li>" for reason in page.reasons) + "</ul>")
    if page.hint:
        body.append(f"<p><b>Next:</b> {escape(page.hint)}</p>")
    for title, facts in page.facts:
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
        body.append(f"<h2>{escape(title)}</h2><table>{cells}</table>")
    for title, lines in _tables(page):
        body.append(f"<h2>{title}</h2>{_table(page, title, lines)}")
    if page.notes:
        body.append("<h2>Note</h2><ul>" + "".join(f"<li>{escape(note)}</li>" for note in page.notes) + "</ul>")
    if page.counts:
        counted = ", ".join(f"{count} {escape(name)}" for name, count in page.counts)
        body.append(f"<h2>Counts</h2><p>{counted}.</p>")
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td><code>{escape(value)}</code></td></tr>" for name, value in page.recompute
    )
    body.append(f"<h2>Method</h2><p>{escape(page.method)}</p>")
    body.append(f"<h2>Recompute</h2><table class='facts'>{rows}</table>")
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{page.word.upper()}: {escape(page.title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _page(verdict: Verdict | Page) -> Page:
    return verdict if isinstance(verdict, Page) else Page.of(verdict)


GUARDS = "Must not get worse"
RATERS = "Who gave the rewards"


def _tables(page: Page) -> list[tuple[str, tuple[Line, ...]]]:
    named = (
        (page.earned, page.values),
        ("Data checks", page.checks),
        (GUARDS, page.guards),
        (RATERS, page.raters),
    )
    return [(title, lines) for title, lines in named if lines]


def _table(page: Page, title: str, lines: tuple[Line, ...]) -> str:
    if title == page.earned:
        return _values(lines, (0.0, 1.0) if page.unit == "comparisons" else None)
    return _rows(list(lines)) if title in (GUARDS, RATERS) else _checks(lines)


def _values(lines: tuple[Line, ...], scale: tuple[float, float] | None = None) -> str:
    estimates = [line.estimate for line in lines if line.estimate is not None]
    low, high = scale or (min(estimate.low for estimate in estimates), max(estimate.high for estimate in estimates))
    rows = []
    for line in lines:
        e = line.estimate
        assert e is not None
        strong = " class='strong'" if line.name in ("the new policy", "the current policy") else ""
        rows.append(
            f"<tr{strong}><th>{escape(line.name)}</th><td class='number'>{e.value:.3f}</td>"
            f"<td>{interval_svg(e, low, high)}</td><td class='range'>{e.low:.3f} to {e.high:.3f}</td></tr>"
        )
    return f"<table class='values'>{''.join(rows)}</table>"


def _checks(lines: tuple[Line, ...]) -> str:
    """Failed checks in full; passed ones folded if there are many."""
    failed, passed = [line for line in lines if not line.ok], [line for line in lines if line.ok]
    if len(passed) < 4:
        return _rows(list(lines))
    names = escape("; ".join(line.name for line in passed))
    folded = (
        f"<details><summary><span class='yes'>✓</span> {len(passed)} passed: {names}</summary>{_rows(passed)}</details>"
    )
    return (_rows(failed) if failed else "") + folded


def _rows(lines: list[Line]) -> str:
    rows = []
    for line in lines:
        mark = "<td class='yes'>✓</td>" if line.ok else "<td class='no'>✗</td>"
        cure = f"<div class='cure'>{escape(line.cure)}</div>" if line.cure else ""
        rows.append(f"<tr>{mark}<th>{escape(line.name)}</th><td>{escape(line.text)}{cure}</td></tr>")
    return f"<table class='checks'>{''.join(rows)}</table>"


def escaped(value: str) -> str:
    """Escape Markdown structure and HTML."""
    out = value.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    for mark in "|*_`[]#":
        out = out.replace(mark, f"\\{mark}")
    return out


STYLE = files(__package__).joinpath("report.css").read_text("utf-8").replace("\n", "")


_PLOT_WIDTH, HEIGHT = 820, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 112, 16, 40
SIDE = _PLOT_WIDTH - RIGHT + 10
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
                f'<svg viewBox="0 0 {_PLOT_WIDTH} {HEIGHT}" role="img" aria-label="Difference over {axes.most} {unit}" '
                'font-family="system-ui,sans-serif" font-size="13">'
            ),
            _band(axes, points),
            *_grid(axes),
            _across(axes.y(0.0), 'stroke="var(--ink,#1c2330)" stroke-width="1.5"'),
            _across(axes.y(margin), 'stroke="var(--ink,#1c2330)" stroke-dasharray="5 4"') if margin else "",
            _line(axes, points),
            _better_worse(axes.y(0.0)),
            (
                f'<text x="{(LEFT + _PLOT_WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle" '
                f'fill="var(--soft,#5b6675)">{unit}</text></svg>'
            ),
        ]
    )


class _Axes(NamedTuple):
    most: int
    bottom: float
    top: float

    def x(self, n: float) -> float:
        return LEFT + (_PLOT_WIDTH - LEFT - RIGHT) * n / self.most

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
    return f'<line x1="{LEFT}" x2="{_PLOT_WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" {stroke}/>'


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
