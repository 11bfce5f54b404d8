"""A proposal: a described action, and the change that it makes. Its text is data; nothing in it is executed or obeyed.

    {"type": "fix", "description": "Sort once", "scope": "small",
     "edits": [{"path": "src/a.py", "find": "sorted(x)", "replace": "x"}]}

A proposal has `edits` or a `patch` (a unified diff), not both. An edit replaces one passage that occurs exactly once
(`find`, `replace`), writes a whole file (`content`), or removes one (`delete`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from headway.kits.next_action.improve.file_rules import checked_path
from headway.nouns import errors

MOST_BYTES = 64_000_000  # of all proposals together
_MOST = 10_000
_LARGEST = 2_000_000  # characters of one file or patch
_Content = Annotated[str, Meta(max_length=_LARGEST)]


class Edit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One change of one file."""

    path: str
    find: _Content | None = None
    replace: _Content | None = None
    content: _Content | None = None
    delete: bool = False


class Proposal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to do, in words, and how."""

    description: Annotated[str, Meta(min_length=1, max_length=2000)]
    type: Annotated[str, Meta(max_length=100)] = ""
    scope: Annotated[str, Meta(max_length=100)] = ""
    name: Annotated[str, Meta(max_length=2000)] = ""  # empty: the description
    edits: Annotated[tuple[Edit, ...], Meta(max_length=1000)] = ()
    patch: _Content = ""

    @property
    def title(self) -> str:
        """The name by which a policy and the results know it."""
        return self.name or self.description

    def offer(self) -> dict[str, Any]:
        """The candidate of the ranking task."""
        words = {"type": self.type, "description": self.description, "scope": self.scope}
        files = len({edit.path for edit in self.edits}) or self.patch.count("\n+++ ") or 1
        return {"name": self.title, **{name: text for name, text in words.items() if text}, "files_affected": files}


def read_proposal(document: object, place: str) -> Proposal:
    """The proposal in a JSON object; InvalidInput names the place."""
    try:
        proposal = msgspec.convert(document, Proposal, strict=True)
        msgspec.json.encode(proposal)
    except msgspec.ValidationError as error:
        raise _bad(place, str(error).replace("`", "")) from None
    except UnicodeEncodeError:
        raise _bad(place, "Expected text that UTF-8 can write") from None
    if bool(proposal.edits) == bool(proposal.patch):
        raise _bad(place, "Expected either edits or a patch")
    words = proposal.name + proposal.description + proposal.type + proposal.scope
    if any(ord(letter) < 32 and letter not in "\n\t" for letter in words):
        raise _bad(place, "Expected words without control characters")
    for number, edit in enumerate(proposal.edits):
        forms = [edit.find is not None and edit.replace is not None, edit.content is not None, edit.delete]
        if sum(forms) != 1 or (edit.find is None) != (edit.replace is None) or edit.find == "":
            raise _bad(f"{place}, edits[{number}]", "Expected find and replace, or content, or delete")
        try:
            checked_path(edit.path)
        except errors.HeadwayError as error:
            raise _bad(f"{place}, edits[{number}]", error.message.rstrip(".")) from None
    return proposal


def read_proposals(text: str, place: str) -> list[Proposal]:
    """The proposals of a text: JSON lines, or one JSON array. An invalid one is an error with its place."""
    if len(text) > MOST_BYTES:
        raise _bad(place, f"Expected at most {MOST_BYTES:,} characters")
    if text.lstrip().startswith("["):
        documents = _json(text, place)
        numbered = [(f"{place}, item {number}", item) for number, item in enumerate(documents, 1)]
    else:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        numbered = [(f"{place}, line {number}", _json(line, f"{place}, line {number}")) for number, line in lines]
    if len(numbered) > _MOST:
        raise _bad(place, f"Expected at most {_MOST:,} proposals, got {len(numbered):,}")
    proposals = [read_proposal(document, where) for where, document in numbered]
    return unique(proposals, place)


def unique(proposals: Iterable[Proposal], place: str) -> list[Proposal]:
    """The proposals, or InvalidInput if two have the same name."""
    listed = list(proposals)
    (title, count), *_ = [*Counter(proposal.title for proposal in listed).most_common(1), ("", 0)]
    if count > 1:
        raise errors.InvalidInput(
            f"{place}: the proposal {title[:80]!r} is there {count} times.",
            code="duplicate_candidate",
            hint="Give each a `name` of its own.",
        )
    return listed


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad(place, f"This is not JSON: {error}") from None


def _bad(place: str, reason: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"{place}: {reason}.",
        code="bad_proposal",
        hint='For example {"description": "Sort once", "edits": [{"path": "a.py", "find": "x", "replace": "y"}]}.',
    )
