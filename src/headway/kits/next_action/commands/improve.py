"""`headway improve`: improves a repository by proposals that are ranked, evaluated, and kept if they are better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Column, Output, RecordTable, Session, Verbs, renders, verb, written
from headway.nouns import errors, plural

if TYPE_CHECKING:
    from headway.kits.next_action.improve.forecasts import ForecastReport
    from headway.kits.next_action.improve.run import Run
    from headway.kits.next_action.improve.run_state import RoundResult
    from headway.kits.next_action.measures import CalibrationWindow


class _Improve(Verbs):
    """`headway improve speed` is `headway improve run speed`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--help" not in args[:1] and (not args or args[0] not in self.list_commands(ctx)):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(
    "improve",
    cls=_Improve,
    examples=("headway improve speed", "headway improve report speed --json"),
)
def improve() -> None:
    """Improve a repository: rank proposals, evaluate them, keep what is proven better."""


@verb("run", "headway improve run speed", "headway improve run speed tests --rounds 10")
@click.argument("names", nargs=-1)
@click.option("--rounds", type=click.IntRange(1), help="Stop after this many rounds; running again continues.")
@click.option("--restart", is_flag=True, help="Start a new run, even if there is an unfinished one.")
def run(session: Session, names: tuple[str, ...], rounds: int | None, restart: bool) -> int:
    """Play rounds of the improvers NAMES, or of all: apply, evaluate in the sandbox, keep or revert.

    An unfinished run is continued. With several improvers, the policy of the task `improve` chooses who plays next.
    """
    from headway.kits.next_action.improve.run import play_several
    from headway.kits.next_action.improve.settings import improvers

    summary = ImproveSummary()
    with session.project(create=session.declared) as project:
        chosen = list(dict.fromkeys(names)) or list(improvers(project.settings))
        if not chosen:
            raise errors.InvalidSettings(
                "headway.toml declares no improver.",
                code="no_improver",
                hint="Add a table such as [improve.speed] with scope, metric, eval, files and proposals.",
            )
        for one, result in play_several(project, chosen, rounds=rounds, restart=restart, say=session.out.note):
            if result is None:
                session.out.note(f"{one.name}: {one.state.ended}")
            else:
                summary.add(one, result)
                session.out.line(_line(result))
    session.show(summary)
    best = next((branch for branch in summary.branches.values() if branch), "")
    session.next(f"git diff HEAD...{best}" if best else f"headway improve report {chosen[0]}")
    return 0


@verb("report", "headway improve report speed", "headway improve report speed --json")
@click.argument("name")
def report(session: Session, name: str) -> None:
    """Compare the predictions of an improver's rounds with their outcomes, over time."""
    from headway.kits.next_action.improve.forecasts import forecast_report

    with session.project() as project:
        compared = forecast_report(project, name)
    session.show(compared)
    session.next(f"headway improve run {name}")


improve.add_command(run)
improve.add_command(report)


@dataclass(slots=True, kw_only=True)
class ImproveSummary:
    """The rounds that one command played."""

    rounds: list[tuple[str, RoundResult]] = field(default_factory=list)  # improver, result
    branches: dict[str, str] = field(default_factory=dict)  # improver → branch with what was kept; "" if nothing
    results: dict[str, str] = field(default_factory=dict)  # improver → results.tsv

    def add(self, one: Run, result: RoundResult) -> None:
        self.rounds.append((one.name, result))
        self.branches[one.name] = one.branch if one.state.kept else ""
        self.results[one.name] = str(one.results)

    def document(self) -> dict[str, Any]:
        rounds = [{"improver": name, **asdict(result)} for name, result in self.rounds]
        return {"rounds": rounds, "branches": self.branches, "results": self.results}


@renders(ImproveSummary)
def _summary(out: Output, summary: ImproveSummary) -> None:
    kept = sum(result.verdict == "kept" for _, result in summary.rounds)
    out.line(f"{kept} of {len(summary.rounds)} proposals kept.")
    for name, branch in summary.branches.items():
        if branch:
            out.line(f"{name}: the branch {branch} has what was kept; results in {summary.results[name]}")


def _line(result: RoundResult) -> str:
    change = "" if result.before is None else f" {written.number(result.before)} → {written.number(result.after)}"
    return f"{result.round}. {result.verdict}{change}  {result.proposal.splitlines()[0][:80]}  ({result.why})"


_WINDOWS = RecordTable["CalibrationWindow"](
    Column.text("rounds", lambda window: f"{window.first}-{window.last}"),
    Column.value("compared", lambda window: window.predicted),
    Column.value("sign accuracy", lambda window: window.sign_accuracy),
    Column.value("majority sign", lambda window: window.majority),
    Column.value("80% coverage", lambda window: window.coverage),
    Column.value("mean error", lambda window: window.error),
)


@renders("ForecastReport")
def _report(out: Output, report: ForecastReport) -> None:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.verdicts.items())
    out.line(f"{report.improver}: {plural(report.rounds, 'round')} ({counts or 'none'})")
    rows: Sequence[CalibrationWindow] = report.windows
    _WINDOWS.print(out, rows)
    if report.overall is not None and not report.overall.predicted:
        out.note("No round had a prediction: the policy that decided does not predict rewards.")
    if report.rewards_erased:
        out.note(f"Left out: {plural(report.rewards_erased, 'round')} whose decisions were deleted.")
