"""Decide: from a caller's request to a decision with its exact probability, durably logged.

    decide(project, "route", text, ["small", "large"])               # the stored decision
    consider(project, asks)                                          # one per ask, or its error
    submit(project, considered)                                      # a future of the stored decisions

Asks with the same policy and candidates are scored in one call, whose rows equal single calls bit for bit: replay,
propensities and evidence do not depend on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast

from headway.decide import Author, Draw, Pipeline, sticky
from headway.nouns import Candidate, Decision, Detail, Situation, Source, errors, hook, ids
from headway.project.decide.elsewhere import recorded
from headway.project.decide.inputs import UNNAMED, Details, Offer, checked_source, is_comparison, named_id, situation_of
from headway.project.decide.units import author_of, of_unit

if TYPE_CHECKING:
    from headway.observe import Redactor
    from headway.project.decide.serving import Serving
    from headway.project.project.folder import Opened


_REMEMBERED = 20_000  # tasks of the latest decisions


class Ask(NamedTuple):
    """One question to a task's policy."""

    task: str
    text: str
    candidates: Iterable[Offer] | None
    details: Details

    def situation(self, redact: Redactor) -> Situation:
        """What the policy sees, checked and redacted."""
        return situation_of(self.task, self.text, self.details, redact)

    def named_id(self, project: Opened) -> str | None:
        """The id that the caller gives the decision."""
        return named_id(project.query, self.task, self.details)

    def source(self, project: Opened) -> Source:
        """The source of the decision; in a synthetic store it is always synthetic."""
        return source_of(project, self.details)


class Considered(NamedTuple):
    """A decision that is not stored yet."""

    decision: Decision
    serving: Serving
    opening: bool  # whether it is the first of a sticky episode
    details: tuple[Detail, ...] = ()  # stored with it

    def is_new(self, stored: Decision) -> bool:
        """Whether the store kept this decision, not an earlier one of the same id.

        Two processes may decide in the same microsecond; their seeds differ.
        """
        return stored.at == self.decision.at and stored.seed == self.decision.seed


@dataclass(slots=True)
class _Group:
    """Asks that one policy scores together, because they have the same candidates."""

    serving: Serving
    offered: tuple[Candidate, ...]
    author: Author = ""  # whose episodes these are, if a candidate decides on a share of them
    rows: list[tuple[int, bool, Situation, int, Details]] = field(default_factory=list)  # place, opening, …, seed


def decide(
    project: Opened,
    task: str,
    text: str = "",
    candidates: Iterable[Offer] | None = None,
    **details: Unpack[Details],
) -> Decision:
    """Choose one of the candidates, log the choice with its exact probability, and return it.

    A repeated `id` or `idempotency_key` returns the stored decision. In a sticky task the first decision of an episode
    draws and the later ones repeat it.
    """
    ask = Ask(task, text, candidates, details)
    if task in project.servings.blocking:
        return _decided(project, ask)[0]
    considered = one(project, ask)
    try:
        (stored,) = project.store.add(
            [considered.decision],
            {considered.serving.config_hash: considered.serving.config},
            opening=[considered.opening],
        )
    except errors.Conflict as error:
        considered = _repeated(project, ask, error)
        configs = {considered.serving.config_hash: considered.serving.config}
        (stored,) = project.store.add([considered.decision], configs)
    _remember(project, (stored,))
    if project.listeners:
        project.tell((stored,), ())
    return stored


def submit_ask(
    project: Opened, ask: Ask, *, opening: bool = True, details: tuple[Detail, ...] = ()
) -> Future[tuple[Decision, bool]]:
    """`decide` for callers that must not block: the decision once it is durable, and whether it is new.

    Without `opening` it draws inside its episode, whose earlier draw stays valid. `details` are stored with it.
    """
    outcome: Future[tuple[Decision, bool]] = Future()
    outcome.set_running_or_notify_cancel()  # a disconnected client cannot cancel a write
    if ask.task in project.servings.blocking:  # a server calls it in a thread
        outcome.set_result(_decided(project, ask))
        return outcome

    def store(considered: Considered, conflict: Callable[[errors.Conflict], Considered] | None) -> None:
        def stored(done: Future[list[Decision]]) -> None:
            try:
                error = done.exception()
                if isinstance(error, errors.Conflict) and conflict is not None:
                    store(conflict(error), None)
                elif error is not None:
                    outcome.set_exception(error)
                else:
                    decision = done.result()[0]
                    outcome.set_result((decision, considered.is_new(decision)))
            except BaseException as failed:  # noqa: BLE001 — handed to the caller that waits
                outcome.set_exception(failed)

        submit(project, [considered]).add_done_callback(stored)

    considered = one(project, ask)
    considered = considered._replace(opening=opening and considered.opening, details=(*considered.details, *details))
    store(considered, lambda error: _repeated(project, ask, error)._replace(details=details))
    return outcome


