"""Synthetic history from a stated world, written down as such: for trying commands, tests and tutorials.

Every row has the source `synthetic`, which exports, evidence and screens carry on. The id of a row follows from task,
world, seed and number, so that the same command again adds nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.nouns.errors import InvalidInput, UnknownName, did_you_mean
from headway.nouns.ids import parse_decision_id
from headway.nouns.protocols import Progress
from headway.nouns.records import Candidate, Decision, Signal, Situation
from headway.project import recorded

if TYPE_CHECKING:
    from headway.project import Project

__all__ = ["WORLDS", "Synthesised", "synthesise"]

WORLDS = ("escalation", "escalation-priced")
_NAMESPACE = uuid.UUID("5f0c6a3e-3a55-4f0e-8d0c-6f3a2b1c9d7e")
_BATCH = 500
_DOLLARS = 20.0  # what reward_v2 takes off per dollar: the priced world's fallback costs 0.3 / 20 dollars


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesised:
    task: str
    world: str
    rows: int
    stored: int
    already: int
    seed: int


def synthesise(
    project: Project, task: str, *, rows: int, seed: int, world: str = "escalation", progress: Progress | None = None
) -> Synthesised:
    """Logged decisions of the world's own router, with exact propensities and the signals that `reward_v1` reads."""
    import numpy as np

    from headway.kits.demo.escalation import ACTIONS, PRICE, ROLES, Escalation

    if world not in WORLDS:
        raise UnknownName(
            f"There is no world {world!r} to make history from.", code="unknown_world", hint=did_you_mean(world, WORLDS)
        )
    settings = project.settings.task(task)
    priced = world == "escalation-priced"
    wanted = "reward_v2" if priced else "reward_v1"
    reads = project.rewards(task).signals
    if reads and not reads & {"trajectory_reward", "verification_passed"}:
        raise InvalidInput(
            f"The reward of {task!r} reads none of the signals that this world gives.",
            code="reward_mismatch",
            hint=f'Declare the task in headway.toml: [tasks.{task}] with actions = ["primary", "fallback"] and '
            f'reward = "{wanted}".',
        )
    candidates = project.offers.candidates(task, list(ACTIONS), settings.actions)
    log = Escalation(PRICE if priced else 0.0).log(rows, np.random.default_rng(seed))
    now, before = project.clock(), project.query.count_source(task, "synthetic")
    for start in range(0, rows, _BATCH):
        made: list[Decision] = []
        told: list[Signal] = []
        for row in range(start, min(rows, start + _BATCH)):
            fallback = float(log.fallback[row])
            decision = recorded(
                Situation(
                    task=task,
                    text="",
                    state={
                        "task_complexity_score": float(log.complexity[row]),
                        "primary_failure_count": int(log.failures[row]),
                    },
                    role=ROLES[int(log.role[row])],
                ),
                candidates,
                action=ACTIONS[int(log.action[row])],
                propensity=None,
                probabilities=_ordered(candidates, fallback),
                policy="elsewhere@0",
                at=now,
                id=parse_decision_id(str(uuid.uuid5(_NAMESPACE, f"{task}/{world}/{seed}/{row}"))),
                key="",
                source="synthetic",
            )
            made.append(decision)
            values = {"trajectory_reward": float(log.trajectory[row]), "verification_passed": float(log.passed[row])}
            if priced:
                values["cost_usd"] = PRICE / _DOLLARS * float(log.action[row])
            told += [
                Signal(subject=decision.id, name=name, value=value, rater=f"world:{world}", key="synth", at=now)
                for name, value in values.items()
            ]
        project.store.add(made, {made[0].config_hash: '{"encoder":""}'})
        project.store.signal(told)
        if progress is not None:
            progress("synth", min(rows, start + _BATCH), rows)
    stored = project.query.count_source(task, "synthetic") - before
    return Synthesised(task=task, world=world, rows=rows, stored=stored, already=rows - stored, seed=seed)


def _ordered(candidates: tuple[Candidate, ...], fallback: float) -> tuple[float, ...]:
    shares = {"primary": 1.0 - fallback, "fallback": fallback}
    return tuple(shares[each.name] for each in candidates)
