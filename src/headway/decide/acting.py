"""From opinions to acting probabilities, and the draw.

    pipeline = Pipeline(policy, fallback=rules, confidence_floor=0.6)
    pipeline.draw(situations, candidates, seeds)                  # a Draw per situation: what `decide` stores
    pipeline.distributions(situations, candidates, seeds)         # [row, candidate]: what `prove` evaluates
    pipeline.act(situation, candidates, seed)                     # one draw with its reasons: what `explain` shows

The order is always: the policy's opinion, or the fallback's if its confidence is below the floor → explorer →
floor over the allowed candidates → canary mixture → draw. Everything is a pure function of (situation, candidates,
seed), so a decision can be replayed exactly. A row gets the same bits alone and in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from headway.decide import explore
from headway.decide.stored import damaged
from headway.nouns import Candidate, Decision, Floats, Opinion, Opinions, Policy, Situation, errors

Author = Literal["", "current", "canary"]
ExplorerKind = Literal["policy", "greedy", "epsilon", "softmax", "squarecb", "thompson"]
_ASSIGNMENT_STREAM = 0xA0761D6478BD642F


@dataclass(frozen=True, slots=True, kw_only=True)
class Explorer:
    """How an opinion becomes a distribution. "policy" keeps the policy's own; the others need its predicted rewards.

    If an opinion predicts no rewards (rules, a fixed arm), only epsilon has an effect.
    """

    kind: ExplorerKind = "policy"
    share: float = 0.1  # epsilon
    temperature: float = 0.1  # softmax
    gamma: float = 100.0  # squarecb
    scale: float = 1.0  # thompson: factor of the deviations; below 1 it explores less

    def __post_init__(self) -> None:
        if self.kind not in get_args(ExplorerKind):
            raise errors.InvalidSettings(
                f"There is no explorer {self.kind!r}.",
                code="bad_explorer",
                hint=errors.did_you_mean(str(self.kind), get_args(ExplorerKind)),
            )
        above = (self.temperature, self.gamma, self.scale)
        if not (0.0 <= self.share <= 1.0 and all(0.0 < value < np.inf for value in above)):
            raise errors.InvalidSettings(
                f"The explorer {self!r} has a value out of range.",
                code="bad_explorer",
                hint="share lies in 0..1, temperature, gamma and scale above 0.",
            )

    @classmethod
    def of(cls, spec: str | Mapping[str, Any] | Explorer) -> Explorer:
        """`Explorer.of("thompson")`, `Explorer.of({"kind": "epsilon", "share": 0.2})`."""
        if isinstance(spec, Explorer):
            return spec
        settings = {"kind": spec} if isinstance(spec, str) else dict(spec)
        known = [knob.name for knob in fields(cls)]
        for key in settings:
            if key not in known:
                raise errors.InvalidSettings(
                    f"An explorer has no setting {key!r}.", code="unknown_key", hint=errors.did_you_mean(key, known)
                )
        return cls(**settings)

    @classmethod
    def read(cls, knobs: Mapping[str, Any]) -> Explorer:
        """The explorer of a bundle."""
        try:
            return cls.of(knobs.get("explore", "greedy"))
        except (errors.InvalidSettings, TypeError, ValueError) as error:
            raise damaged(f"The bundle's explorer cannot be used ({error})", "bad_header") from error

    def shape(self, opinions: Opinions, seeds: Sequence[int]) -> tuple[Floats, str]:
        """The explored distribution [row, candidate], and its description."""
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


class Draw(NamedTuple):
    """The draw for one situation: everything that a Decision stores."""

    probabilities: tuple[float, ...]  # by candidate: the distribution of the draw
    chosen: int  # the index of the drawn candidate
    exploration: str
    assigned: Author = ""  # who drew, if there is a canary

    @property
    def propensity(self) -> float:
        """Marginal over all randomness, including the canary's."""
        return self.probabilities[self.chosen]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """One draw and its reasons, for `explain`."""

    probabilities: Floats  # [candidate]: the acting distribution
    branch: Literal["policy", "fallback"]
    why: str
    exploration: str
    opinion: Opinion  # the policy's own, even if the fallback acted
    canary: Floats | None  # [candidate]: the canary's distribution, if there is one
    index: int  # of the drawn candidate
    propensity: float
    u: float
    assigned: Author


