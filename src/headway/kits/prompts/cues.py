"""Cues in the words of a prompt for what it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

# The first line of a mutation's block; a heading that is already present makes the mutation a no-op.
HEADINGS: Mapping[str, tuple[str, ...]] = {
    "try-catch-style": ("If something goes wrong:", "When a part cannot be done:", "Handling of problems:"),
    "expansion": ("More detail:", "Background to include:", "Go into depth:"),
    "constraint-addition": ("Constraints:", "Requirements for the output:", "Rules for the answer:"),
    "task-decomposition": ("Steps:", "Work in this order:", "Break it down:"),
}


def _line(headings: Iterable[str]) -> re.Pattern[str]:
    return re.compile("^(?:" + "|".join(re.escape(heading) for heading in headings) + r")[ \t]*$", re.MULTILINE)


THERE = {kind: _line(headings) for kind, headings in HEADINGS.items()}
_ANY = _line(heading for headings in HEADINGS.values() for heading in headings)
_CODE = re.compile(
    r"```|\b(?:functions?|methods?|class(?:es)?|scripts?|programs?|quer(?:y|ies)|snippets?|regex(?:es)?|codebase|code|"
    r"implement|refactor|debug|unit tests?|endpoint|compile|pull request|diff)\b",
    re.IGNORECASE,
)
_REVIEW = re.compile(
    r"\b(?:review|what is wrong|find the (?:bug|error|mistake|problem)s?|is (?:this|it) correct|spot the|critique|"
    r"which line)\b",
    re.IGNORECASE,
)
_JSON = re.compile(r"\bjson\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"\b(?:how many|how much|how far|how long|how old|calculate|compute|sum of|total|average|mean|median|percent|"
    r"percentage|product of|difference between|remainder|divided by|plus|minus|times)\b|\d\s*[-+*/×÷%]\s*\d",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(
    r"(?:^|[.!?]\s+|\n)(?:is|are|was|were|does|do|did|can|could|should|has|have|will|would)\s(?!you\b)[^.?!\n]*\?|"
    r"\byes or no\b",
    re.IGNORECASE,
)
_LIST = re.compile(r"\b(?:list|name (?:three|four|five|two|\d+)|bullet|enumerate|options|ideas)\b", re.IGNORECASE)
_OPENS = re.compile(r"^(?:please|could|can|would|hello|hi|thank)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LONGEST_PART = 90
_MOST_PARTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Cues:
    code: bool
    review: bool
    json: bool
    number: bool
    yes_or_no: bool
    listing: bool
    parts: tuple[str, ...]  # short sentences of the prompt, where it has several: its parts

    def names(self) -> list[str]:
        return [field.name for field in fields(self) if field.name != "parts" and getattr(self, field.name)]


def own_part(prompt: str) -> tuple[str, str]:
    """The prompt without the blocks that mutations added, and those blocks."""
    first = _ANY.search(prompt)
    return (prompt[: first.start()], prompt[first.start() :]) if first else (prompt, "")


@lru_cache(4096)
def cues(prompt: str) -> Cues:
    """The cues of a prompt, without the blocks that mutations added (see `own_part`)."""
    own = _FENCE.sub(" ", prompt)
    sentences = [sentence.strip(" .;:") for sentence in _SENTENCE.split(own)]
    parts = tuple(
        sentence
        for sentence in sentences
        if 12 <= len(sentence) <= _LONGEST_PART and "?" not in sentence and not _OPENS.match(sentence)
    )
    code = bool(_CODE.search(prompt))
    return Cues(
        code=code,
        review=code and bool(_REVIEW.search(own)),
        json=bool(_JSON.search(prompt)),
        number=bool(_NUMBER.search(own)),
        yes_or_no=bool(_YES_OR_NO.search(own)),
        listing=bool(_LIST.search(own)),
        parts=parts[:_MOST_PARTS] if len(parts) > 1 else (),
    )
