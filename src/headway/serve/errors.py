"""Every error as one shape: `{"error": {"code", "message", "hint"}}`."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from headway.nouns import errors

logger = logging.getLogger("headway.serve")


class ErrorDetail(msgspec.Struct, frozen=True):
    """What happened, under a stable code, and what to do next."""

    code: str
    message: str
    hint: str = ""
    reasons: list[str] | msgspec.UnsetType = msgspec.UNSET  # of `gate_refused`: one sentence each


class AnsweredError(NamedTuple):
    """An error as it is answered."""

    status: int
    detail: ErrorDetail
    headers: dict[str, str]

    @property
    def body(self) -> bytes:
        return _encode(ErrorBody(self.detail))


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorDetail


class Refused(errors.HeadwayError):
    """The server itself refuses: wrong host, no key, too large, not found. `status` is the HTTP status."""

    def __init__(
        self, status: int, code: str, message: str, hint: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.status = status
        self.headers = dict(headers or {})


def no_scope(scope: str, key: str) -> Refused:
    """The caller's key, or the caller without one, may not do this."""
    if not key:
        return Refused(
            401,
            "key_needed",
            f"This needs the scope {scope!r}, even on this machine.",
            "Send the project token of .headway/token, or a key with that scope, as `Authorization: Bearer hw_…`.",
            {"www-authenticate": "Bearer"},
        )
    return Refused(403, "wrong_scope", f"The key {key!r} may not do this.", f"It needs the scope {scope!r}.")


_encode = msgspec.json.Encoder().encode


def unexpected(error: BaseException) -> bool:
    """Whether an exception would be answered with a 500 without details."""
    expected = (errors.HeadwayError, RecursionError, msgspec.DecodeError, UnicodeDecodeError)
    return not isinstance(error, expected)


def problem(error: BaseException) -> AnsweredError:
    """Status, detail and extra headers for an exception; an unexpected one is a 500 without details."""
    headers: dict[str, str] = {}
    if isinstance(error, errors.HeadwayError):
        reasons = list(error.reasons) if isinstance(error, errors.GateRefused) else msgspec.UNSET
        status, detail = error.status, ErrorDetail(error.code, error.message, error.hint, reasons)
        if isinstance(error, errors.Busy):
            headers["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
        if isinstance(error, Refused):
            headers |= error.headers
    elif isinstance(error, RecursionError):
        status, detail = 422, ErrorDetail("bad_json", "The body is nested too deeply.", "Send flat JSON.")
    elif isinstance(error, msgspec.ValidationError):
        status, detail = 422, ErrorDetail("bad_body", f"{error}.", "The schemas are in /openapi.json.")
    elif isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        status, detail = 422, ErrorDetail("bad_json", "The body is not JSON in UTF-8.", f"{_where(error)}")
    else:
        logger.error("unexpected error", exc_info=error)
        status = 500
        detail = ErrorDetail("internal", "Something went wrong inside the server.", "Its log has the details.")
    return AnsweredError(status, detail, headers)


def _where(error: Exception) -> str:
    return str(error) if isinstance(error, msgspec.DecodeError) else "A byte is not UTF-8."