class _Shares(NamedTuple):
    """The acting distributions of many situations with the same candidates."""

    probabilities: Floats  # [row, candidate]
    unsure: Sequence[int]  # the rows where the fallback acts
    explorations: tuple[str, str]  # for rows of the policy, and for rows of the fallback
    canary: Floats | None  # [row, candidate]


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A policy with every step from its opinion to the action. Immutable; thread-safe."""

    policy: Policy
    fallback: Policy | None = None
    confidence_floor: float = 0.0
    floor: float = 0.02
    explore: Explorer | str | Mapping[str, Any] = "policy"
    canary: Policy | Pipeline | None = None  # a bare policy gets this pipeline's fallback, explorer and floors
    canary_share: float = 0.0
    canary_name: str = "canary"  # in descriptions of exploration
    _suffix: str = field(init=False, repr=False, default="")  # descriptions of exploration

    def __post_init__(self) -> None:
        for name in ("confidence_floor", "floor", "canary_share"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise errors.InvalidSettings(f"{name} is {value!r}.", code="bad_share", hint="It lies between 0 and 1.")
        object.__setattr__(self, "explore", Explorer.of(self.explore))
        if self.canary is not None and not isinstance(self.canary, Pipeline):
            wrapped = Pipeline(self.canary, self.fallback, self.confidence_floor, self.floor, self.explore)
            object.__setattr__(self, "canary", wrapped)
        floor = f", floor {self.floor:g}" if self.floor > 0.0 else ""
        mixed = self.canary is not None and self.canary_share > 0.0
        canary = f", {self.canary_name} {self.canary_share:g}" if mixed else ""
        object.__setattr__(self, "_suffix", floor + canary)

    @property
    def family(self) -> str:
        return self.policy.family

    def draw(
        self, situations: Sequence[Situation], candidates: Sequence[Candidate], seeds: Sequence[int]
    ) -> list[Draw]:
        """A draw per situation, all from the same candidates."""
        shares = self._shares(situations, candidates, seeds)
        unsure, (by_policy, by_fallback) = shares.unsure, shares.explorations
        draws: list[Draw] = []
        for row, probabilities in enumerate(shares.probabilities.tolist()):
            index = explore.draw(probabilities, explore.uniform(seeds[row]))
            exploration = by_fallback if unsure and row in unsure else by_policy
            author = "" if shares.canary is None else self._author(shares, row, index, seeds[row])
            draws.append(Draw(tuple(probabilities), index, exploration, author))
        return draws

    def act(
        self,
        situation: Situation,
        candidates: Sequence[Candidate],
        seed: int,
        *,
        allowed: Sequence[bool] | None = None,
    ) -> Acted:
        """The draw for one situation, and its reasons. Candidates that are not allowed get exactly 0."""
        offered = _offered(candidates, allowed)
        shares = self._shares((situation,), offered, (seed,))
        probabilities, canary = shares.probabilities[0], None if shares.canary is None else shares.canary[0]
        u = explore.uniform(seed)
        index = explore.draw(probabilities.tolist(), u)
        author = "" if canary is None else self._author(shares, 0, index, seed)
        if allowed is not None:
            places = np.flatnonzero(allowed)
            index = int(places[index])
            probabilities = _scattered(probabilities, places, len(allowed))
            canary = None if canary is None else _scattered(canary, places, len(allowed))
        opinion, unsure = self.policy.opinions((situation,), offered, (seed,)).row(0), bool(shares.unsure)
        return Acted(
            probabilities=probabilities,
            branch="fallback" if unsure else "policy",
            why=self._why(opinion, unsure, situation, offered),
            exploration=shares.explorations[unsure],
            opinion=opinion,
            canary=canary,
            index=index,
            propensity=float(probabilities[index]),
            u=u,
            assigned=author,
        )

    def distributions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate] | Sequence[Sequence[Candidate]],
        seeds: Sequence[int],
    ) -> Floats:
        """The probabilities that `draw` draws from: float64 [row, candidate].

        `candidates` is one set for all rows, or one per row (rows with the same set are computed together); columns
        follow each row's own candidates, and shorter rows end in zeros.
        """
        if len(seeds) != len(situations):
            raise errors.InvalidInput(
                f"There are {len(situations)} situations and {len(seeds)} seeds.",
                code="bad_shape",
                hint="Give as many.",
            )
        if not situations:
            return np.zeros((0, 0))
        if isinstance(candidates[0], Candidate):
            return self._shares(situations, cast(Sequence[Candidate], candidates), seeds).probabilities
        sets = cast(Sequence[Sequence[Candidate]], candidates)
        if len(sets) != len(situations):
            raise errors.InvalidInput(
                f"There are {len(situations)} situations and {len(sets)} candidate sets.",
                code="bad_shape",
                hint="Give one set for all rows or one per row.",
            )
        groups: dict[tuple[object, ...], list[int]] = {}
        for row, offered in enumerate(sets):
            groups.setdefault(_signature(offered), []).append(row)
        together = np.zeros((len(situations), max(len(offered) for offered in sets)))
        for rows in groups.values():
            offered = sets[rows[0]]
            shares = self._shares([situations[row] for row in rows], offered, [seeds[row] for row in rows])
            together[rows, : len(offered)] = shares.probabilities
        return together

    def _shares(
        self, situations: Sequence[Situation], candidates: Sequence[Candidate], seeds: Sequence[int]
    ) -> _Shares:
        """The acting distributions of situations; every caller uses this function."""
        explorer = cast(Explorer, self.explore)
        std = explorer.kind == "thompson"
        floored = self.fallback is not None and self.confidence_floor > 0.0
        opinions = _asked(self.policy, situations, candidates, seeds, floored, std)
        shaped, by_policy = explorer.shape(opinions, seeds)
        by_fallback, unsure = "", []
        if self.fallback is not None and floored and opinions.confidence is not None:
            unsure = np.flatnonzero(opinions.confidence < self.confidence_floor).tolist()
            if unsure:
                few, their = [situations[row] for row in unsure], [seeds[row] for row in unsure]
                others = _asked(self.fallback, few, candidates, their, False, std)
                shaped = np.array(shaped)
                shaped[unsure], by_fallback = explorer.shape(others, their)
        if self.floor > 0.0:
            shaped = explore.epsilon(shaped, self.floor)
        canary: Floats | None = None
        if self.canary is not None and self.canary_share > 0.0:
            canary = cast(Pipeline, self.canary)._shares(situations, candidates, seeds).probabilities
            shaped = explore.mixture(shaped, canary, self.canary_share)
        explorations = (by_policy + self._suffix, by_fallback + self._suffix)
        return _Shares(shaped, unsure, explorations, canary)

    def _author(self, shares: _Shares, row: int, index: int, seed: int) -> Author:
        """Given the action, the canary is its author with probability s·canary/μ: the marginals stay exact."""
        assert shares.canary is not None
        from_canary = self.canary_share * float(shares.canary[row, index]) / float(shares.probabilities[row, index])
        return "canary" if explore.uniform(seed ^ _ASSIGNMENT_STREAM) < from_canary else "current"

    def _why(self, opinion: Opinion, unsure: bool, situation: Situation, candidates: Sequence[Candidate]) -> str:
        """One sentence: who decides, and whether the rules or the confidence floor took part."""
        if self.fallback is None or not self.confidence_floor > 0.0:
            return f"{self.policy.family} decides{_reason(self.policy, situation, candidates)}"
        sure, least = opinion.confidence, self.confidence_floor
        if not unsure:
            return f"confidence {sure:.3f} reaches the floor {least:g}: {self.policy.family} decides"
        reason = _reason(self.fallback, situation, candidates)
        return f"confidence {sure:.3f} is below the floor {least:g}: {self.fallback.family} decides{reason}"


def sticky(first: Decision, candidates: Sequence[Candidate]) -> Draw:
    """A later decision of a sticky episode: the action and propensity of the first one, without a draw.

    The caller stores `draw_id = first.draw_id or first.id`. An action that is no longer a candidate is a Conflict.
    """
    index = next((place for place, candidate in enumerate(candidates) if candidate.name == first.action), None)
    if index is None:
        raise errors.Conflict(
            f"Episode {first.situation.episode!r} keeps to {first.action!r}, which is not among the candidates now.",
            code="sticky_gone",
            hint="Start a new episode, or offer the action again.",
        )
    by_name = {candidate.name: p for candidate, p in zip(first.candidates, first.probabilities, strict=True)}
    probabilities = tuple(by_name.get(candidate.name, 0.0) for candidate in candidates)
    return Draw(probabilities, index, first.exploration)


def _offered(candidates: Sequence[Candidate], allowed: Sequence[bool] | None) -> Sequence[Candidate]:
    if allowed is None:
        return candidates
    if len(allowed) != len(candidates):
        raise errors.InvalidInput(
            f"The mask has {len(allowed)} entries for {len(candidates)} candidates.",
            code="bad_shape",
            hint="Give one entry per candidate.",
        )
    return [candidate for candidate, free in zip(candidates, allowed, strict=True) if free]


def _scattered(probabilities: Floats, places: NDArray[np.intp], count: int) -> Floats:
    full = np.zeros(count)
    full[places] = probabilities
    return full


def _asked(
    policy: Policy,
    situations: Sequence[Situation],
    candidates: Sequence[Candidate],
    seeds: Sequence[int],
    confidence: bool,
    std: bool,
) -> Opinions:
    """A policy's opinions, if their probabilities are distributions."""
    if not candidates:
        raise errors.InvalidInput(
            "There is no allowed candidate.", code="no_candidate", hint="Give at least one candidate."
        )
    opinions = policy.opinions(situations, candidates, seeds, confidence=confidence, std=std)
    probabilities = opinions.probabilities
    sound = probabilities.shape == (len(situations), len(candidates))
    if sound and len(situations) == 1:  # Python floats take a quarter of the time
        row = probabilities[0].tolist()
        sound = abs(sum(row) - 1.0) <= 1e-9 and min(row) >= 0.0
    elif sound:
        off = float(np.abs(probabilities.sum(axis=1) - 1.0).max())
        sound = off <= 1e-9 and float(probabilities.min()) >= 0.0
    if not sound:
        raise errors.Damaged(
            f"The policy {policy.family!r} gave {probabilities!r} for {len(candidates)} candidates.",
            code="bad_distribution",
            hint="Its bundle is damaged or was built for something else: roll back.",
        )
    return opinions


def _reason(policy: Policy, situation: Situation, candidates: Sequence[Candidate]) -> str:
    choose = getattr(policy, "choose", None)
    return "" if choose is None else f" ({choose(situation, candidates)[1]})"


def _signature(candidates: Sequence[Candidate]) -> tuple[object, ...]:
    return tuple(
        (candidate.name, repr(sorted(candidate.features.items()))) if candidate.features else candidate.name
        for candidate in candidates
    )
