"""`headway hook`: store a coding agent's hook as signals."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import click

from headway.cli import Output, Session, renders, verb
from headway.kits.agents.events import HookReport, parsed, read, subject_of
from headway.nouns import errors

_MOST_BYTES = 16 * 1024 * 1024


@verb(
    "hook",
    """echo '{"session_id": "abc", "tests_passed": true}' | headway hook --task route""",
    "headway hook --task next-action --latest",
    waits=True,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@click.option("--task", help="The task of the decision; the JSON may name it too.")
@click.option("--decision", metavar="ID", help="The decision; overrides the one in the JSON.")
@click.option("--latest", is_flag=True, help="Otherwise use the task's newest decision, if it is less than a day old.")
@click.option("--tests", multiple=True, metavar="COMMAND", help="The prefix of a further command that runs tests.")
@click.option("--rater", default="hook", show_default=True, help="The rater of the signals.")
@click.option("--strict", is_flag=True, help="Exit with 1 if nothing could be stored.")
def hook(
    session: Session,
    task: str | None,
    decision: str | None,
    latest: bool,
    tests: tuple[str, ...],
    rater: str,
    strict: bool,
) -> int:
    """Turn a coding agent's hook into signals: tests passed, change kept or reverted.

    Reads JSON from standard input. The decision is the one that the JSON names ("decision"), else the episode of its
    session ("session_id"), else with --latest the newest one. Formats: {"session_id": …, "tests": {"passed": 12,
    "failed": 0}}, {"tests_passed": true}, {"change": "kept" or "reverted"}, {"signals": {…}}, or a coding agent's event
    after a shell command. The hook never disturbs the agent: the exit status is 0 and standard output stays empty,
    unless you use --strict or --json.
    """
    try:
        extra = click.get_current_context().args
        if extra:
            raise errors.InvalidInput(
                f"{extra[0][:60]!r} is not an option.", code="usage", hint="See headway hook --help"
            )
        _store(session, read(_input(), tests), task, decision, latest, rater)
    except errors.HeadwayError as error:
        session.out.error(error)
        return int(strict)
    except Exception as error:  # noqa: BLE001 — an unexpected error must not stop the agent
        session.out.failure({"code": "internal", "message": f"{type(error).__name__}: {error}", "hint": ""})
        return int(strict)
    return 0


def _input() -> object:
    raw = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise errors.InvalidInput("The hook's input is larger than 16 MB.", code="bad_hook")
    return parsed(raw)


def _store(
    session: Session, report: HookReport, task: str | None, decision: str | None, latest: bool, rater: str
) -> None:
    if not report.signals:
        session.show(HookSignals(id=None, signals={}, new=0))
        return
    with session.project() as project:
        subject = decision or subject_of(project, report, task or report.task, latest=latest)
        new = project.signal(subject, report.signals, rater=rater, key=report.key, label=report.label)
    session.show(HookSignals(id=subject, signals=dict(report.signals), new=new))


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSignals:
    """The signals that a hook's event led to."""

    id: str | None  # of the decision or the episode; None: the event holds no signal
    signals: Mapping[str, float]
    new: int


@renders(HookSignals)
def _stored(out: Output, stored: HookSignals) -> None:
    if stored.id is not None:  # standard output belongs to the agent
        values = ", ".join(f"{name}={value:g}" for name, value in stored.signals.items())
        out.aside(f"headway: {values} for {stored.id}")
