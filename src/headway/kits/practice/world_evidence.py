"""The kind of evidence `world`: candidate and current play the same fresh episodes of the world that was practised in.

How many is fixed beforehand, by a registered plan or by EPISODES. The gate may look after every LOOK of them and stops
at the first that decides. Candidates are quickly practised and episodes cost little, so a pass here may be wrong more
rarely than the error budget allows: α = .001 for the first candidate. The seeds follow from task, candidate and plan.
Nobody can pick them, a policy cannot have practised on them because they depend on its own content hash, and a repeated
proof plays the same episodes.

A world may remember: what plays first finds cold caches, or wins what is there to win once. So who plays first is drawn
for every episode. Half of a look is played by the candidate first, then by the other policy; the rest the other way
round, in copies of their own. An advantage of the first is then noise that favours neither.

Both policies act as whole pipelines, as they would be served. Not covered: what the task's own decisions come to. The
world pays its own rewards, and the evidence says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headway.decide import Pipeline
from headway.kits.practice.acting import project_copies
from headway.kits.practice.environments import ENVIRONMENTS, Environments, identify
from headway.kits.practice.play import Played, play
from headway.kits.practice.spaces import actions_of
from headway.nouns import PolicyRef, errors
from headway.project import Opened, Project
from headway.promote import gate

if TYPE_CHECKING:
    from headway.nouns import Evidence, Plan
    from headway.project import ProofQuestion
    from headway.prove import About, GuardRule, Planned

EPISODES = 1_000  # at most, if no plan is registered
LOOK = 50
STRICTER = 40  # the budget's error is divided by this


class WorldKind:
    """Fresh episodes of a world."""

    name, grows = "world", False

    def applies(self, question: ProofQuestion) -> bool:
        """Whether one of the policies practised in a world that can be made again."""
        return _practised(question) is not None

    def missing(self, question: ProofQuestion) -> errors.HeadwayError | None:
        practised = _practised(question)
        if practised is None:
            return errors.InvalidInput(
                f"Neither {question.candidate[0]} nor {question.other[0]} practised in a world.",
                code="no_world",
                hint="Prove it on logged decisions.",
            )
        return _absent(question, practised[0])

    def evidence(self, question: ProofQuestion, about: About, guards: Sequence[GuardRule]) -> Evidence:
        from headway.kits.heldout import from_world

        about = replace(about, alpha=about.alpha / STRICTER)
        horizon = EPISODES if about.plan is None else about.plan.horizon
        pairs = _Pairs()
        for limits, mine, other in _episodes(question, "proof", about.plan, horizon):
            pairs.add(mine, other)
            look = partial(
                from_world, pairs.ours, pairs.theirs, about, limits=limits, horizon=horizon, guards=guards,
                metrics=pairs.metrics,
            )  # fmt: skip
            if question.progress is not None:
                question.progress("episodes", len(pairs.ours), horizon)
            if gate.verdict(look(display=False)).state in ("pass", "worse"):
                break
        evidence = look()
        unchecked = _unchecked(question.settings.name, _world(question)[0])
        return replace(evidence, unchecked=(*evidence.unchecked, *unchecked))

    def plan(self, question: ProofQuestion, about: About, *, uplift: float, power: float) -> Planned:
        from headway.kits.heldout import plan_pairs

        about = replace(about, alpha=about.alpha / STRICTER)
        _, mine, other = next(_episodes(question, "pilot", None, LOOK))
        low, high = _limits(question) or (float("-inf"), float("inf"))
        return plan_pairs(
            mine.returns - other.returns,
            about,
            uplift=uplift,
            power=power,
            lowest=low - high,
            least=LOOK,
            step=LOOK,
            unit="episodes",
        )


WORLD = WorldKind()


@dataclass(slots=True)
class _Pairs:
    """The episodes so far, of both policies."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    metrics: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)

    def add(self, mine: Played, other: Played) -> None:
        self.ours += mine.returns.tolist()
        self.theirs += other.returns.tolist()
        for name in mine.metrics.keys() & other.metrics.keys():
            values = self.metrics.setdefault(name, ([], []))
            values[0].extend(mine.metrics[name].tolist())
            values[1].extend(other.metrics[name].tolist())


