"""`headway learn`: learn a candidate from settled decisions."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import click

from headway.cli.in_use import known
from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, renders
from headway.cli.verbs import Session, pairs, task_argument, verb, words_of
from headway.nouns import Header, plural

NOT_DUE = 3


def _knobs(family: str) -> str:
    """The knobs of a family, each with its default, from the dataclass that declares them."""
    from headway.nouns import knobs_of

    kits = known()
    entry = kits.all("families").get(family)
    paths = [(kits.owner("families", family), entry.knobs)] if entry is not None and entry.knobs else []
    named = [f"{knob.name}={knob.default}" for _, kind in kits.usable(paths) for knob in knobs_of(kind)]
    return f" {family}: {', '.join(named)}." if named else ""


class _Knob(click.Option):
    """--set, whose help lists the knobs of the family that is named."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        words = words_of(ctx)
        family = words[words.index("--family") + 1] if "--family" in words[:-1] else ""
        names = ", ".join(known().families())
        more = _knobs(family) or f" `headway learn --family NAME --help` lists them; NAME: {names}."
        return "--set KNOB=VALUE", f"{self.help}{more}"


@verb("learn", "headway learn route", "headway learn --world cartpole --seed 7", extended=True)
@task_argument(required=False)
@click.option("--family", help="How the policy is built and learned; each kind of task has a default.")
@click.option("--seed", type=int, help="Makes random choices in learning reproducible.")
@click.option("--set", "knobs", cls=_Knob, multiple=True, help="A knob of the family, for example ridge=3.0.")
@click.option("--trust", multiple=True, metavar="FIELD", help="Use this field although it looks leaky.")
@click.option("--mined", is_flag=True, help="Read rows with mined labels too; they are omitted by default.")
@click.option("--check", is_flag=True, help="Only report whether learning is due: exit status 0 if it is, 3 if not.")
def learn(
    session: Session,
    task: str | None,
    family: str | None,
    seed: int | None,
    knobs: tuple[str, ...],
    check: bool,
    mined: bool,
    trust: tuple[str, ...],
) -> int:
    """Learn a candidate policy from settled decisions.

    The candidate decides nothing until it is proven and promoted.
    """
    if task is None:
        raise click.UsageError(
            "Name a TASK (headway learn route) or a --world to practise in (headway learn --world cartpole)."
        )
    with session.project() as project:
        if check:
            missing = project.due(task)
            session.show(LearningDue(task=task, due=missing == 0, missing=missing))
            if missing:
                return NOT_DUE
            session.next(f"headway learn {task}")
            return 0
        held = project.standing(task)
        start = time.perf_counter()
        ref = project.learn(
            task, family=family, seed=seed, progress=session.out.progress, trust=trust, mined=mined,
            **pairs(knobs, "knob", parsed=True),
        )  # fmt: skip
        seconds = time.perf_counter() - start
        header = project.registry.header(project.registry.find(ref))
        step = project.next_step(task, ref)
        synthetic = session.synthetic(project, task)
    if held.under_test and held.candidate is not None:
        session.out.note(f"It replaces {held.candidate.ref}, which was under test: that test does not go on.")
    session.show(LearnedCandidate(task=task, policy=ref, header=header, seconds=seconds, synthetic=synthetic))
    session.next(step.command)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningDue:
    """Whether a task has enough new outcomes to be learned again."""

    task: str
    due: bool
    missing: int


@renders(LearningDue)
def _due(out: Output, answer: LearningDue) -> None:
    if answer.due:
        out.line(f"Due: {answer.task!r} has enough new outcomes.")
    else:
        out.line(f"Not due: {plural(answer.missing, 'more settled decision')} until {answer.task!r} is learned again.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCandidate:
    """A candidate that was just learned."""

    task: str
    policy: str
    header: Header
    seconds: float
    synthetic: int

    def document(self) -> dict[str, Any]:
        names = ("family", "parameters", "seed", "trained_on", "metrics", "baselines")
        trained = {name: getattr(self.header, name) for name in names}
        return {"task": self.task, "policy": self.policy, **trained, "synthetic": self.synthetic}


_VALUES = RecordTable[tuple[str, float]](
    Column.text("policy", lambda row: row[0]), Column.value("value", lambda row: row[1])
)


@renders(LearnedCandidate)
def _learned(out: Output, candidate: LearnedCandidate) -> None:
    header = candidate.header
    rows = plural(sum(header.trained_on.get("sources", {}).values()), "decision")
    out.line(
        f"{candidate.policy}  learned from {rows} in {candidate.seconds:.1f} s, seed {header.seed}.",
        style="bold",
    )
    for field in header.trained_on.get("left_out", ()):
        out.note(f"left out: {field} gives the outcome away (see `headway data leaks {candidate.task}`).")
    for line in header.extra.get("notes", ()):
        out.note(str(line))
    values = values_of(candidate.policy, header)
    if values:
        out.line("On the tuning rows (not evidence: `prove` uses other rows):")
        _VALUES.print(out, values)


def values_of(ref: str, header: Header) -> list[tuple[str, float]]:
    """The learner's own estimate for its candidate, and its baselines."""
    own = [(ref, header.metrics["tune_value"])] if "tune_value" in header.metrics else []
    others = [(name.replace("_", " "), estimate) for name, estimate in header.baselines.items()]
    return own + [(name, estimate) for name, estimate in others if not name.startswith("error ")]
