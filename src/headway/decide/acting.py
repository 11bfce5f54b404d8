"""From opinions to the one distribution that is acted from, and the draw.

    pipeline = Pipeline(policy, fallback=rules, confidence_floor=0.6)
    acted = pipeline.act(situation, candidates, seed)             # .index, .propensity, .probabilities, .why
    pipeline.distributions(situations, candidates, seeds)         # [row, candidate], bit-equal to row by row

The order is always: the policy's opinion, or the fallback's where its confidence lies below the floor → explorer →
floor over the allowed candidates → canary mixture → draw. Everything is a pure function of (situation, candidates,
seed), so a decision can be replayed exactly, and `prove` evaluates this very object, never the bare policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, cast, get_args

import numpy as np

from headway.decide import explore
from headway.nouns.errors import Conflict, Damaged, InvalidInput, InvalidSettings, did_you_mean
from headway.nouns.protocols import Floats, ManyPolicy, Opinion, Opinions, Policy
from headway.nouns.records import Candidate, Decision, Situation

__all__ = ["Acted", "Explorer", "Pipeline", "explorer", "sticky"]

ExplorerKind = Literal["policy", "greedy", "epsilon", "softmax", "squarecb", "thompson"]
_ASSIGNMENT_STREAM = 0xA0761D6478BD642F


@dataclass(frozen=True, slots=True, kw_only=True)
class Explorer:
    """How an opinion becomes a distribution. "policy" keeps the policy's own; the others need its predicted rewards.

    Where an opinion predicts no rewards (rules, a fixed arm), only epsilon changes anything.
    """

    kind: ExplorerKind = "policy"
    share: float = 0.1  # epsilon
    temperature: float = 0.1  # softmax
    gamma: float = 100.0  # squarecb
    scale: float = 1.0  # thompson: what deviations are multiplied with; below 1 it explores less

    def __post_init__(self) -> None:
        if self.kind not in get_args(ExplorerKind):
            raise InvalidSettings(
                f"There is no explorer {self.kind!r}.",
                code="bad_explorer",
                hint=did_you_mean(str(self.kind), get_args(ExplorerKind)),
            )
        above = (self.temperature, self.gamma, self.scale)
        if not (0.0 <= self.share <= 1.0 and all(0.0 < each < np.inf for each in above)):
            raise InvalidSettings(
                f"The explorer {self!r} has a value out of range.",
                code="bad_explorer",
                hint="share lies in 0..1, temperature, gamma and scale above 0.",
            )

    def shape(self, opinions: Opinions, seeds: Sequence[int]) -> tuple[Floats, str]:
        """The explored distribution [row, candidate], and what was done."""
        mean = opinions.mean
        match self.kind:
            case "epsilon":
                return explore.epsilon(opinions.probabilities, self.share), "epsilon"
            case "greedy" if mean is not None:
                return explore.greedy(mean), "greedy"
            case "softmax" if mean is not None:
                return explore.softmax(mean, self.temperature), "softmax"
            case "squarecb" if mean is not None:
                return explore.squarecb(mean, self.gamma), "squarecb"
            case "thompson" if mean is not None and opinions.std is not None:
                return explore.thompson(mean, opinions.std * self.scale, seeds), "thompson"
        return opinions.probabilities, "policy"


def explorer(spec: str | Mapping[str, Any] | Explorer) -> Explorer:
    """`explorer("thompson")`, `explorer({"kind": "epsilon", "share": 0.2})`."""
    if isinstance(spec, Explorer):
        return spec
    settings = {"kind": spec} if isinstance(spec, str) else dict(spec)
    known = [each.name for each in fields(Explorer)]
    for key in settings:
        if key not in known:
            raise InvalidSettings(
                f"An explorer has no setting {key!r}.", code="unknown_key", hint=did_you_mean(key, known)
            )
    return Explorer(**settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """What was done and why: all that a Decision stores and `explain` shows."""

    probabilities: Floats  # [candidate]: the distribution that is acted from
    branch: Literal["policy", "fallback", "sticky"]
    why: str
    exploration: str
    opinion: Opinion  # the policy's own, also where the fallback acted
    canary: Floats | None = None  # [candidate]: the canary's distribution, where there is one
    index: int = -1  # of the drawn candidate; -1: nothing was drawn
    propensity: float = 0.0
    u: float = -1.0
    assigned: Literal["", "current", "canary"] = ""


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A policy with everything that stands between its opinion and the action. Immutable; safe from threads."""

    policy: Policy
    fallback: Policy | None = None
    confidence_floor: float = 0.0
    floor: float = 0.02
    explore: Explorer | str | Mapping[str, Any] = "policy"
    canary: Policy | Pipeline | None = None  # a bare policy gets this pipeline's fallback, explorer and floors
    canary_share: float = 0.0

    def __post_init__(self) -> None:
        for name in ("confidence_floor", "floor", "canary_share"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise InvalidSettings(f"{name} is {value!r}.", code="bad_share", hint="It lies between 0 and 1.")
        object.__setattr__(self, "explore", explorer(self.explore))
        if self.canary is not None and not isinstance(self.canary, Pipeline):
            wrapped = Pipeline(self.canary, self.fallback, self.confidence_floor, self.floor, self.explore)
            object.__setattr__(self, "canary", wrapped)

    @property
    def family(self) -> str:
        return self.policy.family

    def act(
        self,
        situation: Situation,
        candidates: Sequence[Candidate],
        seed: int,
        *,
        memory: object = None,
        allowed: Sequence[bool] | None = None,
    ) -> Acted:
        """Draws: `propensity` is `probabilities[index]`, marginal over all randomness, the canary's included."""
        acted = self.distribution(situation, candidates, seed, memory=memory, allowed=allowed)
        u = explore.uniform(seed)
        index = explore.draw(acted.probabilities.tolist(), u)
        propensity = float(acted.probabilities[index])
        assigned: Literal["", "current", "canary"] = ""
        if acted.canary is not None:
            # Given the action, the canary is its author with probability s·canary/μ: the marginals stay exact.
            from_canary = self.canary_share * float(acted.canary[index]) / propensity
            assigned = "canary" if explore.uniform(seed ^ _ASSIGNMENT_STREAM) < from_canary else "current"
        return Acted(
            probabilities=acted.probabilities,
            branch=acted.branch,
            why=acted.why,
            exploration=acted.exploration,
            opinion=acted.opinion,
            canary=acted.canary,
            index=index,
            propensity=propensity,
            u=u,
            assigned=assigned,
        )

    def distribution(
        self,
        situation: Situation,
        candidates: Sequence[Candidate],
        seed: int,
        *,
        memory: object = None,
        allowed: Sequence[bool] | None = None,
    ) -> Acted:
        """The distribution that `act` draws from. Candidates that are not allowed get exactly 0."""
        offered = _offered(candidates, allowed)
        opinion = _sound(self.policy, self.policy.distribution(situation, offered, memory=memory, seed=seed), offered)
        branch: Literal["policy", "fallback"] = "policy"
        why, acting = f"{self.policy.family} decides", opinion
        if self.fallback is not None and self.confidence_floor > 0.0:
            sure, least = opinion.confidence, self.confidence_floor
            if sure < least:
                branch = "fallback"
                acting = _sound(self.fallback, self.fallback.distribution(situation, offered, seed=seed), offered)
                reason = _reason(self.fallback, situation, offered)
                why = f"confidence {sure:.3f} is below the floor {least:g}: {self.fallback.family} decides{reason}"
            else:
                why = f"confidence {sure:.3f} reaches the floor {least:g}: {self.policy.family} decides"
        elif reason := _reason(self.policy, situation, offered):
            why += reason
        kind = cast(Explorer, self.explore)
        if kind.kind == "thompson" and acting.mean is not None and acting.std is None:
            who = self.policy if branch == "policy" else cast(Policy, self.fallback)
            rows = _many(who, (situation,), offered, (seed,), confidence=False, std=True)
        else:
            rows = _as_rows(acting)
        shaped, exploration = kind.shape(rows, (seed,))
        probabilities = explore.with_floor(shaped, self.floor)[0]
        canary: Floats | None = None
        if self.canary is not None and self.canary_share > 0.0:
            canary = cast(Pipeline, self.canary).distribution(situation, offered, seed).probabilities
            probabilities = explore.mixture(probabilities, canary, self.canary_share)
        if len(offered) != len(candidates):
            probabilities = _scattered(probabilities, allowed)
            canary = None if canary is None else _scattered(canary, allowed)
        return Acted(
            probabilities=probabilities,
            branch=branch,
            why=why,
            exploration=self._named(exploration),
            opinion=opinion,
            canary=canary,
        )

    def distributions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate] | Sequence[Sequence[Candidate]],
        seeds: Sequence[int],
    ) -> Floats:
        """Many at once: float64 [row, candidate]; row i equals `distribution(situations[i], …)` bit for bit.

        `candidates` is one set for all rows, or one per row (rows with the same set are computed together); columns
        follow each row's own candidates, and shorter rows end in zeros.
        """
        if len(seeds) != len(situations):
            raise InvalidInput(
                f"There are {len(situations)} situations and {len(seeds)} seeds.",
                code="bad_shape",
                hint="Give as many.",
            )
        if not situations:
            return np.zeros((0, 0))
        if isinstance(candidates[0], Candidate):
            return self.explored(situations, cast(Sequence[Candidate], candidates), seeds)[0]
        sets = cast(Sequence[Sequence[Candidate]], candidates)
        if len(sets) != len(situations):
            raise InvalidInput(
                f"There are {len(situations)} situations and {len(sets)} candidate sets.",
                code="bad_shape",
                hint="Give one set for all rows or one per row.",
            )
        groups: dict[tuple[object, ...], list[int]] = {}
        for row, each in enumerate(sets):
            groups.setdefault(_signature(each), []).append(row)
        found = np.zeros((len(situations), max(len(each) for each in sets)))
        for rows in groups.values():
            offered = sets[rows[0]]
            part, _ = self.explored([situations[i] for i in rows], offered, [seeds[i] for i in rows])
            found[rows, : len(offered)] = part
        return found

    def explored(
        self, situations: Sequence[Situation], candidates: Sequence[Candidate], seeds: Sequence[int]
    ) -> tuple[Floats, str]:
        """`distributions` over one set, and the exploration that `distribution` names where the policy acts."""
        offered = _offered(candidates, None)
        kind = cast(Explorer, self.explore)
        ask = self.fallback is not None and self.confidence_floor > 0.0
        opinions = _many(self.policy, situations, offered, seeds, confidence=ask, std=kind.kind == "thompson")
        shaped, exploration = kind.shape(opinions, seeds)
        if ask and self.fallback is not None and opinions.confidence is not None:
            unsure = np.flatnonzero(opinions.confidence < self.confidence_floor).tolist()
            if unsure:
                few, their = [situations[i] for i in unsure], [seeds[i] for i in unsure]
                other = _many(self.fallback, few, offered, their, confidence=False, std=kind.kind == "thompson")
                shaped = np.array(shaped)
                shaped[unsure] = kind.shape(other, their)[0]
        probabilities = explore.with_floor(shaped, self.floor)
        if self.canary is not None and self.canary_share > 0.0:
            canary, _ = cast(Pipeline, self.canary).explored(situations, offered, seeds)
            probabilities = explore.mixture(probabilities, canary, self.canary_share)
        return probabilities, self._named(exploration)

    def _named(self, exploration: str) -> str:
        parts = [exploration] if self.floor <= 0.0 else [exploration, f"floor {self.floor:g}"]
        if self.canary is not None and self.canary_share > 0.0:
            parts.append(f"canary {self.canary_share:g}")
        return ", ".join(parts)


