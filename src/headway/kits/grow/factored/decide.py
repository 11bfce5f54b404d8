"""Decisions of factored tasks: an action of several heads, drawn with what the policy remembers of the episode.

    decide(project, Ask("plan", "", None, {"state": {…}, "masks": {…}, "episode": "run-7"}))
    project.heads(decision.id)                                         # each head with its probabilities

A factored decision has one candidate, its action in words, and its joint propensity; a vector over all combinations is
not stored. The probabilities and the mask of each head are in its details.

An episode keeps the policy and the configuration of its first decision. Its steps are consecutive: a step that is
already decided is a Conflict (`step_conflict`). Where the caller names no step and another request takes it first, the
decision is drawn again, with that request's observation in its memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from headway.kits.grow.factored.draw import Drawn
from headway.kits.grow.factored.masks import masks_from, masks_together, plain_masks
from headway.kits.grow.factored.memory import KeptMemory, fold_memory, memories, observation_of, recall
from headway.kits.grow.factored.pipeline import FactoredPipeline, pipeline
from headway.kits.grow.factored.space import Factored, Masks
from headway.nouns import Candidate, Decision, Detail, DrawnAction, DrawnHead, Floats, Situation, errors, ids, plural
from headway.observe import dumps, loads
from headway.project import Ask, Considered, Opened, Serving
from headway.settings import TaskSettings

KIT, HEADS = "core", "heads"  # where the details of a factored decision are
_MOST_SERVINGS = 64  # of episodes that began under another policy
_TRIES = 32  # of a decision without a step, while other requests take the next one


class _Turn(NamedTuple):
    """Whose turn it is in an episode: what decides, with which memory, as which step."""

    serving: Serving
    memory: Floats
    step: int | None


# -- deciding


def decide(project: Opened, ask: Ask) -> tuple[Decision, bool]:
    """The stored decision, and whether it is new."""
    for tried in range(1, _TRIES + 1):
        earlier = _earlier(project, ask)
        if earlier is not None:
            return earlier, False
        considered = consider(project, ask)
        serving = considered.serving
        try:
            (stored,) = project.store.add(
                [considered.decision],
                {serving.config_hash: serving.config},
                details={considered.decision.id: considered.details},
            )
            return stored, considered.is_new(stored)
        except errors.Conflict as error:
            again = error.code == "id_conflict" or (error.code == "step_conflict" and ask.details.get("step") is None)
            if not again or tried == _TRIES:
                raise
    raise AssertionError("the last try returns or raises")


def consider(project: Opened, ask: Ask) -> Considered:
    """The decision that would be stored now, with its details."""
    task, _, candidates, details = ask
    if candidates is not None:
        raise errors.InvalidInput(
            f"{task!r} is factored: its choices are the `heads` of headway.toml, not candidates.",
            code="bad_candidates",
            hint="Omit them. Masks say what is allowed now.",
        )
    settings = project.settings.task(task)
    situation = ask.situation(project.redact)
    turn = _turn(project, settings, situation)
    body = loads(turn.serving.config)
    acting = _acts(turn.serving)
    space, masks = masks_together(acting.policy.space, body["masks"], details.get("masks"))
    observations = observation_of(acting.policy, situation.state, body["state"])
    seed = project.seeds.next() if project.seeds is not None else int.from_bytes(os.urandom(8), "little")
    drawn, opinions = acting.act(observations, turn.memory, masks, (seed,))
    decision = _decision(project, turn, replace(situation, step=turn.step), space, drawn, seed, ask)
    if situation.episode is not None and turn.step is not None and acting.policy.memory_width:
        memories(project).keep(task, situation.episode, KeptMemory(decision.id, turn.step, opinions.memory))
    beside = _document(space, masks, drawn, details.get("masks"))
    return Considered(decision, turn.serving, False, (Detail(KIT, HEADS, dumps(beside).encode()),))


def _turn(project: Opened, settings: TaskSettings, situation: Situation) -> _Turn:
    """What decides next: the episode's own policy from its second step on, with the memory of the steps before."""
    episode = situation.episode
    last = None if episode is None else project.query.last_step(settings.name, episode)
    if last is None:
        serving = project.servings.of(settings)
        first = None if episode is None else 0
        _check_step(situation, first)
        return _Turn(serving, _acts(serving).start(), situation.step if first is None else first)
    serving = _as_stored(project, settings, last)
    step = (last.situation.step or 0) + 1
    _check_step(situation, step)
    memory = recall(project, _acts(serving), last, loads(serving.config)["state"])
    return _Turn(serving, memory, step)


