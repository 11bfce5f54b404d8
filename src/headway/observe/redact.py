"""Secrets out of what comes in, before it is encoded, decided on or stored.

    redact = Redactor()                                     # secrets
    redact("use sk-proj-…")                                 # "use [redacted:api-key]"
    Redactor(("secrets", "email", "card"))                  # more, where the settings ask for it

`secrets` are API keys of known shapes, bearer tokens and JSON web tokens, private keys, passwords in URLs, and quoted
or exported values with a name such as password or API_KEY. `email`, `phone` and `card` (with its check digit) are
separate.

A text without a digit and without `://` is passed after one scan (0.5 µs for a hundred characters); one without a run
of sixteen letters and digits after a second (2 µs). Redacting twice changes nothing.

Not covered: secrets that look like nothing (a password in the middle of a sentence), names of episodes, roles, raters
and keys, which are identifiers; pictures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, get_args

from headway.nouns.records import Candidate, State, Value
from headway.nouns.redacted import MARK, mark

__all__ = ["REDACTIONS", "Redaction", "Redactor"]

Redaction = Literal["secrets", "email", "phone", "card"]
REDACTIONS: tuple[Redaction, ...] = get_args(Redaction)
Span = tuple[int, int, str]

_SUSPECT = re.compile(r"[0-9]|://")
_RUN = re.compile(r"[A-Za-z0-9_\-]{16}")
_RUNS = re.compile(r"[A-Za-z0-9_+/=.:\-]{16,}")
# Inside one run: the shapes of keys. Each begins where no letter or digit stands before it.
_KEYS = re.compile(
    r"""(?<![A-Za-z0-9])(?:
      sk-(?=[A-Za-z0-9_-]{0,60}[A-Za-z0-9]{16})(?=[A-Za-z0-9_-]{0,60}[0-9])[A-Za-z0-9_-]{20,}
    | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])
    | gh[pousr]_[A-Za-z0-9]{30,}
    | github_pat_[A-Za-z0-9_]{22,}
    | gl(?:pat|ptt|dt|rt|cbt)-[A-Za-z0-9_-]{20,}
    | xox[abeoprs]-(?=[A-Za-z0-9-]{0,20}[0-9])[A-Za-z0-9-]{10,}
    | xapp-[0-9]-[A-Za-z0-9-]{20,}
    | AIza[A-Za-z0-9_-]{35}
    | ya29\.[A-Za-z0-9_-]{20,}
    | (?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}
    | whsec_[A-Za-z0-9+/=]{24,}
    | hf_[A-Za-z0-9]{30,}
    | npm_[A-Za-z0-9]{36}
    | pypi-AgE[A-Za-z0-9_-]{40,}
    | SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}
    | (?:gsk|r8|dop_v1|shpat|shpss|hw|lin_api|nvapi|pplx|xai|fw|tvly|sntrys|dapi|ATATT3x)[_-]?
      (?=[A-Za-z0-9]{0,31}[0-9])[A-Za-z0-9]{32,}
    | [0-9]{8,10}:AA[A-Za-z0-9_-]{33}
    | AGE-SECRET-KEY-1[0-9A-Z]{50,}
    )""",
    re.VERBOSE,
)
_WEB_TOKEN = re.compile(r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")
_BEARER = re.compile(
    r"\b[Bb]earer[ \t]{1,4}(?=[A-Za-z0-9._~+/-]{0,60}[0-9])([A-Za-z0-9._~+/-]{16,}=*)"
    r"|\b[Aa]uthorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?[Bb]asic[ \t]{1,4}([A-Za-z0-9+/]{8,}={0,2})"
)
_PRIVATE = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_PRIVATE_END = re.compile(r"-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_IN_URL = re.compile(r"://[^\s/:@\"'<>`$\{\[]{0,100}:([^\s/@\"'<>`$\{\[]{3,200})@[A-Za-z0-9\[]")
# A value that is assigned, and the end of what stands before it: the rare signs are looked for first.
_ASSIGNED = re.compile(r"[:=](?:>|=)?\s{0,4}[\"']([^\s\"'<>$\{\}\[\]()]{8,200})[\"']|=([^\s\"'<>$\{\}\[\]()]{8,200})")
_NAME = re.compile(
    r"(?i:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)s?"
    r"[A-Za-z0-9_]{0,20}[\"']?[ \t]{0,4}:?\Z"
)
_VARIABLE = re.compile(r"(?:SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)[A-Z0-9_]{0,40}\Z")
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}(?![\w-])")
_PHONE = re.compile(
    r"(?<![\w.+-])(?:\+[1-9][0-9]{0,2}[ .-]?(?:\(0?[0-9]{1,4}\)[ .-]?)?[0-9]{1,4}(?:[ .-]?[0-9]{2,4}){1,4}"
    r"|\([0-9]{3}\) ?[0-9]{3}-[0-9]{4}|[0-9]{3}-[0-9]{3}-[0-9]{4})(?![\w-])"
)
_CARD = re.compile(r"(?<![0-9.-])(?:[0-9][ -]?){12,18}[0-9](?![0-9-])")


class Redactor:
    """Takes out what the settings name; with nothing named, every text passes unread. Safe from several threads."""

    __slots__ = ("_finders", "_least", "_secrets", "kinds")

    def __init__(self, kinds: tuple[Redaction, ...] = ("secrets",)) -> None:
        self.kinds = kinds
        self._secrets = "secrets" in kinds
        self._finders: list[Callable[[str], Iterator[Span]]] = [_OTHERS[each] for each in kinds if each in _OTHERS]
        self._least = 1_000_000_000 if not kinds else 6 if self._finders else 12

    def __call__(self, text: str) -> str:
        """The text, with a mark where something was."""
        if len(text) < self._least:
            return text
        found: list[Span] = []
        if self._secrets and _SUSPECT.search(text) is not None and _may_hold(text):
            found += _secrets(text)
        for finder in self._finders:
            found += finder(text)
        return _cut(text, found) if found else text

    def state(self, state: State) -> State:
        """The state, with its texts redacted; the same object where nothing was found."""
        if not self.kinds:
            return state
        changed: dict[str, Value] = {}
        for name, value in state.items():
            if isinstance(value, str):
                clean = self(value)
                if clean is not value:
                    changed[name] = clean
        return {**state, **changed} if changed else state

    def candidates(self, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """Names and features redacted; names that became equal are counted: `[redacted:api-key] (2)`."""
        clean = tuple(self._candidate(each) for each in candidates)
        if all(one is other for one, other in zip(clean, candidates, strict=True)):
            return candidates
        seen: dict[str, int] = {}
        found = []
        for each in clean:
            seen[each.name] = count = seen.get(each.name, 0) + 1
            found.append(each if count == 1 else Candidate(f"{each.name} ({count})", each.features))
        return tuple(found)

    def _candidate(self, candidate: Candidate) -> Candidate:
        name = self(candidate.name)
        features = self.state(candidate.features) if candidate.features else candidate.features
        if name is candidate.name and features is candidate.features:
            return candidate
        return Candidate(name, features)


def _may_hold(text: str) -> bool:
    """Whether any rule of `_secrets` could find something: a few cheap looks."""
    if ":" in text or "=" in text or "earer" in text:
        return True
    return _RUN.search(text) is not None


def _secrets(text: str) -> Iterator[Span]:
    if _RUN.search(text) is not None:
        for run in _RUNS.finditer(text):
            yield from ((*_moved(each.span(), run.start()), "api-key") for each in _KEYS.finditer(run[0]))
        if "eyJ" in text:
            yield from ((*each.span(), "token") for each in _WEB_TOKEN.finditer(text))
        if "PRIVATE KEY" in text:
            yield from _private_keys(text)
    if "earer" in text or "asic " in text:
        for each in _BEARER.finditer(text):
            yield (*each.span(1 if each[1] else 2), "token")
    if "://" in text and "@" in text:
        yield from ((*each.span(1), "password") for each in _IN_URL.finditer(text))
    if "=" in text or ":" in text:
        for each in _ASSIGNED.finditer(text):
            group, name = (1, _NAME) if each[1] else (2, _VARIABLE)
            before = text[max(0, each.start() - 70) : each.start()]
            if name.search(before) is not None and _telling(each[group]):
                yield (*each.span(group), "password")


def _private_keys(text: str) -> Iterator[Span]:
    end = 0
    for each in _PRIVATE.finditer(text):
        end = each.end()
        yield (*each.span(), "private-key")
    first = _PRIVATE_END.search(text)
    if first is not None and "-----BEGIN " not in text[: first.start()]:
        start = first.start()
        while start > end and (text[start - 1].isalnum() or text[start - 1] in "+/=\\ \t\r\n"):
            start -= 1
        yield start, first.end(), "private-key"


def _telling(value: str) -> bool:
    """Whether a named value is one: letters and digits mixed like a secret, and no stand-in or path to one."""
    if value.startswith(MARK) or value.lower().startswith(("your", "my-", "my_", "example", "changeme", "xxx", "test")):
        return False
    letters = sum(each.isalpha() for each in value)
    digits = sum(each.isdigit() for each in value)
    if not letters or not digits or "://" in value or "/" in value[:1] or "\\" in value:
        return False
    words = re.split(r"[._/:,-]", value)
    if len(words) > 1 and all(each.isalpha() or each.isdigit() for each in words if each):
        return False  # gpt-4, en-US-2, auth.token_1: a name, a version, a path
    return len(value) >= 12 or (digits >= 2 and len(value) - letters - digits >= 1)


def _moved(span: tuple[int, int], by: int) -> tuple[int, int]:
    return span[0] + by, span[1] + by


def _emails(text: str) -> Iterator[Span]:
    if "@" in text:
        yield from ((*each.span(), "email") for each in _EMAIL.finditer(text))


def _phones(text: str) -> Iterator[Span]:
    for each in _PHONE.finditer(text):
        if 7 <= sum(character.isdigit() for character in each[0]) <= 15:
            yield (*each.span(), "phone")


def _cards(text: str) -> Iterator[Span]:
    for each in _CARD.finditer(text):
        digits = [int(character) for character in each[0] if character.isdigit()]
        if 13 <= len(digits) <= 19 and digits[0] in (2, 3, 4, 5, 6) and _checks(digits):
            yield (*each.span(), "card")


def _checks(digits: list[int]) -> bool:
    """The check digit of Luhn (ISO/IEC 7812-1)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


_OTHERS: Mapping[Redaction, Callable[[str], Iterator[Span]]] = {"email": _emails, "phone": _phones, "card": _cards}


def _cut(text: str, spans: list[Span]) -> str:
    """Marks in the place of spans; where two overlap, the earlier one stretches over both."""
    parts: list[str] = []
    end = 0
    for start, stop, kind in sorted(spans, key=lambda each: (each[0], -each[1])):
        if start < end:
            end = max(end, stop)
            continue
        parts += (text[end:start], mark(kind))
        end = stop
    return "".join((*parts, text[end:]))
