"""`headway runs`: training runs, their curves, and how to stop one."""

from __future__ import annotations

import click

from headway.cli import Column, Output, RecordTable, Session, renders, verb
from headway.kits.runs.training_runs import MetricCurves, RunList, TrainingRun
from headway.nouns import errors

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 40  # characters of a curve


@verb("runs", "headway runs", "headway runs morph-7-recurrent --json")
@click.argument("run", required=False)
@click.option("--stop", is_flag=True, help="Ask the run to stop after its next update; it can be resumed.")
def runs(session: Session, run: str | None, stop: bool) -> None:
    """List training runs, or show the curves of one.

    Every learner writes .headway/work/RUN/metrics.jsonl while it works. The page draws the same curves.
    """
    from headway.kits.runs.training_runs import ask_to_stop, list_runs, read_curves

    with session.project() as project:
        home, tasks = project.home, list(project.tasks())
    if stop:
        if run is None:
            raise errors.InvalidInput("Name the run to stop.", code="nothing_named", hint="`headway runs` lists them.")
        stopped = ask_to_stop(home, run)
        session.out.line(f"{run} stops after its next update.")
        session.next(stopped.command or "headway runs")
        return
    if run is None:
        known = list_runs(home)
        session.show(RunList(runs=known))
        session.next(
            f"headway runs {known[0].run}" if known else f"headway learn {tasks[0]}" if tasks else "headway status"
        )
        return
    curves = read_curves(home, run, points=_WIDTH)
    session.show(curves)
    again = curves.run.command if curves.run.state in ("stopped", "interrupted") else ""
    session.next(again or (f"headway prove {curves.run.task}" if curves.run.policy else "headway runs"))


_RUNS = RecordTable[TrainingRun](
    Column.text("run", lambda run: run.run),
    Column.text("state", lambda run: run.state),
    Column.text("task", lambda run: run.task or None),
    Column.text("family", lambda run: run.family or None),
    Column.text("policy", lambda run: run.policy or None),
    Column.time("started", lambda run: run.started),
    Column.time("updated", lambda run: run.updated),
)


@renders(RunList)
def _runs(out: Output, listed: RunList) -> None:
    if not listed.runs:
        out.line("Nothing was trained here yet.")
    _RUNS.print(out, listed.runs)


_SERIES = RecordTable[tuple[str, "list[float | None]"]](
    Column.text("number", lambda row: row[0]),
    Column.text("over time", lambda row: _drawn(row[1])),
    Column.value("last", lambda row: next((number for number in reversed(row[1]) if number is not None), None)),
)


@renders(MetricCurves)
def _curves(out: Output, curves: MetricCurves) -> None:
    end = f"{curves.x_name} {curves.x[-1]:,.0f}" if curves.x else "no metrics yet"
    out.line(f"{curves.run.run}: {curves.run.state}, {curves.lines:,} lines, {end}")
    _SERIES.print(out, curves.series.items())


def _drawn(values: list[float | None]) -> str:
    """A curve in one line of text."""
    known = [number for number in values if number is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if number is None else _BARS[round((number - low) * scale)] for number in values)
