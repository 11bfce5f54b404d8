"""How a candidate looks on rows that it was trained on: what is not worth a test is refused before it spends anything.

These rows flatter the candidate, so one that does not look better even here, or makes the same choices as the current
policy, is not worth a test. They are never evidence, so the look takes nothing from the proof.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from headway.nouns.checkpoint import Header, PolicyRef
from headway.nouns.evidence import Diagnostic
from headway.nouns.records import Candidate, Settled
from headway.observe.experience import part_of
from headway.project.learn import LEARNED_PARTS
from headway.project.prove.actions_today import ActionsToday
from headway.project.prove.change import changed_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headway.decide.acting import Pipeline
    from headway.nouns.protocols import Floats
    from headway.project import Project
    from headway.promote.terms import Terms
    from headway.settings import TaskSettings


TRAINING_ROWS = "training_rows"
_MOST = 5000  # training rows that are read, the newest of them
_BATCH = 1000
_SAME = 1e-9
_CLEAR = 1.0  # standard errors; a later start costs more decisions than a poor first candidate does


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a candidate compares with the current policy on the rows that it was trained on."""

    rows: int
    moved: float  # the largest difference of two probabilities
    difference: float  # candidate minus current
    error: float  # the standard error of the difference

    @property
    def same(self) -> bool:
        """Whether both make the same choices: there is nothing to prove."""
        return self.moved <= _SAME

    @property
    def clear(self) -> bool:
        """Whether the candidate looks better by more than a standard error. It has read these rows: no evidence."""
        return self.difference > _CLEAR * self.error


def first_look(project: Project, settings: TaskSettings, terms: Terms) -> Look | None:
    """The look at the training rows; None for built-in policies and those without training rows in this store.

    The loop asks at every check until the test starts. The answer is remembered until something that it rests on is
    different: the policies, the settings, or the outcomes of the training rows.
    """
    if PolicyRef.parse(terms.candidate).built_in:
        return None
    task, header = settings.name, project.registry.header(terms.candidate_hash)
    about = (
        *(terms.candidate_hash, terms.against_hash, terms.config_hash, terms.reward_version),
        changed_from(project, task),
        project.query.live_outcomes(task, upto=int(header.trained_on.get("upto", 0))),
    )
    known = project.first_looks.get(task)
    if known is not None and known[0] == about:
        return known[1]
    rows, today = _training_rows(project, header), ActionsToday(project, settings)
    rows = [row for row in rows if not today.lacking(row.decision)]
    look = None
    if rows:
        target = project.servings.pipeline(task, terms.config, terms.candidate, terms.candidate_hash)
        current = project.servings.pipeline(task, terms.config, terms.against, terms.against_hash)
        look = _compared(rows, target, current, today)
    project.first_looks[task] = about, look
    return look


def screen(project: Project, settings: TaskSettings, terms: Terms) -> Diagnostic | None:
    """The check that refuses a candidate which looks no better on its own training rows; None where it passes."""
    look = first_look(project, settings, terms)
    if look is None or (look.difference > 0.0 and not look.same):
        return None
    what = f"makes the same choices as {terms.against}" if look.same else "looks no better"
    return Diagnostic(
        name=TRAINING_ROWS,
        value=look.difference,
        limit=0.0,
        ok=False,
        blocks=True,
        message=f"{what} on the rows that it was trained on ({look.rows:,} decisions)",
        cure=f"Learn a new candidate when there is more to learn from: headway learn {settings.name}. "
        "This look spends nothing of the error budget.",
    )


def _training_rows(project: Project, header: Header) -> Sequence[Settled]:
    upto = int(header.trained_on.get("upto", 0))
    if not upto:
        return ()
    newest = deque(_read(project, header, max(0, upto - 4 * _MOST), upto), maxlen=_MOST)
    return newest or list(islice(_read(project, header, 0, upto), _MOST))


def _read(project: Project, header: Header, after: int, upto: int) -> Iterator[Settled]:
    parts, by = header.trained_on.get("parts", LEARNED_PARTS), header.split.get("by", "group")
    changed = changed_from(project, header.task)
    for row in project.query.settled(header.task, after=after, upto=upto):
        decision = row.decision
        if decision.seq < changed:
            continue
        if row.reward is not None and decision.propensity_known and part_of(decision, by) in parts:
            yield row


def _compared(rows: Sequence[Settled], target: Pipeline, current: Pipeline, today: ActionsToday) -> Look:
    """Candidate minus current: doubly robust, with the mean reward of each action as the reward model."""
    given: dict[str, list[float]] = {}
    for row in rows:
        given.setdefault(row.decision.action, []).append(row.reward or 0.0)
    means = {action: sum(rewards) / len(rewards) for action, rewards in given.items()}
    overall = sum(row.reward or 0.0 for row in rows) / len(rows)
    scores: list[float] = []
    moved = 0.0
    stream = iter(rows)
    while batch := list(islice(stream, _BATCH)):
        sets = [today.of(row.decision) for row in batch]
        shifts = _distributions(target, batch, sets) - _distributions(current, batch, sets)
        moved = max(moved, float(np.abs(shifts).max(initial=0.0)))
        for row, offered, shift in zip(batch, sets, shifts, strict=True):
            decision, names = row.decision, [candidate.name for candidate in offered]
            model = np.array([means.get(name, overall) for name in names])
            score = float(shift[: len(names)] @ model)
            if decision.action in names:
                place = names.index(decision.action)
                score += float(shift[place] / decision.propensity * ((row.reward or 0.0) - model[place]))
            scores.append(score)
    spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else np.inf
    return Look(
        rows=len(rows), moved=moved, difference=float(np.mean(scores)), error=spread / float(np.sqrt(len(scores)))
    )


def _distributions(pipeline: Pipeline, batch: Sequence[Settled], sets: Sequence[Sequence[Candidate]]) -> Floats:
    decisions = [row.decision for row in batch]
    return pipeline.distributions(
        [decision.situation for decision in decisions], sets, [decision.seed for decision in decisions]
    )
