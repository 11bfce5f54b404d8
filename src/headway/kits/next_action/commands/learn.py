"""`headway learn` for rankers: --role, --force, and reasons of --check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from headway.cli import OptionHook, Output, Session, renders

_NOT_DUE = 3


def _run(session: Session, values: dict[str, Any]) -> int | None:
    """Turn the options into knobs; `--check` of a ranking task says why learning would be refused."""
    role, force = values.pop("role"), values.pop("force")
    if role:
        values["knobs"] = (*values["knobs"], f"role={role}")
    if force:
        values["knobs"] = (*values["knobs"], "force=true")
    if not values["check"] or values["task"] is None:
        return None
    with session.project() as project:
        settings = project.settings.task(values["task"])
        if (values["family"] or settings.family) != "ranker":
            return None
        readiness = _readiness(project, settings.name, mined=values["mined"], role=role or "", force=force)
    session.show(readiness)
    if readiness.due:
        session.next(f"headway learn {settings.name}")
    return 0 if readiness.due else _NOT_DUE


@dataclass(frozen=True, slots=True, kw_only=True)
class RankerReadiness:
    """Whether a ranker would be learned now, and what speaks against it."""

    task: str
    due: bool
    missing: int  # new outcomes until the loop learns again
    labelled: int
    reasons: tuple[str, ...]


def _readiness(project: Any, task: str, *, mined: bool, role: str, force: bool) -> RankerReadiness:
    from headway.kits.next_action.shapes import RankerKnobs

    missing, least = project.due(task), RankerKnobs().least
    labelled, left_out = project.labelled_rows(task, mined=mined, role=role)
    reasons = []
    if missing:
        reasons.append(f"{missing:,} more settled decisions until it is learned again")
    if labelled < least and not force:
        reasons.append(
            f"{labelled:,} labelled rows can be read, besides those kept for the proof; {least:,} are needed (--force "
            "learns anyway)"
        )
    reasons += [f"{field} gives the outcome away and would be left out" for field in left_out]
    blocked = bool(missing) or (labelled < least and not force)
    return RankerReadiness(task=task, due=not blocked, missing=missing, labelled=labelled, reasons=tuple(reasons))


@renders(RankerReadiness)
def _show(out: Output, readiness: RankerReadiness) -> None:
    out.line(f"{'Due' if readiness.due else 'Not due'}: {readiness.labelled:,} labelled rows of {readiness.task!r}.")
    for reason in readiness.reasons:
        out.note(f"{reason}.")


LEARN = OptionHook(
    options=(
        click.Option(["--role"], metavar="NAME", help="Learn from the rows of this role (agent) alone."),
        click.Option(["--force"], is_flag=True, help="Learn from very few rows, too."),
    ),
    run=_run,
    needed=("--family ranker",),
)
