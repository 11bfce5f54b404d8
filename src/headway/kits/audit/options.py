"""What the caller says about a log beyond its content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headway.nouns import errors

Split = float | Mapping[str, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Fields by their dotted path; None: where the shape has them."""

    action: str | None = None
    reward: str | None = None  # a field, or the name of a metric or score
    propensity: str | None = None
    split: Split = None  # declared propensities: one for all arms, or by arm
    where: Mapping[str, str] = field(default_factory=dict)  # only rows with these values
    policy: str | None = None  # what is audited: an arm, a field with its probability, or "logged"
    against: str | None = None  # likewise
    reward_range: tuple[float, float] | None = None
    missing: float | Literal["worst case", "at random"] = "worst case"
    lower_is_better: bool = False
    skip_invalid: bool = False
    uplift: float | None = None  # to plan for


def split_of(words: Sequence[str]) -> tuple[str | None, Split]:
    """The field of --propensity, or the declared split: ("0.5",) · ("a=0.9", "b=0.1") · ("metadata.p",)."""
    by_arm: dict[str, float] = {}
    for word in words:
        name, equals, number = word.rpartition("=")
        try:
            probability = float(number)
        except ValueError:
            if len(words) == 1 and not equals:
                return word, None
            raise _bad(word) from None
        if not 0.0 < probability <= 1.0 or name in by_arm:
            raise _bad(word)
        if not equals:
            if len(words) > 1:
                raise _bad(word)
            return None, probability
        by_arm[name] = probability
    if by_arm and abs(sum(by_arm.values()) - 1.0) > 1e-6:
        raise errors.InvalidInput(
            f"The declared propensities sum to {sum(by_arm.values()):g}, not to 1.",
            code="bad_pair",
            hint="Name every arm: --propensity small=0.8 --propensity large=0.2.",
        )
    return None, by_arm or None


def _bad(word: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"--propensity {word[:80]!r} is not a field, a probability or ACTION=PROBABILITY.",
        code="bad_pair",
        hint="Write --propensity metadata.p, --propensity 0.5, or --propensity small=0.8 --propensity large=0.2.",
    )
