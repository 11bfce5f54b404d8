"""The contribution of one signal to a reward: its weight and transform.

    term(1.0)                                                # used unchanged
    term("stars")                                            # 1 to 5 becomes -1 to +1
    term({"weight": -0.1, "transform": "log1p"})             # counts that grow large
    term({"weight": 1.0, "transform": "clip", "low": 0, "high": 2})

`low` and `high` bound the transformed value, before the weight. `check` refuses invalid values before they are
stored. Two names are reserved: `failed` above 0 marks a failed call, `safety_flag`
above 0 closes the safety gate; neither takes a weight.
Not covered: the sum or product of signals (see compose).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from headway.nouns import errors

Transform = Literal["identity", "stars", "thumbs", "log1p", "clip"]
TRANSFORMS: tuple[Transform, ...] = get_args(Transform)
FAILED = "failed"
SAFETY_FLAG = "safety_flag"
RESERVED = (FAILED, SAFETY_FLAG)
# what Headway itself measures
MEASURED = (
    "latency_s", "cost_usd", "prompt_tokens", "completion_tokens", "cached_tokens", "first_token_s", "http_status",
    "client_gone", "attempt", "traceparent",
)  # fmt: skip
VOTE = "preferred"  # which of two policies a person prefers
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """The contribution of one signal: weight · bound(transform(value), low, high)."""

    weight: float = 1.0
    transform: Transform = "identity"
    low: float | None = None
    high: float | None = None


def apply(term: Term, value: float) -> float:
    """The transformed and bounded value, before its weight.

    stars: (r - 3) / 2. thumbs: unchanged, +1 or -1 (or between, as a mean of raters). log1p: log(1 + value).
    """
    transform = term.transform
    if transform == "stars":
        value = (value - 3.0) / 2.0
    elif transform == "log1p":
        # Negative values are refused before they are stored, so they only occur in signals from before this transform
        # was chosen.
        value = math.log1p(max(value, 0.0))
    if term.low is not None and value < term.low:
        return term.low
    if term.high is not None and value > term.high:
        return term.high
    return value


def check(name: str, value: float, term: Term | None = None) -> float:
    """The value as a float, or InvalidInput with the allowed values. Call it before anything is stored."""
    if not isinstance(name, str) or _NAME.match(name) is None:
        raise errors.InvalidInput(
            f"{name!r} is not a signal name.",
            code="bad_signal",
            hint="Use up to 64 letters, digits, '_', '.' or '-', for example solved or cost_usd.",
        )
    if not isinstance(value, (int, float)):
        raise errors.InvalidInput(
            f"Signal {name!r} is {value!r}, expected a number.",
            code="bad_signal",
            hint="Send a number, or true and false for 1 and 0.",
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise errors.InvalidInput(
            f"Signal {name!r} is {number!r}, expected a finite number.",
            code="bad_signal",
            hint="Omit a signal that was not measured; the decision stays pending.",
        )
    expected = _expected(term, number, value)
    if expected:
        raise errors.InvalidInput(f"Signal {name!r} is {value!r}, expected {expected}.", code="bad_signal", hint=_HINT)
    return number


_HINT = "Its transform is declared in the task's reward table in headway.toml."


def _expected(term: Term | None, number: float, value: object) -> str:
    if term is None:
        return ""
    if term.transform == "stars" and (isinstance(value, bool) or not 1.0 <= number <= 5.0):
        return "stars from 1 to 5"
    if term.transform == "thumbs" and number not in (1.0, -1.0):
        return "thumbs: +1 for up or -1 for down"
    if term.transform == "log1p" and number < 0.0:
        return "a count or amount of 0 or more"
    return ""


def term(value: object) -> Term:
    """The term for a value of a reward table; a ValueError holds the expected form.

    Not covered: names. The caller adds the key to its error.
    """
    if isinstance(value, Term):
        return value
    if isinstance(value, str):
        if value not in TRANSFORMS or value == "clip":
            names = [name for name in TRANSFORMS if name != "clip"]  # clip needs its bounds, so a table
            raise ValueError(f"a weight, the name of a transform, or a table. {errors.did_you_mean(value, names)}")
        return Term(transform=value)
    if isinstance(value, Mapping):
        return _from_table(value)
    return Term(weight=_number(value, 'a weight, "stars", "thumbs", or a table {weight = 1.0, transform = "log1p"}'))


def _from_table(table: Mapping[str, object]) -> Term:
    known = ("weight", "transform", "low", "high")
    for key in table:
        if key not in known:
            raise ValueError(
                f"a table with weight, transform, low, high, and not {key!r}. {errors.did_you_mean(key, known)}"
            )
    transform = table.get("transform", "identity")
    if transform not in TRANSFORMS:
        raise ValueError(
            f"a transform out of {', '.join(TRANSFORMS)}. {errors.did_you_mean(str(transform), TRANSFORMS)}"
        )
    low, high = table.get("low"), table.get("high")
    parsed = Term(
        weight=_number(table.get("weight", 1.0), "a finite number as weight"),
        transform=transform,
        low=None if low is None else _number(low, "a finite number as low"),
        high=None if high is None else _number(high, "a finite number as high"),
    )
    if parsed.transform == "clip" and parsed.low is None and parsed.high is None:
        raise ValueError('low or high (or both) beside transform = "clip"')
    if parsed.low is not None and parsed.high is not None and parsed.low >= parsed.high:
        raise ValueError(f"low below high, and not low = {parsed.low:g}, high = {parsed.high:g}")
    return parsed


def _number(value: object, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(expected)
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(expected) from None
    if not math.isfinite(number):
        raise ValueError(expected)
    return number
