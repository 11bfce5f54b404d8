"""Synthetic history from a sample world, for tests, tutorials and trying out commands.

Every row has the source `synthetic`, which exports, evidence and screens show. The id of a row is derived from task,
world, seed and number, so that repeating a command adds nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from headway.nouns import Candidate, Decision, Progress, Signal, Situation, errors, ids
from headway.project import recorded

if TYPE_CHECKING:
    from headway.kits.demo.escalation import RouterLog
    from headway.project import Project


WORLDS = ("escalation", "escalation-priced")
_NAMESPACE = uuid.UUID("5f0c6a3e-3a55-4f0e-8d0c-6f3a2b1c9d7e")
_BATCH = 500
_DOLLARS = 20.0  # reward_v2 subtracts this per dollar: the priced world's fallback costs 0.3 / 20 dollars


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisReport:
    """Decisions from a sample world that were stored."""

    task: str
    world: str
    seed: int
    rows: int
    stored: int
    already: int
    source: str = "synthetic"


def synthesise(
    project: Project, task: str, *, rows: int, seed: int, world: str = "escalation", progress: Progress | None = None
) -> SynthesisReport:
    """Logged decisions of the world's own router, with exact propensities and the signals that `reward_v1` reads."""
    import numpy as np

    from headway.kits.demo.escalation import ACTIONS, PRICE, Escalation

    if world not in WORLDS:
        return _written(project, task, world, rows, seed, progress)
    settings = project.settings.task(task)
    priced = world == "escalation-priced"
    reward = "reward_v2" if priced else "reward_v1"
    reads = project.rewards(task).signals
    if reads and not reads & {"trajectory_reward", "verification_passed"}:
        raise errors.InvalidInput(
            f"The reward of {task!r} uses none of the signals that this world produces.",
            code="reward_mismatch",
            hint=f'Declare the task in headway.toml: [tasks.{task}] with actions = ["primary", "fallback"] and '
            f'reward = "{reward}".',
        )
    candidates = project.offers.candidates(task, list(ACTIONS), settings.actions)
    log = Escalation(PRICE if priced else 0.0).log(rows, np.random.default_rng(seed))
    now, before = project.clock(), project.query.count_source(task, "synthetic")
    for start in range(0, rows, _BATCH):
        decisions: list[Decision] = []
        signals: list[Signal] = []
        for row in range(start, min(rows, start + _BATCH)):
            decision = _decision(log, row, candidates, task, f"{task}/{world}/{seed}/{row}", now)
            decisions.append(decision)
            signals += [
                Signal(subject=decision.id, name=name, value=value, rater=f"world:{world}", key="synth", at=now)
                for name, value in _outcome(log, row, priced=priced).items()
            ]
        project.store.add(decisions, {decisions[0].config_hash: '{"encoder":""}'})
        project.store.signal(signals)
        if progress is not None:
            progress("synth", min(rows, start + _BATCH), rows)
    stored = project.query.count_source(task, "synthetic") - before
    return SynthesisReport(task=task, world=world, rows=rows, stored=stored, already=rows - stored, seed=seed)


def _written(
    project: Project, task: str, world: str, rows: int, seed: int, progress: Progress | None
) -> SynthesisReport:
    """The history that a world of another kit writes by itself: `world.history(task, rows, seed, now)`."""
    samples = project.catalogue.all("samples")
    load = project.catalogue.load
    worlds = {name: load(path)() for name, path in samples.items() if name == world}
    if world not in worlds or not hasattr(worlds[world], "history"):
        known = (
            *WORLDS,
            *(name for name, path in samples.items() if hasattr(load(path)(), "history")),
        )
        raise errors.UnknownName(
            f"There is no world {world!r} that can generate history.",
            code="unknown_world",
            hint=errors.did_you_mean(world, known),
        )
    project.settings.task(task)
    history = worlds[world].history(task, rows, seed, project.clock())
    before, done = _count(project, task), 0
    while batch := list(islice(history, _BATCH)):
        decisions, signals = [decision for decision, _ in batch], [signal for _, signal in batch]
        project.store.add(decisions, {decisions[0].config_hash: '{"encoder":""}'})
        project.store.signal(signals)
        done += len(batch)
        if progress is not None:
            progress("synth", done, rows)
    stored = _count(project, task) - before
    return SynthesisReport(task=task, world=world, rows=rows, stored=stored, already=rows - stored, seed=seed)


def _count(project: Project, task: str) -> int:
    return project.query.count_source(task, "synthetic") + project.query.count_source(task, "mined")


def _decision(log: RouterLog, row: int, candidates: tuple[Candidate, ...], task: str, name: str, at: float) -> Decision:
    """One row of the log as a decision; its id is derived from `name`."""
    from headway.kits.demo.escalation import ACTIONS, ROLES

    state = {"task_complexity_score": float(log.complexity[row]), "primary_failure_count": int(log.failures[row])}
    return recorded(
        Situation(task=task, text="", state=state, role=ROLES[int(log.role[row])]),
        candidates,
        action=ACTIONS[int(log.action[row])],
        propensity=None,
        probabilities=_ordered(candidates, float(log.fallback[row])),
        policy="elsewhere@0",
        at=at,
        id=ids.parse_decision(str(uuid.uuid5(_NAMESPACE, name))),
        key="",
        source="synthetic",
    )


def _outcome(log: RouterLog, row: int, *, priced: bool) -> dict[str, float]:
    from headway.kits.demo.escalation import PRICE

    values = {"trajectory_reward": float(log.trajectory[row]), "verification_passed": float(log.passed[row])}
    if priced:
        values["cost_usd"] = PRICE / _DOLLARS * float(log.action[row])
    return values


def _ordered(candidates: tuple[Candidate, ...], fallback: float) -> tuple[float, ...]:
    shares = {"primary": 1.0 - fallback, "fallback": fallback}
    return tuple(shares[candidate.name] for candidate in candidates)