def sticky(first: Decision, candidates: Sequence[Candidate]) -> Acted:
    """A later decision of a sticky episode: the first one's action with the first one's propensity, nothing drawn.

    The caller stores `draw_id = first.draw_id or first.id`. An action that is no longer on offer is a Conflict.
    """
    index = next((i for i, each in enumerate(candidates) if each.name == first.action), None)
    if index is None:
        raise Conflict(
            f"Episode {first.situation.episode!r} keeps to {first.action!r}, which is not among the candidates now.",
            code="sticky_gone",
            hint="Start a new episode, or offer the action again.",
        )
    by_name = {each.name: p for each, p in zip(first.candidates, first.probabilities, strict=True)}
    probabilities = np.array([by_name.get(each.name, 0.0) for each in candidates])
    return Acted(
        probabilities=probabilities,
        branch="sticky",
        why=f"the episode's first decision {first.draw_id or first.id} drew it",
        exploration=first.exploration,
        opinion=Opinion(probabilities),
        index=index,
        propensity=first.propensity,
    )


def _offered(candidates: Sequence[Candidate], allowed: Sequence[bool] | None) -> Sequence[Candidate]:
    if allowed is not None:
        if len(allowed) != len(candidates):
            raise InvalidInput(
                f"The mask has {len(allowed)} entries for {len(candidates)} candidates.",
                code="bad_shape",
                hint="Give one entry per candidate.",
            )
        candidates = [each for each, free in zip(candidates, allowed, strict=True) if free]
    if not candidates:
        raise InvalidInput("There is no allowed candidate.", code="no_candidate", hint="Give at least one candidate.")
    return candidates


