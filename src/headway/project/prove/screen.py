"""How a candidate looks on rows that it was trained on: what is not worth a test is refused before it spends anything.

These rows flatter the candidate, so one that does not look better even here, or makes the same choices as the current
policy, is not worth a test. They are never evidence, so the look takes nothing from the proof.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from headway.nouns import Diagnostic, Header, PolicyRef, Settled
from headway.observe import LEARNED_PARTS, part_of
from headway.project.prove.actions_today import ActionsToday
from headway.project.prove.change import changed_from
from headway.prove import Look, look_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headway.project.project.folder import Opened
    from headway.promote import Terms
    from headway.settings import TaskSettings


TRAINING_ROWS = "training_rows"
_MOST = 5000  # training rows that are read, the newest of them


def first_look(project: Opened, settings: TaskSettings, terms: Terms) -> Look | None:
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
        look = look_at(rows, today.of, target.distributions, current.distributions)
    project.first_looks[task] = about, look
    return look


def screen(project: Opened, settings: TaskSettings, terms: Terms) -> Diagnostic | None:
    """The check that refuses a candidate which looks no better on its own training rows; None where it passes."""
    look = first_look(project, settings, terms)
    # A step's reward is its episode's: whether the candidate looks better by step says nothing.
    if look is None or (not look.same and (look.difference > 0.0 or settings.unit == "episode")):
        return None
    what = f"makes the same choices as {terms.against}" if look.same else "is no better even"
    return Diagnostic(
        name=TRAINING_ROWS,
        value=look.difference,
        limit=0.0,
        ok=False,
        blocks=True,
        message=f"{what} on its training data ({look.rows:,} decisions)",
        cure=f"Learn a new candidate when there is more to learn from: headway learn {settings.name}. "
        "This look spends nothing of the error budget.",
    )


def _training_rows(project: Opened, header: Header) -> Sequence[Settled]:
    upto = int(header.trained_on.get("upto", 0))
    if not upto:
        return ()
    newest = deque(_read(project, header, max(0, upto - 4 * _MOST), upto), maxlen=_MOST)
    return newest or list(islice(_read(project, header, 0, upto), _MOST))


def _read(project: Opened, header: Header, after: int, upto: int) -> Iterator[Settled]:
    parts, by = header.trained_on.get("parts", LEARNED_PARTS), header.split.get("by", "group")
    changed = changed_from(project, header.task)
    for row in project.query.settled(header.task, after=after, upto=upto):
        decision = row.decision
        if decision.seq < changed:
            continue
        if row.reward is not None and decision.propensity_known and part_of(decision, by) in parts:
            yield row