def fresh_seed(task: str, candidate_hash: str, purpose: str, plan: Plan | None, look: int) -> int:
    """The seed of the episodes of one look: 63 bits that follow from what is proven, unlike any seed of practice."""
    named = "" if plan is None else f"{plan.horizon} {plan.uplift!r} {plan.from_seq}"
    told = f"{task}\0{candidate_hash}\0{purpose}\0{named}\0{look}"
    digest = hashlib.blake2b(told.encode(), digest_size=8, person=b"headway-world").digest()
    return int.from_bytes(digest, "big") >> 1 | 1 << 62


def _episodes(
    question: ProofQuestion, purpose: str, plan: Plan | None, horizon: int
) -> Iterator[tuple[tuple[float, float] | None, Played, Played]]:
    """(bounds of a return, the candidate's episodes, the other policy's), a look at a time, on the same seeds."""
    task = question.settings.name
    pipelines = _pipelines(question.project, task, (question.candidate, question.other))
    names = _names(question)
    world, settings = _world(question)
    looks = [
        LookShard(
            folder=question.project.folder.resolve(), task=task, policies=(question.candidate, question.other),
            world=world, settings=dict(settings), names=names, count=min(LOOK, horizon - start),
            seed=fresh_seed(task, question.candidate[1], purpose, plan, look),
        )
        for look, start in enumerate(range(0, horizon, LOOK))
    ]  # fmt: skip
    if question.crew is not None:
        yield from question.crew.map("headway.kits.practice.world_evidence:play_look", looks)
        return
    for look in looks:
        yield _look(question.project, look, pipelines)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookShard:
    """The episodes of one look."""

    folder: Path
    task: str
    policies: tuple[tuple[str, str], tuple[str, str]]
    world: str
    settings: Mapping[str, Any]
    names: tuple[str, ...]
    count: int
    seed: int


def play_look(look: LookShard) -> tuple[tuple[float, float] | None, Played, Played]:
    """Play one look; runs in a worker."""
    with Project(look.folder) as project:
        return _look(project, look, _pipelines(project, look.task, look.policies))


def _pipelines(project: Opened, task: str, policies: Sequence[tuple[str, str]]) -> list[Any]:
    """What each policy would be served as now."""
    servings, settings = project.servings, project.settings.task(task)
    body = servings.body(settings)
    return [servings.acting(task, body, *policy) for policy in policies]


def _look(
    project: Opened, look: LookShard, pipelines: Sequence[Any]
) -> tuple[tuple[float, float] | None, Played, Played]:
    ours_first = np.random.default_rng([look.seed, 0xF125]).random(look.count) < 0.5
    parts: list[tuple[NDArray[np.intp], dict[int, Played]]] = []
    limits = None
    for chosen, order in ((ours_first, (0, 1)), (~ours_first, (1, 0))):
        places = np.flatnonzero(chosen)
        if not places.size:
            continue
        part = replace(look, count=places.size, seed=look.seed ^ order[0] << 40)
        with closing(_copies(project, part)) as envs:
            parts.append((places, {side: _played(envs, pipelines[side], part) for side in order}))
            limits = getattr(envs, "returns", None)
    return limits, _joined(look.count, parts, 0), _joined(look.count, parts, 1)


def _joined(count: int, parts: Sequence[tuple[NDArray[np.intp], Mapping[int, Played]]], side: int) -> Played:
    """The episodes of one policy, each at the place that was drawn for it."""
    returns, metrics = np.zeros(count), dict[str, NDArray[np.float64]]()
    for places, played in parts:
        returns[places] = played[side].returns
        for name, values in played[side].metrics.items():
            metrics.setdefault(name, np.zeros(count))[places] = values
    return Played(returns, metrics)


