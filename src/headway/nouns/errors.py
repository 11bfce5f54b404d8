"""Every error that Headway raises, in one tree.

    HeadwayError
    ├── InvalidInput          the input is invalid                        (HTTP 422)
    │   ├── InvalidSettings   headway.toml or HEADWAY_* is wrong
    │   └── UnknownName       a task, policy, arm or key that does not exist (HTTP 404)
    ├── Conflict              it contradicts what is already stored       (HTTP 409)
    │   └── GateRefused       the evidence does not support a promotion
    ├── Damaged               a stored file does not match its hash       (HTTP 500)
    ├── Unavailable           a full disk, a lock, a missing worker       (HTTP 503)
    │   └── Busy              too much is queued; try again               (HTTP 429)
    └── MissingExtra          an optional dependency is not installed     (HTTP 501)

The `code` is stable and shared by the Python exception, the terminal's text and the HTTP body; `hint` says what to
do next. The classes say how to react, the codes say what happened: both are listed in docs/reference/errors.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

NOTHING_TO_READ = ("no_evidence", "propensity_unknown")  # codes of a proof for which there are no decisions yet


class HeadwayError(Exception):
    """What happened, with the value, and what was expected; `hint` names the next step."""

    status = 500

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class InvalidInput(HeadwayError):
    """The input is invalid; nothing was stored."""

    status = 422


class InvalidSettings(InvalidInput):
    """headway.toml or a HEADWAY_* variable is invalid."""


class UnknownName(InvalidInput):
    """There is nothing with this name."""

    status = 404


class Conflict(HeadwayError):
    """It contradicts what is already stored."""

    status = 409


class GateRefused(Conflict):
    """The evidence does not support a promotion; `reasons` says why, one sentence each."""

    def __init__(self, message: str, *, reasons: tuple[str, ...], hint: str = "") -> None:
        super().__init__(message, code="gate_refused", hint=hint)
        self.reasons = reasons


class Damaged(HeadwayError):
    """A file does not match its hash, its header or its format."""

    status = 503


class Unavailable(HeadwayError):
    """The operation is not possible now; nothing was lost."""

    status = 503


class Busy(Unavailable):
    """Too much is queued; try again after `retry_after_s`."""

    status = 429

    def __init__(self, message: str, *, code: str = "busy", hint: str = "", retry_after_s: float = 1.0) -> None:
        super().__init__(message, code=code, hint=hint)
        self.retry_after_s = retry_after_s


class MissingExtra(HeadwayError):
    """An optional dependency is not installed."""

    status = 501

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package!r}.",
            code="missing_extra",
            hint=f"Install it with `pip install 'headway[{extra}]'`.",
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint for a mistyped name: the nearest known one, or the list of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"
    if not names:
        return ""
    shown = ", ".join(repr(name) for name in names[:8])
    return f"Known: {shown}{', …' if len(names) > 8 else ''}."