def submit(project: Opened, considered: Iterable[Considered]) -> Future[list[Decision]]:
    """Store considered decisions as one atomic batch; the future is done when they are durable."""
    batch = list(considered)
    decisions = [each.decision for each in batch]
    _remember(project, decisions)
    configs = {each.serving.config_hash: each.serving.config for each in batch}
    details = {each.decision.id: each.details for each in batch if each.details}
    storing = project.store.submit_decisions(
        decisions, configs, opening=[each.opening for each in batch], details=details
    )
    if project.listeners:
        project.tell_after(storing)
    return storing


def consider(project: Opened, asks: Sequence[Ask]) -> list[Considered | errors.HeadwayError]:
    """A considered decision per ask, or its error; nothing is stored."""
    considered: list[Considered | errors.HeadwayError | None] = [None] * len(asks)
    groups: dict[tuple[int, int, Author], _Group] = {}
    authors: dict[tuple[str, str], Author] = {}  # by task and episode, of those that begin with these asks
    noise = os.urandom(8 * len(asks))
    for place, (task, text, candidates, details) in enumerate(asks):
        try:
            settings = project.settings.tasks.get(task) or project.settings.task(task)
            traits = settings.traits
            if traits.consider:
                considered[place] = hook(traits.consider)(project, asks[place])
                continue
            more = bool(details) and (len(details) > 1 or "key" not in details)  # usually, a key is all that is there
            if more and details.get("masks"):
                raise _no_masks(task, settings.kind)
            compared, seed = task in project.servings.compared, None
            if traits.offers:
                compared = compared and candidates is not None
                candidates, seed = hook(traits.offers)(project, settings, asks[place])
            offered = project.offers.candidates(task, candidates, settings.actions)
            situation = situation_of(task, text, details, project.redact)
            compared = compared and is_comparison(offered)
            serving = project.servings.evenly(settings) if compared else project.servings.of(settings)
            if more and (settings.unit != "decision" or details.get("unit") is not None):
                details = of_unit(project, settings, situation, details)
            if more and not details.keys() <= UNNAMED:
                details = {**details, "id": named_id(project.query, task, details)}
            first, opening = None, False
            if settings.sticky and situation.episode is not None:
                first = project.query.opening(task, situation.episode)
                opening = first is None
        except errors.HeadwayError as error:
            considered[place] = error
            continue
        if seed is None:
            drawn = noise[8 * place : 8 * place + 8]
            seed = int.from_bytes(drawn, "little") if project.seeds is None else project.seeds.next()
        if first is not None and any(candidate.name == first.action for candidate in offered):
            seed, draw = first.seed, sticky(first, offered)
            (decision,) = _decisions(
                project, serving, offered, [(situation, seed, draw, details)], first.draw_id or first.id
            )
            considered[place] = Considered(decision, serving, False)
            continue
        author: Author = ""
        if serving.beside is not None:
            author, opening = author_of(project, serving, situation, seed, authors)
        group = groups.get((id(serving), id(offered), author))
        if group is None:
            group = groups[id(serving), id(offered), author] = _Group(serving, offered, author)
        group.rows.append((place, opening, situation, seed, details))
    for group in groups.values():
        _draw(project, group, considered)
    return cast(list[Considered | errors.HeadwayError], considered)  # every place is filled


def _decided(project: Opened, ask: Ask) -> tuple[Decision, bool]:
    """The stored decision of a task whose kind decides by itself, and whether it is new."""
    decided: tuple[Decision, bool] = hook(project.settings.task(ask.task).traits.decide)(project, ask)
    stored, new = decided
    _remember(project, (stored,))
    if new and project.listeners:
        project.tell((stored,), ())
    return stored, new


def beside(project: Opened, decision: Decision) -> Mapping[str, Any]:
    """What the kind of its task says about a decision besides: the heads of one that is drawn head by head."""
    path = project.settings.task(decision.task).traits.answer
    return hook(path)(project, decision) if path else {}


def _no_masks(task: str, kind: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"Masks are for tasks of several heads; {task!r} is a {kind} task.",
        code="bad_mask",
        hint="Offer only the candidates that are allowed.",
    )


