"""The terms of glossary.md, for `headway explain --term NAME`.

docs/reference/glossary.md is a copy of the same file; a test compares them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from headway.nouns import errors

GLOSSARY = Path(__file__).with_name("glossary.md")
_HEADING = re.compile(r"^## (?P<name>[^(\n]+?)(?: \((?P<short>[^)]+)\))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlossaryTerm:
    """One heading of the glossary with its text."""

    name: str
    short: str  # the abbreviation, or ""
    text: str


def terms() -> list[GlossaryTerm]:
    """All terms, in the order of the page."""
    page = GLOSSARY.read_text("utf-8")
    headings = list(_HEADING.finditer(page))
    ends = [heading.start() for heading in headings[1:]] + [len(page)]
    return [
        GlossaryTerm(name=heading["name"], short=heading["short"] or "", text=page[heading.end() : end].strip())
        for heading, end in zip(headings, ends, strict=True)
    ]


def find_term(name: str) -> GlossaryTerm:
    """The term with this name or abbreviation; case, spaces, `-` and `_` do not matter."""
    known = terms()
    for term in known:
        if _plain(name) in (_plain(term.name), _plain(term.short)) and _plain(name):
            return term
    names = [word.lower() for term in known for word in (term.name, term.short) if word]
    raise errors.UnknownName(
        f"The glossary has no term {name[:60]!r}.",
        code="unknown_term",
        hint=errors.did_you_mean(name.lower(), names),
    )


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).casefold()
