"""How a candidate looks on rows that it was trained on: what is not worth a test is refused before it spends anything.

These rows flatter the candidate, so one that does not look better even here, or makes the same choices as the current
policy, is not worth a test. They are never evidence, so the look takes nothing from the proof.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from headway.nouns import Diagnostic, PolicyRef, plural
from headway.observe import LEARNED_PARTS, lacking, newest_trained, outcomes_upto, read_drawn
from headway.project.prove.actions_today import ActionsToday
from headway.project.prove.change import changed_from
from headway.prove import Look, look_at

if TYPE_CHECKING:
    from headway.nouns import Header
    from headway.observe import TaskFrame
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
    frame, upto = project.query.frame(task), int(header.trained_on.get("upto", 0))
    about = (
        *(terms.candidate_hash, terms.against_hash, terms.config_hash, terms.reward_version),
        changed_from(project, task),
        outcomes_upto(frame, upto),
    )
    known = project.first_looks.get(task)
    if known is None or known[0] != about:
        known = project.first_looks[task] = about, _look(project, settings, terms, header, frame) if upto else None
    return known[1]


def _look(project: Opened, settings: TaskSettings, terms: Terms, header: Header, frame: TaskFrame) -> Look | None:
    """At the newest training rows; from before, if the log of other tasks has grown since."""
    from headway.project.prove.rows import ComparedRows

    trained, today = header.trained_on, ActionsToday(project, settings)
    parts, by = trained.get("parts", LEARNED_PARTS), header.split.get("by", "group")
    changed = changed_from(project, settings.name)
    rows = newest_trained(frame, parts, by, upto=int(trained["upto"]), from_decision=changed, most=_MOST)
    lacks = lacking(frame, rows, today.lacks).values()
    drawn = read_drawn(project.database, frame, rows.where(~reduce(or_, lacks, rows.seq < 0)))
    if not len(drawn):
        return None
    compared = ComparedRows(
        project=project,
        frame=frame,
        arms=project.query.arms(settings.name),
        target=project.servings.pipeline(settings.name, terms.config, terms.candidate, terms.candidate_hash),
        baseline=project.servings.pipeline(settings.name, terms.config, terms.against, terms.against_hash),
        rewards=project.rewards(settings.name),
        today=today,
    )
    return look_at(compared.chunk(drawn, 0))


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
        message=f"{what} on its training data ({plural(look.rows, 'decision')})",
        cure=f"Learn a new candidate when there is more to learn from: headway learn {settings.name}. "
        "This look spends nothing of the error budget.",
    )