def _scattered(probabilities: Floats, allowed: Sequence[bool] | None) -> Floats:
    full = np.zeros(len(allowed or ()))
    full[np.array(allowed, dtype=bool)] = probabilities
    return full


def _sound(policy: Policy, opinion: Opinion, candidates: Sequence[Candidate]) -> Opinion:
    found = opinion.probabilities
    if found.shape != (len(candidates),) or not (abs(float(found.sum()) - 1.0) <= 1e-9 and float(found.min()) >= 0.0):
        raise _unsound(policy, found, candidates)
    return opinion


def _unsound(policy: Policy, found: Floats, candidates: Sequence[Candidate]) -> Damaged:
    return Damaged(
        f"The policy {policy.family!r} gave {found!r} for {len(candidates)} candidates.",
        code="bad_distribution",
        hint="Its bundle is damaged or was built for something else: roll back.",
    )


def _reason(policy: Policy, situation: Situation, candidates: Sequence[Candidate]) -> str:
    choose = getattr(policy, "choose", None)
    return "" if choose is None else f" ({choose(situation, candidates)[1]})"


def _as_rows(opinion: Opinion) -> Opinions:
    mean, std = opinion.mean, opinion.std
    return Opinions(
        opinion.probabilities[None, :],
        None,
        None if mean is None else mean[None, :],
        None if std is None else std[None, :],
    )


