"""A comparison as Markdown, as one HTML file, and as pictures."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from headway.kits.grow.morph.blueprints import NAMES
from headway.kits.grow.morph.comparison import WayComparison
from headway.kits.grow.morph.space import OPS

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1f2933}
table{border-collapse:collapse;margin:1rem 0}
th,td{padding:.25rem .7rem;border-bottom:1px solid #d8dde2;text-align:right}
th:first-child,td:first-child{text-align:left}img{max-width:100%}"""


def tables(comparison: WayComparison) -> list[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    """(title, header, rows) of every table of the report."""
    ways = [
        (
            row.way, f"{row.net:.3f}", f"{row.low:.3f} … {row.high:.3f}", f"{row.test_accuracy:.3f}", f"{row.rent:.3f}",
            f"{row.parameters:,.0f}", f"{row.fossilised:.2f}", f"{row.stopped:.3f}",
        )
        for row in comparison.ways
    ]  # fmt: skip
    first = comparison.ways[0]
    apart = [
        (way, f"{mean:+.3f}", f"{low:+.3f} … {high:+.3f}", "yes" if low > 0 else "no")
        for way, (mean, low, high) in comparison.differences.items()
    ]
    ops = [(row.way, *(f"{count:.1f}" for count in row.ops)) for row in comparison.ways]
    used = [(name, f"{count:.2f}") for name, count in zip(NAMES, first.blueprints, strict=True) if count > 0]
    header = ("way", "net", "95% interval", "test accuracy", "rent", "parameters", "fossils", "stopped")
    return [
        ("Accuracy net of rent", header, ways),
        (f"{first.way} less the others, paired by host", ("way", "difference", "95% interval", "above 0"), apart),
        ("Operations per episode", ("way", *OPS), ops),
        (f"Blueprints that {first.way} germinates, per episode", ("blueprint", "times"), used),
    ]


def markdown(comparison: WayComparison, pictures: tuple[str, ...] = ()) -> str:
    """The report as Markdown."""
    lines = ["# Growing networks: held-out hosts", "", _intro(comparison), ""]
    for title, header, rows in tables(comparison):
        lines += [f"## {title}", "", f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        lines.append("")
    lines += [f"![{Path(name).stem}]({name})" for name in pictures]
    return "\n".join(lines) + "\n"


def page(comparison: WayComparison, pictures: tuple[Path, ...] = ()) -> str:
    """The report as one HTML file; pictures are part of it."""
    parts = [f"<h1>Growing networks: held-out hosts</h1><p>{html.escape(_intro(comparison))}</p>"]
    for path in pictures:
        data = base64.b64encode(path.read_bytes()).decode()
        parts.append(f'<img alt="{html.escape(path.stem)}" src="data:image/png;base64,{data}">')
    for title, header, rows in tables(comparison):
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        parts.append(f"<h2>{html.escape(title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Growing networks</title>'
        f"<style>{_STYLE}</style>{''.join(parts)}</html>\n"
    )


def _intro(comparison: WayComparison) -> str:
    first = comparison.ways[0]
    return (
        f"{comparison.hosts} hosts of {comparison.source} that nobody practised on (seed {comparison.seed}), "
        f"{first.policies} trained {'policy' if first.policies == 1 else 'policies'}, always the likeliest action. "
        "Net is test accuracy less rent, the cost of actions and penalties."
    )


def write_report(folder: Path, comparison: WayComparison, pictures: tuple[Path, ...] = ()) -> tuple[Path, Path]:
    """report.md and report.html in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text, web = folder / "report.md", folder / "report.html"
    text.write_text(markdown(comparison, tuple(path.name for path in pictures)), "utf-8")
    web.write_text(page(comparison, pictures), "utf-8")
    return text, web
