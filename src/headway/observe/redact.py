"""Remove secrets from input before it is encoded, decided on or stored.

    redact = Redactor()                                     # secrets
    redact("use sk-proj-…")                                 # "use [redacted:api-key]"
    Redactor(("secrets", "email", "card"))                  # further kinds, as the settings ask

`secrets` are words with a digit, or very long ones, that are

- keys of services known by their prefix (`key_prefixes`), or that look like one: letters of both cases and digits in
  turn, or letters and digits after a prefix;
- values after a name such as password, client_secret, X-Api-Key or Authorization: quoted, assigned, in XML, in a URL,
  after "is", in some languages; after a weaker name (key, auth, session) if they look random;

and private keys, web tokens, and passwords in URLs. `email`, `phone` and `card` (with its check digit) are separate.

Words are found in a translated copy of the text (1 µs per 2,000 characters). Everything else reads one word and at most
80 characters before it, or runs on RE2, so no text is slow. Redacting twice changes nothing.

Not covered: passwords of letters alone, words of a seed phrase; names of episodes, roles,
raters and keys, which are identifiers; images.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Literal

from headway.nouns import MARK, Candidate, State, Value, mark

Redaction = Literal["secrets", "email", "phone", "card"]
Span = tuple[int, int, str]

# One byte for each character: 0 a digit, a blank between words, x the rest.
_BLANKS = b" \t\r\n\v\f\"'`<>(){}[],;|\\"
_BYTES = bytes(ord("0" if 48 <= code < 58 else " " if code in _BLANKS else "x") for code in range(256))
_LONG = b"x" * 30
_LONG_WORD = 30
_LEAST, _BEFORE = 8, 80  # characters of a secret; characters before it that may name it
_LONG_NAME = 16  # of a field that is itself a secret
_PARAMETER = re.compile(r"[?&](?=[\w.-]{1,40}=)")  # where the next one of a URL begins
_HOOK = re.compile(r"(?i)hook[\w.]{0,60}/([^\s?#]{24,})")
_NAMED = re.compile(r"[\w.$*/-]{1,60}?(?:%3D|:=|=>|==|[=:])(?![=:/]|$)")
_STRONG = (
    r"passw(?:or)?[dt]|passwd|passphrase|passcode|passin|pwd|bindpw|kennwort|contrase(?:ñ|n)a|senha|mot de passe|"
    r"identified by|secret|token(?!i[sz])|credentials?|creds|authorization|psk|pepper|signature|jwt|phpsessid|"
    r"(?:api|access|account|private|app|auth|licen[sc]e|encryption|hmac|master|server|service|admin|client|shared|user|"
    r"subscription|deploy)[ _-]?key"
)
_WEAK = r"key|session|cookie|(?<![a-z])(?:auth|pass|pw|login|appid|sig|api)"
_GLUE = (
    r"[\w.-]{0,24}(?P<glue>(?:[\s\"'`*\\)\]}=:>|/(<,-]{1,6}"
    r"(?:is|was|to|lautet|est|es|è|value|bearer|basic|token|apikey|"
    r"[\w.@-]{1,20}[ ]?[:/=]|[\w-]{1,20}(?=[>(]| [\"']))?){0,3}"
    r"[\s\"'`*\\)\]}=:>|/(<,-]{0,6})\Z"
)
_AFTER_STRONG, _AFTER_WEAK = (re.compile(f"(?i)(?:{names}){_GLUE}") for names in (_STRONG, _WEAK))
_NO_SECRET_KEY = re.compile(
    r"(?i)(?:primary|foreign|cache|partition|sort|public|row|group|idempotency|index|lookup|object|data)[ _-]?key"
)
_AFTERWARDS = re.compile(r"(?i)[\"'`]? as (?:the|my|your|our|an?) (?:\w+ )?(?:key|token|password|secret|credential)")
_IS = re.compile(r"(?i)\b(?:is|was|to|lautet|est|es|è)\b")
_HARD = frozenset("=:>|")  # a name and its value are not just words of a sentence
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX = re.compile(r"(?:0x)?(?:[0-9a-f]{16,}|[0-9A-F]{16,})")
_BASE36 = re.compile(r"(?=(?:[a-z]*[0-9]){2})[a-z0-9]{20,}")
_PREFIXED = re.compile(r"((?:[A-Za-z][A-Za-z0-9]{0,15}[_-]){1,4})([A-Za-z0-9_-]{20,})")
_KEYLIKE = re.compile(r"(?i)(?:^|[_-])(?:sk|rk|key|token|secret|live|test|pat|api|prod)[_-]")
_TURNS = re.compile(r"[a-z](?=[A-Z0-9])|[A-Z](?=[a-z0-9])|[0-9](?=[A-Za-z])")
_WEB_TOKEN = re.compile(r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")
_PRIVATE = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_PRIVATE_END = re.compile(r"-----END (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_IN_URL = re.compile(
    r"://(?:[^\s/:@\"'<>`$\{\[]{0,100}:)?((?<=:)[^\s/@\"'<>`$\{\[]{3,200}|(?<=//)[A-Za-z0-9_-]{20,200})@[A-Za-z0-9\[]"
)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}(?![\w-])")
_PHONE = re.compile(
    r"(?<![\w.+-])(?:\+[1-9][0-9]{0,2}[ .-]?(?:\(0?[0-9]{1,4}\)[ .-]?)?[0-9]{1,4}(?:[ .-]?[0-9]{2,4}){1,4}"
    r"|\([0-9]{3}\) ?[0-9]{3}-[0-9]{4}|[0-9]{3}-[0-9]{3}-[0-9]{4})(?![\w-])"
)
_CARD = re.compile(r"(?<![0-9.-])(?:[0-9][ -]?){12,18}[0-9](?![0-9-])")


class Redactor:
    """Removes the kinds of data that the settings name; without any, it does nothing. Thread-safe."""

    __slots__ = ("_finders", "_known", "_least", "_least_value", "_secrets", "kinds")

    def __init__(self, kinds: tuple[Redaction, ...] = ("secrets",)) -> None:
        self.kinds = kinds
        self._secrets = "secrets" in kinds
        self._finders: list[Callable[[str], Iterator[Span]]] = [_OTHERS[kind] for kind in kinds if kind in _OTHERS]
        self._least = 1_000_000_000 if not kinds else 6 if self._finders else 12
        self._least_value = 6 if self._finders else _LEAST
        self._known = lru_cache(1024)(self.__call__)  # names of fields come again and again

    def __call__(self, text: str) -> str:
        """The text, with a mark in place of each removed part."""
        if len(text) < self._least:
            return text
        spans: list[Span] = []
        if self._secrets:
            classes = text.encode("ascii", "replace").translate(_BYTES)
            at = classes.find(b"0")
            if at >= 0 or "://" in text or (len(text) >= _LONG_WORD and _LONG in classes):
                _find_secrets(text, classes, at, spans)
        for finder in self._finders:
            spans += finder(text)
        return _cut(text, spans) if spans else text

    def state(self, state: State) -> State:
        """The state, with names and texts redacted; a text that a name calls a password is one. The same if clean."""
        if not self.kinds:
            return state
        changed: dict[str, tuple[str, Value]] = {}
        for name, value in state.items():
            known = name if len(name) < _LONG_NAME else self._known(name)
            if type(value) is str and len(value) >= self._least_value and not value.isalpha():
                text = f"{known}={value}"
                found = self(text)
                if found is not text:
                    changed[name] = known, found.removeprefix(f"{known}=")
            if known != name:
                changed.setdefault(name, (known, value))
        if not changed:
            return state
        clean: dict[str, Value] = {}
        for name, value in state.items():
            known, value = changed.get(name, (name, value))
            clean[f"{known} ({len(clean)})" if known in clean else known] = value
        return clean

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


def _find_secrets(text: str, classes: bytes, at: int, spans: list[Span]) -> None:
    """Add the secrets in a text, also overlapping ones; `at` is where its first digit is, or -1."""
    if "-" in text and ("PRIVATE KEY" in text or "Private-Lines" in text):
        spans += _private_keys(text)
    if "@" in text and "://" in text:
        spans += ((*match.span(1), "password") for match in _IN_URL.finditer(text))
    if "code" in text or "PIN" in text:
        for match in _codes().finditer(text):
            if any(map(str.isdigit, match[1])):
                spans.append((match.start(1), match.end(1), "password"))
    long = classes.find(_LONG) if len(text) >= _LONG_WORD else -1
    if long >= 0:
        at = long if at < 0 else min(at, long)
    while at >= 0:
        start = classes.rfind(b" ", 0, at) + 1
        end = classes.find(b" ", at)
        if end < 0:
            end = len(classes)
        if end - start >= _LEAST:
            spans += _of_word(text, start, text[start:end])
        at = classes.find(b"0", end)
        if long >= 0:
            long = classes.find(_LONG, end)
            at = long if at < 0 else min(at, long) if long >= 0 else at


def _of_word(text: str, start: int, word: str) -> Iterator[Span]:
    if MARK in word:
        return
    for match in _shapes().finditer(word):
        key = word[match.start(1) : match.end(1)]
        if _WEB_TOKEN.match(key) is None and (len(key) > 90 or _is_key(key)):
            yield start + match.start(1), start + match.end(1), "api-key"
    if "eyJ" in word:
        yield from ((start + match.start(), start + match.end(), "token") for match in _WEB_TOKEN.finditer(word))
    if "://" in word and (hook := _HOOK.search(word)) is not None:
        yield start + hook.start(1), start + hook.end(1), "api-key"
    begin = 0
    for end in (*(match.start() for match in _PARAMETER.finditer(word)), len(word)):
        while (named := _NAMED.match(word, begin, end)) is not None:
            begin = named.end()
        value, first = word[begin:end].rstrip(".,:"), start + begin
        last = first + len(value)
        if len(value) >= _LEAST:
            before, after = text[max(0, first - _BEFORE) : first], text[last : last + 40]
            kind = _kind(value, before, after) or (value[-1] in "!?*" and _kind(value.rstrip("!?*"), before, after))
            if kind:
                yield first, last, kind
        begin = end + 1


def _kind(value: str, before: str, after: str) -> str:
    """What a value is by what it looks like and what stands beside it; empty: no secret."""
    if not _is_secret(value):
        return ""
    if _is_turning(value) and not before.endswith(("sha256-", "sha384-", "sha512-")):
        return "token" if before[-7:].lower() == "bearer " else "api-key"
    if _is_password(value):
        return "password"
    strong = _AFTER_STRONG.search(before)
    named = strong or _AFTER_WEAK.search(before)
    numbered = _HEX.fullmatch(value) is not None
    if named is None:
        return "password" if numbered and _AFTERWARDS.match(after) is not None else ""
    hard = not _HARD.isdisjoint(named["glue"])
    uuid = _UUID.fullmatch(value) is not None
    if strong is None:
        hidden = numbered or _BASE36.fullmatch(value) is not None
        good = hard and (
            (hidden and _NO_SECRET_KEY.search(before) is None) or _is_turning(value, 12) or _is_password(value, 0.0)
        )
    elif hard:
        hidden = numbered or uuid or _BASE36.fullmatch(value) is not None
        good = hidden or before[-1:] in "\"'`" or _is_random(value) or _is_turning(value, 10)
    else:
        spoken = _IS.search(named["glue"]) is not None and _is_random(value)
        good = spoken or (numbered and len(value) >= 32) or _is_turning(value, 12)
    kind = "token" if "earer" in before[-12:] or "asic" in before[-12:] else "password"
    return kind if good else ""


@cache
def _shapes() -> Any:
    """Every known prefix with what follows, as one RE2 pattern; compiled on first use."""
    import re2

    keys = "|".join(
        f"(?:{'|'.join(re2.escape(prefix) for prefix in prefixes.split())})[A-Za-z0-9_=+/.:-]{{{least},}}"
        for least, prefixes in PREFIXES.items()
    )
    return re2.compile(rf"(?:^|[^A-Za-z0-9])((?:{keys})|[0-9]{{8,10}}:AA[A-Za-z0-9_-]{{33}})")


@cache
def _codes() -> Any:
    """Codes for one use, which are too short to look like anything."""
    import re2

    names = r"(?i:recovery|backup|one[- ]time|verification|security|login|2fa|otp|mfa)[ -](?i:codes?|password|pin)"
    return re2.compile(
        rf"\b(?:{names}|PIN)\b(?: is|:|=| ){{1,3}}[\"'`]?([0-9A-Za-z]{{4,8}}(?:-[0-9A-Za-z]{{4,8}}){{0,3}})\b"
    )


def _is_key(key: str) -> bool:
    """Whether a word with a known prefix goes on like a key: no words and numbers between signs."""
    longest = max(re.split(r"[^A-Za-z0-9]", key), key=len)
    return len(longest) >= 12 and (len(longest) >= 30 or any(map(str.isdigit, longest)))


def _is_turning(value: str, least: int = 20) -> bool:
    """Whether letters of both cases and digits take turns as often as in random text; or so after a prefix."""
    prefixed = None if _UUID.search(value) is not None else _PREFIXED.match(value)
    if prefixed is not None:
        body = prefixed[2]
        if _HEX.fullmatch(body) is not None:
            return _KEYLIKE.search(prefixed[1]) is not None
        if sum(map(str.isdigit, body)) >= 4 and len(_TURNS.findall(body)) >= 0.25 * len(body):
            return True
    if len(value) < least or "://" in value:
        return False
    kinds = sum(any(map(kind, value)) for kind in (str.isupper, str.islower, str.isdigit))
    return kinds == 3 and len(_TURNS.findall(value)) >= 0.35 * len(value)


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
    if (value[0] == "$" or value[0] == value[-1] == "%") and value.strip("$%").isidentifier():
        return False  # a variable
    letters = sum(character.isalpha() for character in value)
    digits = sum(character.isdigit() for character in value)
    if not letters or not digits or "://" in value or (value[0] == "/" and not _is_turning(value)) or "\\" in value:
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


def _is_password(value: str, share: float = 0.45) -> bool:
    """Whether a short word changes between cases, digits and signs as a made-up password does, and no name or path."""
    if not 10 <= len(value) <= 40 or value[:2] == "--" or "://" in value:
        return False
    kinds = "".join(map(_kind_of, value))
    changes = sum(one != other for one, other in pairwise(kinds))
    return set(kinds) == set("Aa0#") and changes >= share * len(value)


def _kind_of(character: str) -> str:
    if character.isdigit():
        return "0"
    return "#" if character in "#%?&!*^~+$" else "A" if character.isupper() else "a" if character.isalpha() else "."


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


PREFIXES = {
    12: "AKIA ASIA ABIA ACCA A3T AKC LTAI sq0csp- sq0atp- xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- "
    "xoxe.xox xapp- FLWSECK_TEST- p8e- sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_ whsec_",
    16: "sk- glpat- glptt- gldt- glrt- glcbt- glimt- glagent- gloas- GR1348941 ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ "
    "hf_ api_org_ npm_ dapi dop_v1_ doo_v1_ dor_v1_ dp.pt. dt0c01. shpat_ shpca_ shppa_ shpss_ gsk_ r8_ xai- fw_ "
    "nvapi- pplx- tvly- sntrys_ lin_api_ hvs. hvb. ATATT3x ya29. AIza eyJrIjoi glc_ glsa_ CLOJARS_ duffel_test_ "
    "duffel_live_ EZAK EZTK fio-u- PMAK- pnu_ pul- pypi-AgE rdme_ rubygems_ tk-us- SG. xkeysib- shippo_live_ "
    "shippo_test_ pscale_tkn_ pscale_oauth_ pscale_pw_ AGE-SECRET-KEY-1 hw_",
}
