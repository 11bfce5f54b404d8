"""One page per cycle, as Markdown and as HTML that needs no other file, in `.headway/reports/`."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from headway.files import write_whole
from headway.kits.report import pages
from headway.loop import CycleResult
from headway.project import Project

KEPT = 500  # pages of each form; older ones are deleted


def write(project: Project, done: CycleResult, number: int, at: float, took_s: float) -> str:
    """Write the pages of a cycle; returns their name without the suffix."""
    folder = project.home / "reports"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"cycle-{number:06d}-{done.task}"[:60]
    facts = _facts(number, done, at, took_s)
    write_whole(folder / f"{name}.md", _markdown(number, done, facts).encode())
    write_whole(folder / f"{name}.html", _html(number, done, facts).encode())
    for ending in ("md", "html"):
        for old in sorted(folder.glob(f"cycle-*.{ending}"))[:-KEPT]:
            old.unlink(missing_ok=True)
    return name


def _facts(number: int, done: CycleResult, at: float, took_s: float) -> list[tuple[str, str]]:
    when = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC, {took_s:.1f} s"
    rows = [("cycle", f"{number} of task {done.task}"), ("when", when), ("newly settled", f"{done.settled:,}")]
    told = (
        ("rolled back", done.rolled_back), ("learned", done.learned), ("judged", done.proved),
        ("promoted", f"{done.promoted}; undo: headway rollback {done.task}" if done.promoted else ""),
        ("canary", done.canary), ("experiment", done.experiment),
        ("waits for you", "" if done.next is None else done.next.command),
    )  # fmt: skip
    rows += [(name, value) for name, value in (*told, *(("note", note) for note in done.notes)) if value]
    if done.synthetic:
        rows.append(("synthetic data", f"{done.synthetic:,} decisions of this task are synthetic, not from users"))
    return rows


def _markdown(number: int, done: CycleResult, facts: list[tuple[str, str]]) -> str:
    lines = [f"# Cycle {number}: {done.task}", ""]
    lines += [f"- {name}: {pages.escaped(value)}" for name, value in facts]
    page = "\n".join(lines) + "\n"
    if done.verdict is None or done.verdict.evidence is None:
        return page
    return f"{page}\n---\n\n{pages.markdown(done.verdict)}"


def _html(number: int, done: CycleResult, facts: list[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    about = f"<section><table class='facts'>{rows}</table></section>"
    if done.verdict is not None and done.verdict.evidence is not None:
        before, main, after = pages.html(done.verdict).partition("<main>")
        return f"{before}{main}{about}{after}"
    title = escape(f"Cycle {number}: {done.task}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>{title}</title><style>{pages.STYLE}</style></head>'
        f"<body><main><header><h1>{title}</h1></header>{about}</main></body></html>\n"
    )