def _as_stored(project: Opened, settings: TaskSettings, decision: Decision) -> Serving:
    """The serving that made a stored decision: the rest of its episode keeps to it."""
    now = project.servings.of(settings)
    key = (decision.policy, decision.policy_hash, decision.config_hash)
    if key == (now.ref, now.digest, now.config_hash):
        return now
    stored = memories(project).servings
    known = stored.get(key)
    if known is None:
        if decision.claimed:
            raise errors.Conflict(
                f"The episode {decision.situation.episode!r} was decided elsewhere and imported.",
                code="episode_conflict",
                hint="Use another episode name.",
            )
        config = project.query.config(decision.config_hash)
        made = pipeline(project.servings, settings.name, loads(config), decision.policy, decision.policy_hash)
        if len(stored) >= _MOST_SERVINGS:
            stored.clear()
        known = stored[key] = Serving(
            ref=decision.policy,
            digest=decision.policy_hash,
            pipeline=made,
            config=config,
            config_hash=decision.config_hash,
            encoder=decision.encoder,
            state_seq=decision.state_seq,
        )
    return known


def _acts(serving: Serving) -> FactoredPipeline:
    assert isinstance(serving.pipeline, FactoredPipeline), "the task is factored"
    return serving.pipeline


def _check_step(situation: Situation, expected: int | None) -> None:
    step = situation.step
    if expected is None or step is None or step == expected:
        return
    if step < expected:
        raise errors.Conflict(
            f"Step {step} of the episode {situation.episode!r} is already decided.",
            code="step_conflict",
            hint=f"The next step is {expected}; omit `step` to use it.",
        )
    raise errors.InvalidInput(
        f"The step is {step}, but the next step of the episode {situation.episode!r} is {expected}.",
        code="bad_step",
        hint="A policy with a memory needs every observation; omit `step` to use the next one.",
    )


def _decision(
    project: Opened,
    turn: _Turn,
    situation: Situation,
    space: Factored,
    drawn: Drawn,
    seed: int,
    ask: Ask,
) -> Decision:
    now = round(project.clock() * 1e6) / 1e6  # as the store keeps it
    action = space.name(drawn.actions[0].tolist())
    floor = _acts(turn.serving).floor
    return Decision(
        id=ask.named_id(project) or ids.decision(now),
        situation=situation,
        candidates=(Candidate(action),),
        probabilities=(),  # of all combinations: not stored; those of each head are in the details
        action=action,
        propensity=float(drawn.propensity[0]),
        policy=turn.serving.ref,
        policy_hash=turn.serving.digest,
        config_hash=turn.serving.config_hash,
        encoder=turn.serving.encoder,
        exploration=f"policy, floor {floor:g} per head" if floor else "policy",
        seed=seed,
        at=now,
        source=ask.source(project),
        state_seq=turn.serving.state_seq,
        key=ask.details.get("key", ""),
    )


def _earlier(project: Opened, ask: Ask) -> Decision | None:
    """The stored decision of the caller's own id; Conflict if it was another request."""
    identifier = ask.named_id(project)
    if identifier is None:
        return None
    stored = project.query.find(identifier)
    if stored is None:
        return None
    situation, before = ask.situation(project.redact), stored.situation
    asked = loads(project.query.details(stored.id, KIT).get(HEADS, b"{}").decode()).get("asked")
    same = (
        (before.task, before.text, before.episode, before.role) == (
            situation.task, situation.text, situation.episode, situation.role)
        and dumps(before.state) == dumps(situation.state)
        and dumps(asked) == dumps(_plain(ask.details.get("masks")))
        and stored.key == ask.details.get("key", "")
    )  # fmt: skip
    if not same:
        raise errors.Conflict(
            f"The id {stored.id!r} belongs to another decision.",
            code="id_conflict",
            hint="Use a fresh id for a new decision; repeat the same request to read the stored one.",
        )
    return stored


# -- what is stored beside a decision


