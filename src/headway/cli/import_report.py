"""How imports and leak checks are printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.cli.format import counts
from headway.cli.output import Output
from headway.cli.show import RecordTable, render, renders, text, value

if TYPE_CHECKING:
    from headway.project import ImportReport
    from headway.prove.leaks import Leaks


_MOST = 10  # problems, conflicts and fields that are listed; --json has up to a hundred


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """One report per file, and the signals that the reward of each task counts."""

    reports: Sequence[ImportReport]
    counted: Mapping[str, frozenset[str]]

    @property
    def dry_run(self) -> bool:
        return any(report.dry_run for report in self.reports)

    def document(self) -> dict[str, Any]:
        return {"files": [report.document() for report in self.reports]}


def _files(stored: str) -> RecordTable[ImportReport]:
    return RecordTable(
        text("file", lambda report: report.file),
        text("format", lambda report: report.format),
        value("read", lambda report: report.read),
        value(stored, lambda report: report.stored),
        value("already there", lambda report: report.already),
        value("late", lambda report: report.late),
        value("conflicts", lambda report: report.conflicts),
        value("rejected", lambda report: report.rejected),
        value("no decision", lambda report: report.skipped),
        value("with label", lambda report: report.labelled),
        value("without", lambda report: report.records - report.labelled),
    )


@renders(Imported)
def _imported(out: Output, imported: Imported) -> None:
    _files("would store" if imported.dry_run else "stored").print(out, imported.reports)
    for report in imported.reports:
        _remarks(out, report, imported.counted)
        _problems(out, report)
        if report.leaks is not None:
            render(out, report.leaks)
    if not imported.reports:
        out.line("There is nothing to import.")


def _remarks(out: Output, report: ImportReport, counted: Mapping[str, frozenset[str]]) -> None:
    if report.schemas:
        out.line(f"{report.file}: {counts(dict(sorted(report.schemas.items())))}.")
    if report.statuses:
        out.line(f"{report.file}: by the task's reward {counts(dict(sorted(report.statuses.items())))}.")
    mined, synthetic = report.sources.get("mined", 0), report.sources.get("synthetic", 0)
    if mined:
        out.note(f"{report.file}: {mined:,} labels are mined, not measured; `learn` reads them only with --mined.")
    if synthetic:
        out.note(f"{report.file}: {synthetic:,} decisions are synthetic, and stay marked so.")
    if report.unknown_propensity:
        out.note(
            f"{report.file}: {report.unknown_propensity:,} decisions have no probability of their action: "
            "they cannot show who earns more."
        )
    for task in report.tasks:
        if counted[task] and report.label not in counted[task] and report.labelled:
            out.note(
                f"The reward of {task!r} counts {', '.join(sorted(counted[task]))}; these rows carry {report.label}: "
                f"declare reward = {{ {report.label} = 1.0 }} in headway.toml, then headway rewards rescore {task}."
            )


def _problems(out: Output, report: ImportReport) -> None:
    for why, count in Counter(report.why_skipped).most_common(_MOST):
        out.line(f"no decision: {count:,} × {why}")
    for clash in report.clashes[:_MOST]:
        out.note(f"conflict: {report.file} line {clash.line}: {clash.message}")
    for problem in report.problems[:_MOST]:
        out.note(f"rejected: {report.file} line {problem.line}: {problem.message} {problem.cure}".rstrip())
    if report.ignored:
        fields = ", ".join(f"{name} ({count:,})" for name, count in Counter(report.ignored).most_common(_MOST))
        more = f" and {len(report.ignored) - _MOST:,} more" if len(report.ignored) > _MOST else ""
        out.line(f"fields that are not imported: {fields}{more}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLeaks:
    """The leaks of one task."""

    task: str
    leaks: Leaks

    def document(self) -> dict[str, Any]:
        from headway.project import leaks_document

        return {"task": self.task, **leaks_document(self.leaks)}


@renders(TaskLeaks)
def _task_leaks(out: Output, checked: TaskLeaks) -> None:
    render(out, checked.leaks)
    if not checked.leaks.found:
        out.line(f"No field of {checked.task!r} gives the outcome away ({checked.leaks.labelled:,} rows checked).")


_LEAKS = RecordTable[Any](  # of leaks
    text("leaky field", lambda leak: leak.field),
    text("where", lambda leak: leak.where),
    text("how", lambda leak: leak.kind),
    text("label", lambda leak: leak.label),
    value("rows", lambda leak: leak.hits),
    value("of", lambda leak: leak.rows),
)


@renders("Leaks")
def _leaks(out: Output, leaks: Leaks) -> None:
    _LEAKS.print(out, leaks.found)
    if leaks.found:
        out.note(
            f"leak: {leaks.flagged:,} of {leaks.labelled:,} labelled rows give their outcome away; "
            f"learning leaves {', '.join(leaks.fields)} out."
        )
    if leaks.backwards:
        out.note(f"clock: {leaks.backwards:,} outcomes are dated before their decision.")
    if leaks.twins:
        out.note(
            f"duplicates: {leaks.twins:,} held-out rows have a text that is also trained on "
            f"({leaks.exact_twins:,} identical)."
        )
