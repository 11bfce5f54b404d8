"""Remove secrets from input before it is encoded, decided on or stored.

    redact = Redactor()                                     # secrets
    redact("use sk-proj-…")                                 # "use [redacted:api-key]"
    Redactor(("secrets", "email", "card"))                  # further kinds, as the settings ask

`secrets` are API keys of known shapes, bearer tokens and JSON web tokens, private keys, passwords in URLs, and values
with a name such as password, AccountKey or aws_secret_access_key: quoted, exported, or plain if they look random;
after "password is", or "pass" beside a login, a word of both cases with a digit and a sign.
`email`, `phone` and `card` (with its check digit) are separate.

A text without a digit and without `://` passes after one scan, a text without a run of sixteen letters and digits, a
colon or an equals sign after three (1 µs per hundred characters). Redacting twice changes nothing.

Not covered: secrets without a recognisable form (a password of letters alone); names of episodes, roles,
raters and keys, which are identifiers; images.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from headway.nouns.records import Candidate, State, Value
from headway.nouns.redacted import MARK, mark

__all__ = ["Redaction", "Redactor"]

Redaction = Literal["secrets", "email", "phone", "card"]
Span = tuple[int, int, str]

_DIGIT = re.compile(r"[0-9]")
_LOGIN = re.compile(r"\b(?i:log ?in|user(?:name)?|account|credentials?)\b")
_PASS = re.compile(r"\b(?:[Pp]ass|PASS|[Pp]wd)")
# A run of sixteen letters and digits, found as sixteen equal bytes: a pattern takes thirty times as long.
_RUN = b"x" * 16
_RUN_BYTES = bytes(ord("x" if chr(code).isalnum() or chr(code) in "_-" else " ") for code in range(128)) + b" " * 128
_RUNS = re.compile(r"[A-Za-z0-9_+/=.:\-]{16,}")
# The shapes of keys inside one run. A key starts where no letter or digit precedes it.
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
# An assigned value, and the end of the name before it. The rarer characters are searched first.
_ASSIGNED = re.compile(r"[:=](?:>|=)?\s{0,4}[\"']([^\s\"'<>$\{\}\[\]()]{8,200})[\"']|=([^\s\"'<>$\{\}\[\]()]{8,200})")
# The same without quotes or with space around the sign, as in YAML, INI files and connection strings.
_PLAIN = re.compile(r"[:=]{1,2}>?[ \t]{0,4}([^\s\"'<>$\{\}\[\](),;]{8,200})(?![^\s,;\"'])")
# A password in a sentence: "the password is …", "login bob, pass …".
_SPOKEN = re.compile(
    r"\b(?i:pass(?:word|wd|phrase|code)?|pwd)(?:[ \t]{1,4}(?i:is|was|to))?[ \t]{1,4}"
    r"([^\s\"'<>=\{\}\[\](),;:]{8,64})(?![^\s,;.\"'])"
)
_NAME = re.compile(
    r"(?i:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|credential)s?"
    r"[A-Za-z0-9_]{0,20}[\"']?[ \t]{0,4}:?\Z"
)
_VARIABLE = re.compile(r"(?:SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)[A-Z0-9_]{0,40}\Z")
_NAMES = ("passw", "passphrase", "pwd", "secret", "token", "key", "credential")  # of which _NAME and _VARIABLE need one
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}(?![\w-])")
_PHONE = re.compile(
    r"(?<![\w.+-])(?:\+[1-9][0-9]{0,2}[ .-]?(?:\(0?[0-9]{1,4}\)[ .-]?)?[0-9]{1,4}(?:[ .-]?[0-9]{2,4}){1,4}"
    r"|\([0-9]{3}\) ?[0-9]{3}-[0-9]{4}|[0-9]{3}-[0-9]{3}-[0-9]{4})(?![\w-])"
)
_CARD = re.compile(r"(?<![0-9.-])(?:[0-9][ -]?){12,18}[0-9](?![0-9-])")


class Redactor:
    """Removes the kinds of data that the settings name; without any, it does nothing. Thread-safe."""

    __slots__ = ("_finders", "_least", "_secrets", "kinds")

    def __init__(self, kinds: tuple[Redaction, ...] = ("secrets",)) -> None:
        self.kinds = kinds
        self._secrets = "secrets" in kinds
        self._finders: list[Callable[[str], Iterator[Span]]] = [_OTHERS[kind] for kind in kinds if kind in _OTHERS]
        self._least = 1_000_000_000 if not kinds else 6 if self._finders else 12

    def __call__(self, text: str) -> str:
        """The text, with a mark in place of each removed part."""
        if len(text) < self._least:
            return text
        spans: list[Span] = []
        if self._secrets and (_DIGIT.search(text) is not None or "://" in text) and _may_hold(text):
            spans += _secrets(text)
        for finder in self._finders:
            spans += finder(text)
        return _cut(text, spans) if spans else text

    def state(self, state: State) -> State:
        """The state, with its texts redacted; the same object if nothing was found."""
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
        redacted = tuple(self._candidate(candidate) for candidate in candidates)
        if all(new is old for new, old in zip(redacted, candidates, strict=True)):
            return candidates
        counts: dict[str, int] = {}
        unique = []
        for candidate in redacted:
            name = candidate.name
            counts[name] = count = counts.get(name, 0) + 1
            unique.append(candidate if count == 1 else Candidate(f"{name} ({count})", candidate.features))
        return tuple(unique)

    def _candidate(self, candidate: Candidate) -> Candidate:
        name = self(candidate.name)
        features = self.state(candidate.features) if candidate.features else candidate.features
        if name is candidate.name and features is candidate.features:
            return candidate
        return Candidate(name, features)


def _may_hold(text: str) -> bool:
    """A cheap check whether any rule of `_secrets` could match."""
    if ":" in text or "=" in text or "earer" in text:
        return True
    return _has_run(text) or _has_pass(text)


def _has_run(text: str) -> bool:
    return _RUN in text.encode("utf-8", "replace").translate(_RUN_BYTES)


def _has_pass(text: str) -> bool:
    return ("ass" in text or "PASS" in text or "wd" in text) and _PASS.search(text) is not None


def _has_name(text: str) -> bool:
    folded = text.casefold()
    return any(name in folded for name in _NAMES)


def _secrets(text: str) -> Iterator[Span]:
    if _has_run(text):
        for run in _RUNS.finditer(text):
            yield from ((*_moved(match.span(), run.start()), "api-key") for match in _KEYS.finditer(run[0]))
        if "eyJ" in text:
            yield from ((*match.span(), "token") for match in _WEB_TOKEN.finditer(text))
        if "PRIVATE KEY" in text:
            yield from _private_keys(text)
    if "earer" in text or "asic " in text:
        for match in _BEARER.finditer(text):
            yield (*match.span(1 if match[1] else 2), "token")
    if "://" in text and "@" in text:
        yield from ((*match.span(1), "password") for match in _IN_URL.finditer(text))
    if _has_pass(text):
        for match in _SPOKEN.finditer(text):
            before = text[max(0, match.start() - 60) : match.start()]
            if match[0][4:5] in " \t" and _LOGIN.search(before) is None:
                continue  # "pass" as a verb
            if _is_secret(match[1]) and _is_mixed(match[1].rstrip(".!?")):
                yield (*match.span(1), "password")
    if ("=" in text or ":" in text) and _has_name(text):
        for match in _ASSIGNED.finditer(text):
            group, name = (1, _NAME) if match[1] else (2, _VARIABLE)
            before = text[max(0, match.start() - 70) : match.start()]
            if name.search(before) is not None and _is_secret(match[group]):
                yield (*match.span(group), "password")
        for match in _PLAIN.finditer(text):
            before = text[max(0, match.start() - 70) : match.start()]
            if _NAME.search(before) is not None and _is_secret(match[1]) and _is_random(match[1]):
                yield (*match.span(1), "password")


def _private_keys(text: str) -> Iterator[Span]:
    end = 0
    for match in _PRIVATE.finditer(text):
        end = match.end()
        yield (*match.span(), "private-key")
    first = _PRIVATE_END.search(text)
    if first is not None and "-----BEGIN " not in text[: first.start()]:
        start = first.start()
        while start > end and (text[start - 1].isalnum() or text[start - 1] in "+/=\\ \t\r\n"):
            start -= 1
        yield start, first.end(), "private-key"


def _is_secret(value: str) -> bool:
    """Whether a value mixes letters and digits like a secret, and is not a placeholder or a path."""
    if value.startswith(MARK) or value.lower().startswith(("your", "my-", "my_", "example", "changeme", "xxx", "test")):
        return False
    letters = sum(character.isalpha() for character in value)
    digits = sum(character.isdigit() for character in value)
    if not letters or not digits or "://" in value or (value[0] == "/" and value[-1] != "=") or "\\" in value:
        return False
    words = re.split(r"[._/:,-]", value)
    if len(words) > 1 and all(word.isalpha() or word.isdigit() for word in words if word):
        return False  # gpt-4, en-US-2, auth.token_1: a name, a version, a path
    return len(value) >= 12 or (digits >= 2 and len(value) - letters - digits >= 1)


def _is_random(value: str) -> bool:
    """Whether an unquoted value is no name, call or path: of both cases, with signs, or long."""
    upper, lower = any(map(str.isupper, value)), any(map(str.islower, value))
    signs = sum(not character.isalnum() and character not in "._-/:" for character in value)
    digits = sum(map(str.isdigit, value))
    if (value.isidentifier() and "_" in value) or _EMAIL.fullmatch(value) is not None:
        return False
    return (upper and lower and digits >= 2) or (signs > 0 and digits > 0) or (len(value) >= 20 and digits >= 4)


def _is_mixed(value: str) -> bool:
    """Whether a word has both cases, a digit and a sign that no name, path, option or address has."""
    kinds = (str.isupper, str.islower, str.isdigit, "#%?&!*^~+".__contains__)
    return "@" not in value and value[0] != "-" and all(any(map(kind, value)) for kind in kinds)


def _moved(span: tuple[int, int], by: int) -> tuple[int, int]:
    return span[0] + by, span[1] + by


def _emails(text: str) -> Iterator[Span]:
    if "@" in text:
        yield from ((*match.span(), "email") for match in _EMAIL.finditer(text))


def _phones(text: str) -> Iterator[Span]:
    for match in _PHONE.finditer(text):
        if 7 <= sum(character.isdigit() for character in match[0]) <= 15:
            yield (*match.span(), "phone")


def _cards(text: str) -> Iterator[Span]:
    for match in _CARD.finditer(text):
        digits = [int(character) for character in match[0] if character.isdigit()]
        if 13 <= len(digits) <= 19 and digits[0] in (2, 3, 4, 5, 6) and _checks(digits):
            yield (*match.span(), "card")


def _checks(digits: list[int]) -> bool:
    """Whether the Luhn check digit (ISO/IEC 7812-1) is correct."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


_OTHERS: Mapping[Redaction, Callable[[str], Iterator[Span]]] = {"email": _emails, "phone": _phones, "card": _cards}


def _cut(text: str, spans: list[Span]) -> str:
    """Replace spans with marks; if two overlap, the mark of the earlier one covers both."""
    parts: list[str] = []
    end = 0
    for start, stop, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start < end:
            end = max(end, stop)
            continue
        parts += (text[end:start], mark(kind))
        end = stop
    return "".join((*parts, text[end:]))
