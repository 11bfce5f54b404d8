"""The world `projects`: agents work on software projects, and what an action earns depends on state *and* words.

    world = Projects()
    tuples = world.tuples(2764, seed=42)              # states, described actions, rewards, in the order of time
    world.expected(state, action)                     # the mean reward: what noise was added to
    world.slate(state, 10, rng, vocabulary="prove")   # candidates for one state, to measure regret

A state has scores in six dimensions, tests, a trajectory of recent changes and a goal in words. An action is a type, a
description, a scope and a number of files. The description says which dimension it works on and how bold it is. Its
mean reward is

    gain = (need(dimension)·fit(type, dimension)·goal + need(type))·size(scope)     need: how far from what it can be
    risk = boldness·size·(failing tests + recent losses)
    reward = gain − risk − effort(scope) + a bonus for experiments on a plateau

so no column alone says much. Traps, all on by default:

- `leak`: a field `last_delta` of the state is the reward itself, as in real training buffers;
- near duplicates: one state in eight is a copy of an earlier one with other decimals; both share a branch;
- drift: the later a row, the less features earn and the more security does;
- mined rows: one in twelve has a label of its sign alone, wrong in a fifth of them; its source is `mined`.

Rows of the parts train, tune and prove are described with vocabularies that share almost no word (words.toml): a
model has to know what words mean. `noise_only` gives rewards that nothing explains: nothing may be promoted from them.
"""

from __future__ import annotations

import tomllib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from headway.nouns import Candidate, Decision, Signal, Situation, Source, Value, ids
from headway.observe import part_of_group
from headway.project import recorded

