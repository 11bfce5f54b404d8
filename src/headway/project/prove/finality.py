"""When outcomes are final: how long they keep changing, by the log, and what a proof does about it.

One lag holds for all actions, the slowest one's: with a lag of its own for each action, an included decision would no
longer have the probability that it was logged with. It is frozen when a test is charged. If longer changes are seen
later, what was counted may have been too early, and the proof is another test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, floor, inf, log10
from typing import TYPE_CHECKING

from headway.nouns import Diagnostic, errors, lasting, moment, plural
from headway.observe import ChangeLags, change_lags

if TYPE_CHECKING:
    from headway.nouns import Evidence
    from headway.observe import Draws
    from headway.project.project.folder import Opened
    from headway.project.prove.kinds.kind import ProofQuestion
    from headway.promote import Terms
    from headway.settings import TaskSettings

_MARK = "A proof reads decisions up to the moment before which 99% of each action's outcomes are in."
LATE = "late_outcomes"  # the check of outcomes that came after they counted as missing
SOON_S = 60.0  # changes within a minute neither open another test nor need a word
_ROOM = 1.25  # a lag is frozen with this much room, so that chance does not open another test
_GROWTH = 20  # shown lags are measured again once the log has grown by 1/_GROWTH
_FINAL = " final after "


def measured_lags(project: Opened, settings: TaskSettings) -> ChangeLags:
    """How long outcomes change, from the times of every signal that reward, gates and guards read."""
    return change_lags(
        project.database,
        project.query,
        settings.name,
        names=project.read_signals(settings.name),
        required=settings.required if project.rewards(settings.name).counting else (),
        reward_after_s=settings.reward_after_s,
        now=project.clock(),
    )


def changing_outcomes(project: Opened, task: str) -> list[str]:
    """The sentences about a task, for a status that is asked for all the time."""
    settings = project.settings.task(task)
    return change_sentences(settings, _known_lags(project, settings))


def final_before(project: Opened, settings: TaskSettings) -> float:
    """The time up to which decisions have their final outcomes, for a status as well."""
    lags = _known_lags(project, settings)
    return lags.until - _with_room(lags.slowest[1]) if lags.final else inf


def _known_lags(project: Opened, settings: TaskSettings) -> ChangeLags:
    """The lags as last measured in this process, and again as the log grows."""
    task = settings.name
    last = project.query.last_signal()
    version = project.rewards(task).version
    known = project.change_lags.get(task)
    if known is None or known[0] != version or last * _GROWTH > known[1] * (_GROWTH + 1):
        known = project.change_lags[task] = (version, last, measured_lags(project, settings))
    return known[2]


def frozen_lag(project: Opened, task: str, terms: Terms, test: str, lags: ChangeLags) -> tuple[str, float]:
    """The name of the test that a proof belongs to, and the age in seconds from which its decisions count."""
    measured = lags.slowest[1]
    charged = [
        entry
        for entry in project.ledger.tests(task)
        if entry.n > terms.since
        and (entry.policy_hash, entry.detail["against"]) == (terms.candidate_hash, terms.lineage)
        and entry.detail["plan"].partition(_FINAL)[0] == test
    ]
    if not charged:
        return test, _with_room(measured)
    name, frozen = str(charged[-1].detail["plan"]), charged[-1].detail.get("final_s")
    if frozen is None:  # charged by an earlier version
        return name, _with_room(measured)
    if measured <= max(float(frozen), SOON_S):
        return name, max(float(frozen), measured)
    return f"{test}{_FINAL}{_with_room(measured):g} s", _with_room(measured)


def _with_room(seconds: float) -> float:
    """A quarter more, rounded up to two digits."""
    if seconds <= 0.0:
        return 0.0
    unit = 10.0 ** (floor(log10(seconds * _ROOM)) - 1)
    return ceil(seconds * _ROOM / unit) * unit


def late_outcomes(settings: TaskSettings, lags: ChangeLags) -> Diagnostic:
    """The check of outcomes that come after `reward_after_s`, where missing ones have a worth or are left out."""
    counted = settings.on_censored != "exclude" or settings.missing == "at random"
    action, within = max(lags.window.items(), key=lambda item: item[1], default=("", 0.0))
    ok = not within or not counted
    wait = f"{_with_room(within):.0f}"
    return Diagnostic(
        name=LATE,
        value=within,
        limit=settings.reward_after_s,
        ok=ok,
        blocks=True,
        message=f"Cannot tell: more than 1% of the outcomes of {action!r} come after reward_after_s, up to "
        f"{lasting(within)} after the decision, and count as missing until then"
        if not ok
        else "at most 1% of each action's outcomes come after they counted as missing",
        cure="" if ok else f"Set reward_after_s = {wait} in the task's settings, then run: headway rewards rescore "
        f"{settings.name}",
    )  # fmt: skip


def change_sentences(settings: TaskSettings, lags: ChangeLags) -> list[str]:
    """What status, page, doctor and verdict say about outcomes that change; empty where they do not."""
    action, seconds = lags.slowest
    sentences = []
    if seconds > SOON_S:
        text = (
            f"Outcomes of {action!r} change for up to {lasting(seconds)}: a proof counts decisions that are "
            f"{lasting(_with_room(seconds))} old."
        )
        if settings.final_after_s < _with_room(seconds):
            text += f" Set final_after_s = {_with_room(seconds):.0f} or more in the settings of {settings.name!r}."
        sentences.append(text)
    check = late_outcomes(settings, lags)
    if not check.ok:
        sentences.append(f"{check.message.partition(': ')[2].capitalize()}. {check.cure}")
    if lags.untimed:
        sentences.append(
            f"{plural(lags.untimed, 'imported decision')} without times of signals: whether their outcomes were final "
            "is not known."
        )
    return sentences


def with_finality(question: ProofQuestion, lags: ChangeLags, evidence: Evidence) -> Evidence:
    """The evidence with what is known of later changes, and the check of outcomes that come too late."""
    settings = question.settings
    return replace(
        evidence,
        diagnostics=(*evidence.diagnostics, late_outcomes(settings, lags)),
        notes=(*evidence.notes, *change_sentences(settings, lags)),
        final_s=question.final_s,
        seen_s=lags.seen_s,
    )


def nothing_speaks(task: str, counts: Mapping[str, int]) -> errors.InvalidInput:
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return errors.InvalidInput(
        f"No settled decision of {task!r} can be evidence: {listed}.",
        code="propensity_unknown",
        hint="A proof needs decisions over today's actions, and the probability that each was made with: let Headway "
        "decide, or import it (--map propensity=COLUMN).",
    )


def nothing_decided(task: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"No results yet for {task!r}.",
        code="no_evidence",
        hint="Send outcomes with `headway signal`, then prove again.",
    )


def too_early(settings: TaskSettings, waiting: Draws, final_s: float = 0.0) -> errors.InvalidInput:
    first = moment(float(waiting.at[0]) / 1e6 + max(final_s, settings.reward_after_s))
    if final_s and waiting.final.all():
        first = moment(float(waiting.at[0]) / 1e6 + final_s)
        return errors.InvalidInput(
            f"{plural(len(waiting), 'decision')} of {settings.name!r} could be evidence, and every outcome may still "
            f"change: outcomes are final after {lasting(final_s)}.",
            code="no_evidence",
            hint=f"Wait: the first of them counts on {first}.",
        )
    return errors.InvalidInput(
        f"Waiting for outcomes: {plural(len(waiting), 'decision')} of {settings.name!r} could be evidence, "
        f"{int((~waiting.final).sum()):,} without an outcome yet.",
        code="no_evidence",
        hint=f"{_MARK} Send the outcomes (`headway signal`), or shorten reward_after_s, after which an outcome counts "
        f"as missing: for the first of them on {first}.",
    )