def _many(
    policy: Policy,
    situations: Sequence[Situation],
    candidates: Sequence[Candidate],
    seeds: Sequence[int],
    *,
    confidence: bool,
    std: bool,
) -> Opinions:
    """All opinions at once where the policy can, one by one where it cannot."""
    if hasattr(policy, "opinions"):
        many = cast(ManyPolicy, policy).opinions(situations, candidates, seeds, confidence=confidence, std=std)
        found = many.probabilities
        if found.shape != (len(situations), len(candidates)) or not (
            float(np.abs(found.sum(axis=1) - 1.0).max()) <= 1e-9 and float(found.min()) >= 0.0
        ):
            raise _unsound(policy, found, candidates)
        return many
    each = [
        _sound(policy, policy.distribution(situation, candidates, seed=seed), candidates)
        for situation, seed in zip(situations, seeds, strict=True)
    ]
    means = [one.mean for one in each if one.mean is not None]
    stds = [one.std for one in each if one.std is not None]
    return Opinions(
        np.stack([one.probabilities for one in each]),
        np.array([one.confidence for one in each]) if confidence else None,
        np.stack(means) if len(means) == len(each) else None,
        np.stack(stds) if len(stds) == len(each) else None,
    )


def _signature(candidates: Sequence[Candidate]) -> tuple[object, ...]:
    return tuple(
        (each.name, repr(sorted(each.features.items()))) if each.features else each.name for each in candidates
    )
