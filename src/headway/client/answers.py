"""A server's answers as Python objects: decisions, events, and the same errors that the server raised."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from headway.nouns import errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision with its probability; the server has logged it durably."""

    id: str
    action: str
    propensity: float
    policy: str
    heads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of a task of several heads
    step: int | None = None  # likewise

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Decided:
        return cls(
            id=str(body["id"]),
            action=str(body["action"]),
            propensity=float(body["propensity"]),
            policy=str(body["policy"]),
            heads=body.get("heads", {}),
            step=body.get("step"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in the project: decisions, signals, ledger, progress, and hello, missed, stopping."""

    name: str
    data: dict[str, Any]
    id: str = ""


class EventParser:
    """Turns the lines of an event stream into events."""

    def __init__(self) -> None:
        self._name, self._data, self._id = "message", "", ""

    def line(self, line: str) -> Iterator[Event]:
        """At most one event: an empty line ends it."""
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data += value
        elif field == "id":
            self._id = value
        elif not line:
            if self._data:
                yield Event(name=self._name, data=json.loads(self._data), id=self._id)
            self._name, self._data = "message", ""


_CLASSES: dict[int, type[errors.HeadwayError]] = {
    404: errors.UnknownName,
    409: errors.Conflict,
    503: errors.Unavailable,
}


def error_of(
    status: int, body: bytes, headers: Mapping[str, str], *, now: datetime | None = None
) -> errors.HeadwayError:
    """The error that the server raised: same class, code, message and hint; `status` is the HTTP status."""
    try:
        detail = json.loads(body)["error"]
        code, message, hint = str(detail["code"]), str(detail["message"]), str(detail.get("hint", ""))
        reasons = tuple(str(reason) for reason in detail.get("reasons", ())) or (message,)
    except (ValueError, KeyError, TypeError):  # a proxy answered, or something that is not Headway
        code, message = "not_headway", f"The server answered {status} with something that is not Headway's."
        hint, reasons = "Check the address: it is that of `headway serve`, without a path.", (message,)
    error: errors.HeadwayError
    if code == "gate_refused":
        error = errors.GateRefused(message, reasons=reasons, hint=hint)
    elif status == 429:
        error = errors.Busy(message, code=code, hint=hint, retry_after_s=retry_after_s(headers, now=now) or 1.0)
    elif status == 501:
        error = errors.MissingExtra.__new__(errors.MissingExtra)
        errors.HeadwayError.__init__(error, message, code=code, hint=hint)
    elif status == 503 and "damaged" in code:
        error = errors.Damaged(message, code=code, hint=hint)
    elif status in _CLASSES:
        error = _CLASSES[status](message, code=code, hint=hint)
    elif status in (400, 405, 408, 413, 415, 422):
        error = errors.InvalidInput(message, code=code, hint=hint)
    else:  # 401 and 403 among them: the input of the call is not at fault
        error = errors.HeadwayError(message, code=code, hint=hint)
    error.status = status
    return error


def retry_after_s(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Seconds until the server wants the call again; the header may be a number or a date."""
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", text):
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - (now or datetime.now(UTC))).total_seconds())
    except (TypeError, ValueError):
        return None
