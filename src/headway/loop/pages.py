"""One page per cycle, as Markdown and as HTML that needs no other file, in `.headway/reports/`."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from pathlib import Path

from headway.loop.cycle import CycleResult
from headway.prove import report

KEPT = 500  # pages of each form; older ones are deleted


def write(folder: Path, number: int, done: CycleResult, *, at: float, took_s: float) -> str:
    """Write the pages of a cycle; returns their name without the suffix."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"cycle-{number:06d}-{done.task}"[:60]
    facts = _facts(number, done, at, took_s)
    _replace(folder / f"{name}.md", _markdown(number, done, facts))
    _replace(folder / f"{name}.html", _html(number, done, facts))
    for ending in ("md", "html"):
        for old in sorted(folder.glob(f"cycle-*.{ending}"))[:-KEPT]:
            old.unlink(missing_ok=True)
    return name


def _facts(number: int, done: CycleResult, at: float, took_s: float) -> list[tuple[str, str]]:
    when = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC, {took_s:.1f} s"
    rows = [("cycle", f"{number} of task {done.task}"), ("when", when), ("newly settled", f"{done.settled:,}")]
    if done.rolled_back:
        rows.append(("rolled back", done.rolled_back))
    if done.learned:
        rows.append(("learned", done.learned))
    if done.proved:
        rows.append(("judged", done.proved))
    if done.promoted:
        rows.append(("promoted", f"{done.promoted}; undo: headway rollback {done.task}"))
    if done.canary:
        rows.append(("canary", done.canary))
    if done.experiment:
        rows.append(("experiment", done.experiment))
    if done.next is not None:
        rows.append(("waits for you", done.next.command))
    rows += [("note", note) for note in done.notes]
    if done.synthetic:
        rows.append(("synthetic data", f"{done.synthetic:,} decisions of this task are synthetic, not from users"))
    return rows


def _markdown(number: int, done: CycleResult, facts: list[tuple[str, str]]) -> str:
    lines = [f"# Cycle {number}: {done.task}", ""]
    lines += [f"- {name}: {_plain(value)}" for name, value in facts]
    page = "\n".join(lines) + "\n"
    if done.verdict is None or done.verdict.evidence is None:
        return page
    return f"{page}\n---\n\n{report.markdown(done.verdict)}"


def _plain(value: str) -> str:
    """Text with Markdown's special characters escaped."""
    marks: dict[str, str | int | None] = {mark: f"\\{mark}" for mark in "\\*_`[]#|"}
    return value.translate(str.maketrans({**marks, "&": "&amp;", "<": "&lt;", "\n": " "}))


def _html(number: int, done: CycleResult, facts: list[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    about = f"<section><table class='facts'>{rows}</table></section>"
    if done.verdict is not None and done.verdict.evidence is not None:
        before, main, after = report.html(done.verdict).partition("<main>")
        return f"{before}{main}{about}{after}"
    title = escape(f"Cycle {number}: {done.task}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>{title}</title><style>{report.STYLE}</style></head>'
        f"<body><main><header><h1>{title}</h1></header>{about}</main></body></html>\n"
    )


def _replace(path: Path, text: str) -> None:
    """Replace the file at once: a reader never sees half a page."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, "utf-8")
    part.replace(path)
