"""Policies that need no file: uniform, one fixed arm, a table of rules.

    baseline("uniform@0")
    baseline("fixed@0", arm="small")
    baseline("rules@0", rules=[{"when": "task_complexity_score > 0.8", "use": "large"}], default="small")

They are always valid: a task starts with one, the confidence floor falls back on one, and a rollback can reach one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.decide.conditions import Condition, parse
from headway.nouns import Candidate, Opinions, Policy, PolicyRef, Situation, errors

BASELINES = ("fixed", "rules", "uniform")


def _opinions(chosen: Sequence[int | None], count: int, confidence: bool) -> Opinions:
    """Probability 1 for the chosen candidate of each row; None: uniform."""
    if not count:
        raise errors.InvalidInput("There is no candidate.", code="no_candidate", hint="Give at least one candidate.")
    probabilities = np.zeros((len(chosen), count))
    for row, index in enumerate(chosen):
        if index is None:
            probabilities[row] = 1.0 / count
        else:
            probabilities[row, index] = 1.0
    return Opinions(probabilities, np.ones(len(chosen)) if confidence else None)


def _index(name: str, candidates: Sequence[Candidate]) -> int | None:
    return next((place for place, candidate in enumerate(candidates) if candidate.name == name), None)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same arm; every candidate alike if it is not among them, or if there is none."""

    arm: str
    family: str = "fixed"

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions:
        del seeds, std
        return _opinions([_index(self.arm, candidates)] * len(situations), len(candidates), confidence)


@dataclass(frozen=True, slots=True)
class Rule:
    """If the condition holds (and the role matches, if any), use this arm."""

    when: Condition
    use: str
    role: str = ""

    def matches(self, situation: Situation) -> bool:
        return (not self.role or self.role == situation.role) and self.when.holds(situation) is True


@dataclass(frozen=True, slots=True)
class Rules:
    """The first matching rule whose arm is a candidate decides; else the default; else uniform choice.

    `defaults` has the default of a role; all other roles use `default`.
    """

    rules: tuple[Rule, ...]
    default: str = ""
    defaults: Mapping[str, str] | None = None
    family: str = "rules"

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions:
        del seeds, std
        chosen = [self.choose(situation, candidates)[0] for situation in situations]
        return _opinions(chosen, len(candidates), confidence)

    def choose(self, situation: Situation, candidates: Sequence[Candidate]) -> tuple[int | None, str]:
        """The index of the candidate (None: no preference), and the reason in one sentence."""
        for number, rule in enumerate(self.rules, start=1):
            if rule.matches(situation):
                index = _index(rule.use, candidates)
                if index is not None:
                    return index, f"rule {number}: {rule.when.text}"
        default = (self.defaults or {}).get(situation.role, self.default)
        index = _index(default, candidates) if default else None
        if index is not None:
            return index, "no rule matches: the default"
        return None, "no rule matches and no default is on offer: all alike"

    @classmethod
    def from_settings(
        cls,
        rules: Iterable[Mapping[str, Any]],
        *,
        default: str | Mapping[str, str] = "",
        actions: Iterable[str] | None = None,
    ) -> Rules:
        """From headway.toml's tables `{when, use, role?}`; every name is checked."""
        arms = None if actions is None else list(actions)
        checked = [_rule(number, table, arms) for number, table in enumerate(rules, start=1)]
        per_role = dict(default) if isinstance(default, Mapping) else {}
        one = per_role.pop("", "") if isinstance(default, Mapping) else default
        for arm in filter(None, [one, *per_role.values()]):
            _check_arm("The default", arm, arms)
        return cls(tuple(checked), one, per_role or None)


def _rule(number: int, table: Mapping[str, Any], arms: list[str] | None) -> Rule:
    extra = sorted(table.keys() - {"when", "use", "role"})
    if extra:
        raise errors.InvalidSettings(
            f"Rule {number} has the key {extra[0]!r}.",
            code="unknown_key",
            hint=errors.did_you_mean(extra[0], ["when", "use", "role"]),
        )
    for key in ("when", "use"):
        if not isinstance(table.get(key), str) or not table[key]:
            raise errors.InvalidSettings(
                f"Rule {number} has {key} = {table.get(key)!r}, not a string.",
                code="bad_rule",
                hint='Write { when = "task_complexity_score > 0.8", use = "large" }.',
            )
    role = table.get("role", "")
    if not isinstance(role, str):
        raise errors.InvalidSettings(f"Rule {number} is for the role {role!r}.", code="unknown_role", hint="Name one.")
    _check_arm(f"Rule {number}", table["use"], arms)
    return Rule(parse(table["when"]), table["use"], role)


def _check_arm(who: str, arm: str, arms: list[str] | None) -> None:
    if arms is not None and arm not in arms:
        raise errors.InvalidSettings(
            f"{who} uses {arm!r}, which is not one of the task's actions.",
            code="unknown_arm",
            hint=errors.did_you_mean(arm, arms),
        )


def baseline(
    ref: str | PolicyRef,
    *,
    arm: str = "",
    rules: Iterable[Mapping[str, Any]] = (),
    default: str | Mapping[str, str] = "",
    actions: Iterable[str] | None = None,
) -> Policy:
    """The built-in policy that `uniform@0`, `fixed@0` or `rules@0` names."""
    named = PolicyRef.parse(ref) if isinstance(ref, str) else ref
    if not named.built_in or named.family not in BASELINES:
        raise errors.UnknownName(
            f"There is no built-in policy {str(named)!r}.",
            code="policy_missing",
            hint=errors.did_you_mean(str(named), [f"{family}@0" for family in BASELINES]),
        )
    arms = None if actions is None else list(actions)
    if named.family == "uniform":
        return Fixed("", "uniform")
    if named.family == "fixed":
        if not arm:
            raise errors.InvalidSettings(
                "fixed@0 has no arm.", code="bad_rule", hint="Name the arm that it always chooses."
            )
        _check_arm("fixed@0", arm, arms)
        return Fixed(arm)
    return Rules.from_settings(rules, default=default, actions=arms)