DIMENSIONS = ("correctness", "speed", "coverage", "readability", "security", "docs")
TYPES = ("fix", "refactor", "feature", "test", "config", "experiment")
SCOPES = ("small", "medium", "large")
AGENTS = ("ada", "bo", "cyd", "dan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """How one part of the rows speaks: verbs per type, subjects per dimension, and how bold a change is."""

    templates: Sequence[str]  # with {verb}, {subject} and {manner}
    verbs: Mapping[str, Sequence[str]]
    subjects: Mapping[str, Sequence[str]]
    components: Sequence[str]
    careful: Sequence[str]
    bold: Sequence[str]
    goals: Mapping[str, Sequence[str]]  # what the project wants next, the text of a state


_WORDS = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))

# By the part of the split that a row falls into.
VOCABULARIES: Mapping[str, Vocabulary] = {part: Vocabulary(**words) for part, words in _WORDS.items()}


SIGNAL = "composite_delta"
_NAMESPACE = uuid.UUID("0d1c1c0e-96a5-4c6e-9a7b-3f1f6c3fb5aa")
_PER_STATE = 4  # actions that were tried in a state
_TWIN, _MINED, _WRONG = 1 / 8, 1 / 12, 0.2
_NOISE = {"small": 0.02, "medium": 0.03, "large": 0.05}
_SIZE = {"small": 0.5, "medium": 0.8, "large": 1.2}
_EFFORT = {"small": 0.06, "medium": 0.1, "large": 0.16}
_DAYS = 90.0
_DRIFTS = 2764  # rows until the world has drifted for good
# How well a type of action suits a dimension; others get 0.25.
_FIT: Mapping[tuple[str, str], float] = {
    ("fix", "correctness"): 1.0, ("fix", "security"): 0.9, ("refactor", "readability"): 1.0, ("refactor", "speed"): 0.6,
    ("feature", "docs"): 0.6, ("feature", "speed"): 0.5, ("test", "coverage"): 1.0, ("test", "correctness"): 0.6,
    ("config", "security"): 0.8, ("config", "speed"): 0.7, ("experiment", "speed"): 0.9, ("feature", "security"): 0.5,
    ("refactor", "docs"): 0.7, ("feature", "coverage"): 0.4,
}  # fmt: skip

# The dimension that a type works on whatever its description says; a fix works on failing tests.
_WORKS_ON = {
    name: DIMENSIONS.index(dimension)
    for name, dimension in {
        "refactor": "readability", "feature": "docs", "test": "coverage", "config": "security", "experiment": "speed",
    }.items()
}  # fmt: skip


class ProjectState(NamedTuple):
    """A project at one moment."""

    scores: tuple[float, ...]  # by dimension
    passing: int
    total: int
    deltas: tuple[float, ...]  # of the last rounds
    goal: str  # a dimension
    agent: str


class ProposedAction(NamedTuple):
    """An action with what its words mean, which no model sees."""

    candidate: Candidate
    type: str
    dimension: str
    scope: str
    bold: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectTuple:
    """One tuple: a situation, the action that was taken, and its reward."""

    situation: Situation
    state: ProjectState
    action: ProposedAction
    reward: float
    expected: float
    age: float  # how far the world has drifted: from 0 (first row) to 1
    source: Source
    part: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Projects:
    """The generator. `leak`: with the leaky field; `noise_only`: rewards that nothing explains."""

    task: str = "next-action"
    leak: bool = True
    noise_only: bool = False

    def tuples(self, rows: int, seed: int) -> list[ProjectTuple]:
        """Tuples in the order of time, four actions per state; fewer rows are the first of more."""
        rng = np.random.default_rng([seed, 0x9A0])
        states: list[tuple[str, ProjectState]] = []
        tuples: list[ProjectTuple] = []
        for number in range(-(-rows // _PER_STATE)):
            branch, state = self._next(states, number, seed, rng)
            states.append((branch, state))
            part = part_of_group(self.task, branch, "", {})
            situation = self._situation(state, branch, part, rng)
            for action in self.slate(state, _PER_STATE, rng, vocabulary=part):
                age = min(len(tuples) / _DRIFTS, 1.0)
                tuples.append(self._tuple(situation, state, action, age, part, rng))
        return tuples[:rows]

    def expected(self, state: ProjectState, action: ProposedAction, *, age: float = 0.0) -> float:
        """The mean reward of an action."""
        if self.noise_only:
            return 0.0
        need = (1.0 - state.scores[DIMENSIONS.index(action.dimension)]) ** 1.5
        fit = _FIT.get((action.type, action.dimension), 0.25)
        if action.type == "feature":
            fit *= 1.0 - 0.4 * age
        if action.dimension == "security":
            fit *= 1.0 + 0.4 * age
        wanted = 1.5 if action.dimension == state.goal else 1.0
        failing = 1.0 - state.passing / state.total
        losing = max(0.0, -float(np.mean(state.deltas[-3:]))) if state.deltas else 0.0
        plateau = bool(state.deltas) and float(np.abs(state.deltas[-3:]).max()) < 0.02
        by_type = 2.0 * failing if action.type == "fix" else 1.0 - state.scores[_WORKS_ON[action.type]]
        gain = (0.3 * need * fit * wanted + 0.3 * min(by_type, 1.0)) * _SIZE[action.scope]
        risk = (0.6 if action.bold else 0.08) * _SIZE[action.scope] * (failing + 4.0 * losing)
        bonus = 0.08 if plateau and action.type == "experiment" else 0.0
        return float(gain - risk - _EFFORT[action.scope] + bonus)

    def slate(
        self, state: ProjectState, count: int, rng: np.random.Generator, *, vocabulary: str
    ) -> list[ProposedAction]:
        """Different actions for one state, in the words of a part."""
        del state  # who proposes does not know what will help
        slate: dict[str, ProposedAction] = {}
        while len(slate) < count:
            action = _action(vocabulary, rng)
            slate.setdefault(action.candidate.name, action)
        return list(slate.values())

    def fresh(
        self, states: int, rng: np.random.Generator, *, vocabulary: str = "prove"
    ) -> list[tuple[Situation, ProjectState]]:
        """New states, to rank slates in."""
        drawn = [_state(rng) for _ in range(states)]
        return [(self._situation(state, f"fresh-{n}", vocabulary, rng), state) for n, state in enumerate(drawn)]

    def history(self, task: str, rows: int, seed: int, now: float) -> Iterator[tuple[Decision, Signal]]:
        """The tuples as recorded decisions with one candidate each and their signal; the probability is unknown."""
        for number, row in enumerate(replace(self, task=task).tuples(rows, seed)):
            at = now - _DAYS * 86_400.0 * (1.0 - number / rows) - 3600.0
            name = f"{task}/projects/{seed}/{number}"
            decision = recorded(
                replace(row.situation, task=task),
                (row.action.candidate,),
                action=row.action.candidate.name,
                propensity=1.0,
                probabilities=None,
                policy="elsewhere@0",
                at=at,
                id=ids.parse_decision(str(uuid.uuid5(_NAMESPACE, name))),
                key="",
                source=row.source,
            )
            unknown = replace(decision, probabilities=(), propensity=0.0)
            rater = "mined:projects" if row.source == "mined" else "world:projects"
            yield unknown, Signal(subject=decision.id, name=SIGNAL, value=row.reward, rater=rater, key="synth", at=at)

    def _next(
        self, states: Sequence[tuple[str, ProjectState]], number: int, seed: int, rng: np.random.Generator
    ) -> tuple[str, ProjectState]:
        """A new state on its own branch, or an earlier one with other decimals on the same branch."""
        if states and rng.random() < _TWIN:
            branch, earlier = states[int(rng.integers(len(states)))]
            jitter = rng.normal(0.0, 1e-3, size=len(DIMENSIONS))
            scores = np.clip(np.array(earlier.scores) + jitter, 0.0, 1.0)
            return branch, earlier._replace(scores=tuple(scores.round(4).tolist()))
        return f"projects-{seed}-{number}", _state(rng)

    def _situation(self, state: ProjectState, branch: str, part: str, rng: np.random.Generator) -> Situation:
        numbers: dict[str, Any] = {"composite_score": round(float(np.mean(state.scores)), 4)}
        numbers |= {f"dimension_scores.{name}": score for name, score in zip(DIMENSIONS, state.scores, strict=True)}
        numbers |= {"tests_passing": state.passing, "tests_total": state.total}
        numbers |= {"trajectory_length": len(state.deltas), "recent_deltas": list(state.deltas)}
        goals = VOCABULARIES[part].goals[state.goal]
        text = goals[int(rng.integers(len(goals)))]
        return Situation(task=self.task, text=text, state=numbers, episode=branch, role=state.agent)

    def _tuple(
        self, situation: Situation, state: ProjectState, action: ProposedAction, age: float, part: str,
        rng: np.random.Generator,
    ) -> ProjectTuple:  # fmt: skip
        expected = self.expected(state, action, age=age)
        scale = 0.08 if self.noise_only else _NOISE[action.scope]
        reward = round(float(np.clip(expected + rng.normal(0.0, scale), -1.0, 1.0)), 6)
        mined = bool(rng.random() < _MINED)
        if mined:
            reward = float(np.sign(reward)) * 0.1 * (-1.0 if rng.random() < _WRONG else 1.0)
        if self.leak:
            situation = replace(situation, state={**situation.state, "last_delta": reward})
        return ProjectTuple(
            situation=situation, state=state, action=action, reward=reward, expected=expected, age=age,
            source="mined" if mined else "synthetic", part=part,
        )  # fmt: skip


def _state(rng: np.random.Generator) -> ProjectState:
    scores = tuple(rng.beta(2.5, 1.8, size=len(DIMENSIONS)).round(4).tolist())
    total = int(rng.integers(20, 400))
    failing = 0.0 if rng.random() < 0.5 else float(rng.beta(1.2, 4.0))
    deltas: list[float] = []
    if rng.random() < 0.9:
        trend = rng.normal(0.0, 0.04) if rng.random() < 0.7 else 0.0
        spread = 0.03 if trend else 0.005
        deltas = rng.normal(trend, spread, size=int(rng.integers(1, 9))).round(4).tolist()
    return ProjectState(
        scores=scores,
        passing=total - round(failing * total),
        total=total,
        deltas=tuple(deltas),
        goal=DIMENSIONS[int(rng.integers(len(DIMENSIONS)))],
        agent=AGENTS[int(rng.integers(len(AGENTS)))],
    )


def _action(vocabulary: str, rng: np.random.Generator) -> ProposedAction:
    words = VOCABULARIES[vocabulary]

    def pick(options: Sequence[str]) -> str:
        return options[int(rng.integers(len(options)))]

    kind, dimension, scope, bold = pick(TYPES), pick(DIMENSIONS), pick(SCOPES), bool(rng.random() < 0.5)
    sentence = pick(words.templates).format(
        verb=pick(words.verbs[kind]),
        subject=f"{pick(words.subjects[dimension])} in {pick(words.components)}",
        manner=pick(words.bold if bold else words.careful),
    )
    description = sentence[0].upper() + sentence[1:] + "."
    files = int(rng.integers(1, {"small": 3, "medium": 8, "large": 25}[scope]))
    features: dict[str, Value] = {"type": kind, "description": description, "scope": scope, "files_affected": files}
    return ProposedAction(Candidate(description, features), kind, dimension, scope, bold)


def projects() -> Projects:
    """The world with every trap."""
    return Projects()