def _copies(project: Opened, look: LookShard) -> Any:
    """Copies of the world, as the family of one of the policies practises in it (`worlds` of its function)."""
    for ref, _ in look.policies:
        family = project.catalogue.all("families").get(PolicyRef.parse(ref).family)
        worlds = (
            getattr(project.catalogue.load(family.practice), "worlds", None)
            if family is not None and family.practice
            else None
        )
        if worlds is not None:
            return worlds(project, look.world, look.settings)(look.count)
    return project_copies(project, look.world, look.settings, look.count)


def _played(envs: Any, pipeline: Any, look: LookShard) -> Played:
    """The episodes; a pipeline whose actions are no candidates plays them itself."""
    if not isinstance(pipeline, Pipeline):
        played: Played = pipeline.play(envs, seed=look.seed)
        return played
    _check_actions(envs, look.names)
    return play(envs, pipeline, look.names, task=look.task, seed=look.seed)


def _limits(question: ProofQuestion) -> tuple[float, float] | None:
    with closing(project_copies(question.project, *_world(question), 1)) as envs:
        limits: tuple[float, float] | None = getattr(envs, "returns", None)
    return limits


def _practised(question: ProofQuestion) -> tuple[str, Mapping[str, Any]] | None:
    """(world, its settings for proofs) of the candidate, or else of the other policy."""
    for policy in (question.candidate, question.other):
        trained = question.trained_on(policy)
        if "world" in trained and "fresh" in trained:
            return str(trained["world"]), trained["fresh"]
    return None


def _world(question: ProofQuestion) -> tuple[str, Mapping[str, Any]]:
    practised = _practised(question)
    assert practised is not None, "`missing` was asked before"
    return practised


def _absent(question: ProofQuestion, world: str) -> errors.HeadwayError | None:
    """What is not installed of a world; only looked for, not imported."""
    known = question.project.catalogue.all("worlds")
    if world in known and world not in ENVIRONMENTS:
        return None
    if find_spec("gymnasium") is None:
        return errors.MissingExtra(f"The world {world!r}", "gymnasium", "worlds")
    if ":" not in world and world not in known and world not in ENVIRONMENTS.values():
        return _unregistered(world)
    module = world.rpartition(":")[0]
    here = (question.project.folder / f"{module.replace('.', '/')}.py").exists()
    if module and not here and find_spec(module.partition(".")[0]) is None:
        return errors.UnknownName(
            f"The world {world!r} is not installed: there is no module {module!r}.",
            code="unknown_world",
            hint="Install it, or run the proof where the policy practised.",
        )
    return None


def _unregistered(world: str) -> errors.HeadwayError | None:
    """The error for a name that neither a kit nor Gymnasium knows; this imports Gymnasium."""
    try:
        identify(world)
    except errors.HeadwayError as error:
        return error
    return None


def _names(question: ProofQuestion) -> tuple[str, ...]:
    """The actions of the world, by the names that the practised policy gives them; none if they are no candidates."""
    for ref, digest in (question.candidate, question.other):
        if "world" in question.trained_on((ref, digest)):
            return tuple(map(str, question.project.registry.header(digest).extra.get("arms", ())))
    raise AssertionError("`missing` was asked before")


def _check_actions(envs: Environments, names: Sequence[str]) -> None:
    actions = actions_of(envs.single_action_space)
    if actions.kind != "categorical" or len(actions.sizes) != 1 or actions.outputs != len(names):
        raise errors.InvalidInput(
            f"The world's actions are {actions.kind} of sizes {actions.sizes}, not one of {len(names)} choices.",
            code="not_a_choice",
            hint="Only choices can be served, and so only they can be proven.",
        )


def _unchecked(task: str, world: str) -> tuple[str, ...]:
    return (f"The episodes are those of the world {world!r}; outcomes of {task!r} elsewhere are not part of it.",)