def _document(space: Factored, masks: Masks, drawn: Drawn, asked: Any) -> dict[str, Any]:
    """Plain values: the index, the probabilities and the choices of each head, the masks, and what was asked for."""
    counts = space.relevant[int(drawn.actions[0, 0])]
    used = [head for head, relevant in zip(space.heads, counts, strict=True) if relevant]
    return {
        "actions": drawn.actions[0].tolist(),
        "heads": [head.name for head in space.heads],
        "choices": {head.name: head.choices for head in used},
        "probabilities": {head.name: drawn.probabilities[head.name][0].tolist() for head in used},
        "masks": plain_masks(masks),
        "asked": _plain(asked),
    }


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


# -- explaining a decision


def heads(project: Opened, decision: str) -> tuple[DrawnHead, ...]:
    """The heads of a factored decision, the first one first: choice, probabilities and what was allowed.

    project.heads(pick.id)[0].propensity      # of the lead; their product is pick.propensity
    """
    data = project.query.details(ids.parse_decision(decision), KIT).get(HEADS)
    return () if data is None else _heads(data)


def _heads(data: bytes) -> tuple[DrawnHead, ...]:
    """The heads that counted in a stored decision, the first one first."""
    stored = loads(data.decode())
    actions = dict(zip(stored["heads"], stored["actions"], strict=True))
    lead = stored["actions"][0]
    drawn: list[DrawnHead] = []
    for name in stored["heads"]:
        if name not in stored["probabilities"]:
            continue
        choices, shares = stored["choices"][name], stored["probabilities"][name]
        mask = stored["masks"].get(name, [1] * len(choices))
        mask = mask[lead] if isinstance(mask[0], list) else mask
        drawn.append(
            DrawnHead(
                name=name,
                choice=choices[actions[name]],
                index=actions[name],
                propensity=shares[actions[name]],
                probabilities=dict(zip(choices, shares, strict=True)),
                allowed=tuple(choice for choice, allowed in zip(choices, mask, strict=True) if allowed),
            )
        )
    return tuple(drawn)


def answer(project: Opened, decision: Decision) -> dict[str, Any]:
    """What this kit adds to the answer over HTTP: the heads, and the step of the episode."""
    drawn = heads(project, decision.id)
    return {"heads": {head.name: head for head in drawn}, "step": decision.situation.step} if drawn else {}


def explain(project: Opened, decision: Decision) -> dict[str, Any]:
    """What this kit adds to an explanation: the heads, and why they were drawn so."""
    drawn = heads(project, decision.id)
    if not drawn:
        return {}
    if decision.claimed:
        why, again = "not known any more: the decision was made elsewhere", False
    else:
        try:
            why, again = replay(project, decision)[2], True
        except errors.HeadwayError as error:
            why, again = f"not known any more: {error.message}", False
    return {"heads": {head.name: head for head in drawn}, "why": why, "asked_again": again}


def replay(
    project: Opened, decision: Decision
) -> tuple[DrawnAction, list[tuple[Sequence[float], Sequence[float]]], str]:
    """The action drawn again from what is stored, its probabilities and each head's beside the stored ones, and why."""
    stored = loads(project.query.details(decision.id, KIT)[HEADS].decode())
    body = loads(project.query.config(decision.config_hash))
    acting = pipeline(project.servings, decision.task, body, decision.policy, decision.policy_hash)
    policy, memory, steps = acting.policy, acting.start(), 0
    episode, step = decision.situation.episode, decision.situation.step
    if policy.memory_width and episode is not None and step:
        earlier = project.query.steps(decision.task, episode, before=step)
        memory, steps = fold_memory(policy, earlier, memory, body["state"]), len(earlier)
        if steps != step:
            raise errors.Conflict(f"Step {steps} of its episode was deleted.", code="episode_incomplete")
    space, masks = masks_from(policy.space, stored["masks"])
    observations = observation_of(policy, decision.situation.state, body["state"])
    drawn, opinions = acting.act(observations, memory, masks, (decision.seed,))
    propensity = float(drawn.propensity[0])
    before, after = stored["probabilities"], _document(space, masks, drawn, stored["asked"])["probabilities"]
    pairs = [(after.get(name, ()), before.get(name, ())) for name in {*before, *after}]
    pairs.append(([propensity], [decision.propensity]))
    remembers = f" and remembers {plural(steps, 'step')}" if policy.memory_width else ""
    value = f"; it expects a return of {float(opinions.value[0]):.4g}" if policy.features else ""
    action = DrawnAction(action=space.name(drawn.actions[0].tolist()), propensity=propensity)
    return action, pairs, f"{acting.family} decides{remembers}{value}"