def _draw(project: Opened, group: _Group, considered: list[Considered | errors.HeadwayError | None]) -> None:
    """Fill in the decisions of a group, or the error that all of them share."""
    places, openings, situations, seeds, details = zip(*group.rows, strict=True)
    serving, offered, author = group.serving, group.offered, group.author
    assert isinstance(serving.pipeline, Pipeline), "its kind has no `consider`"
    pipeline = serving.beside if author == "canary" and serving.beside is not None else serving.pipeline
    try:
        draws = pipeline.draw(situations, offered, seeds)
        if author:
            by = f", {serving.canary} on {serving.share:g} of episodes"
            draws = [draw._replace(assigned=author, exploration=draw.exploration + by) for draw in draws]
        decisions = _decisions(project, serving, offered, [*zip(situations, seeds, draws, details, strict=True)])
    except errors.HeadwayError as error:
        for place in places:
            considered[place] = error
        return
    for place, decision, opening in zip(places, decisions, openings, strict=True):
        considered[place] = Considered(decision, serving, opening)


def _decisions(
    project: Opened,
    serving: Serving,
    offered: tuple[Candidate, ...],
    rows: Sequence[tuple[Situation, int, Draw, Details]],
    draw_id: str = "",
) -> list[Decision]:
    """Draws as decisions with an id and a time; `draw_id` is the earlier decision that they repeat."""
    now = round(project.clock() * 1e6) / 1e6  # as the store keeps it
    noise = os.urandom(8 * len(rows))
    decisions: list[Decision] = []
    for row, (situation, seed, draw, details) in enumerate(rows):
        unit = details.get("unit") or ""
        decisions.append(
            Decision(
                id=details.get("id") or ids.decision(now, noise[8 * row : 8 * row + 8]),
                situation=situation,
                candidates=offered,
                probabilities=draw.probabilities,
                action=offered[draw.chosen].name,
                propensity=draw.probabilities[draw.chosen],
                policy=serving.ref,
                policy_hash=serving.digest,
                config_hash=serving.config_hash,
                encoder=serving.encoder,
                exploration=draw.exploration,
                seed=seed,
                at=now,
                source=project.source if "source" not in details else source_of(project, details),
                draw_id=draw_id or details.get("draw") or "",
                assigned="" if not draw.assigned else serving.canary if draw.assigned == "canary" else serving.ref,
                state_seq=serving.state_seq,
                key=details.get("key", ""),
                unit=unit,
                position=(details.get("position") or 0) if unit else 0,
            )
        )
    return decisions


def record(
    project: Opened,
    task: str,
    text: str = "",
    candidates: Iterable[Offer] | None = None,
    *,
    action: str,
    propensity: float | None = None,
    probabilities: Iterable[float] | None = None,
    policy: str = "elsewhere@0",
    at: float | None = None,
    **details: Unpack[Details],
) -> Decision:
    """Log a decision made elsewhere, with its probability.

    Pass all `probabilities`, or only the `propensity` of the action: the rest is then spread evenly.
    """
    if (settings := project.settings.task(task)).traits.decide:
        raise errors.InvalidInput(
            f"{task!r} is {settings.kind}: a decision that was made elsewhere cannot be recorded for it.",
            code="bad_kind",
            hint="Let Headway decide it, or import an export of another project.",
        )
    now = project.clock()
    situation = situation_of(task, text, details, project.redact)
    details = of_unit(project, settings, situation, details, at)
    decision = recorded(
        situation,
        project.offers.candidates(task, candidates, settings.actions),
        action=project.redact(action),
        propensity=propensity,
        probabilities=None if probabilities is None else tuple(probabilities),
        policy=policy,
        at=now if at is None else at,
        id=named_id(project.query, task, details) or ids.decision(now),
        key=details.get("key", ""),
        source=source_of(project, details, "imported"),
    )
    if unit := details.get("unit"):
        draw = details.get("draw", "")
        decision = replace(decision, unit=unit, position=details.get("position") or 0, draw_id=draw)
    (stored,) = project.store.add([decision], {decision.config_hash: '{"encoder":""}'})
    _remember(project, (stored,))
    return stored


def one(project: Opened, ask: Ask) -> Considered:
    """The considered decision of one ask; raises its error."""
    (considered,) = consider(project, (ask,))
    if isinstance(considered, errors.HeadwayError):
        raise considered
    return considered


def source_of(project: Opened, details: Details, default: Source | None = None) -> Source:
    """The source of a decision; in a synthetic store it is always synthetic."""
    if project.settings.store.synthetic:
        return "synthetic"
    return checked_source(details.get("source") or default or project.source)


def _repeated(project: Opened, ask: Ask, error: errors.Conflict) -> Considered:
    """The decision to store if another request opened the sticky episode first: its draw, or a new one if that
    action is not a candidate. Other conflicts are raised.
    """
    if error.code != "draw_exists":
        raise error
    return one(project, ask)._replace(opening=False)


def _remember(project: Opened, decisions: Sequence[Decision]) -> None:
    """Remember the task of a decision, so that its first signals need no query."""
    known = project.recent_tasks
    if len(known) > _REMEMBERED:
        known.clear()
    for decision in decisions:
        known[decision.id] = decision.situation.task
