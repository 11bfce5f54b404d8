"""A verdict as a page: terminal text, Markdown, and a single HTML file (the plot is inline SVG).

text(verdict)       # 100 columns, no colour
markdown(verdict)   # for an issue or a pull request
html(verdict)       # one file; everything from data is escaped
"""

from __future__ import annotations

from html import escape
from importlib.resources import files
from textwrap import fill

from headway.nouns import Verdict
from headway.prove.page import Line, Page, page_of
from headway.prove.plot import curve_svg, interval_svg

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
        f"# {page.word.upper()}: {_md(page.title)}",
        "",
        f"**{_md(page.headline)}**",
        "",
        _md(page.summary),
        "",
        *[f"- {_md(reason)}" for reason in page.reasons],
        *([f"- Next: {_md(page.hint)}"] if page.hint else []),
    ]
    for title, facts in page.facts:
        parts += ["", f"## {_md(title)}", "", "| | |", "|---|---|"]
        parts += [f"| {_md(name)} | {_md(value)} |" for name, value in facts]
    for title, lines in _tables(page):
        parts += ["", f"## {title}", ""]
        if title == page.earned:
            parts += ["| policy | estimate | 95% interval |", "|---|---|---|"]
            for line in lines:
                estimate = line.estimate
                assert estimate is not None
                parts.append(
                    f"| {_md(line.name)} | {estimate.value:+.3f} | {estimate.low:+.3f} to {estimate.high:+.3f} |"
                )
        else:
            parts += ["| | check | |", "|---|---|---|"]
            parts += [f"| {'✓' if line.ok else '✗'} | {_md(line.name)} | {_md(line.text)} |" for line in lines]
    if page.notes:
        parts += ["", "## Note", "", *[f"- {_md(note)}" for note in page.notes]]
    if page.counts:
        parts += ["", "Counted: " + ", ".join(f"{count} {_md(name)}" for name, count in page.counts) + "."]
    parts += ["", "## Method", "", _md(page.method), "", "## Recompute", ""]
    parts += [f"- {_md(name)}: `{value.replace('`', chr(39))}`" for name, value in page.recompute]
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
    return verdict if isinstance(verdict, Page) else page_of(verdict)


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


def _md(value: str) -> str:
    """Escape Markdown structure and HTML."""
    out = value.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    for mark in "|*_`[]#":
        out = out.replace(mark, f"\\{mark}")
    return out


STYLE = files(__package__).joinpath("report.css").read_text("utf-8").replace("\n", "")
