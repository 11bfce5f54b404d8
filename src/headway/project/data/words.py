"""Deleted words leave what was derived from rows: evidence, the ledger, results of jobs, headers of policies.

    before = said(project, connection, matched)          # the words that these repeat of the rows that go
    headers, kept = forget(project, connection, before)  # after the deletion; new headers wait beside the old ones
    project.registry.finish()                            # after the commit: they take their place

Names of candidates, roles, raters, signals and episodes, labels, state keys and values, and the words of a text that an
evidence quotes become `[deleted 1]`, `[deleted 2]`, … in each document. A word that a remaining row has stays.

A bundle is named by the hash of its first content. With the new header it has another hash, which the row of the
deletion in the ledger vouches for; its weights stay as they are. A policy that could not be built with the new header
keeps its old one, and is reported.

Not covered: reasons that a person wrote, unless they repeat a name; configurations of remaining rows, which repeat
headway.toml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import msgspec

from headway.nouns import Diagnostic, Estimate, Evidence, Guard, Header, Plan, Prospect, RaterShare, Waiting, errors
from headway.observe import Connection, Gone, documents, remaining, rewrite, strings, words_of_rows

if TYPE_CHECKING:
    from headway.observe import MatchedRows
    from headway.project.project.folder import Opened


# Fields of evidence, of the ledger's details and of headers whose texts are ours: they hold no word of a row.
FIXED = frozenset({
    "task", "kind", "candidate", "candidate_hash", "against", "against_hash", "method", "rule", "reward_version",
    "data_hash", "id", "config_hash", "behaviour", "test", "declared", "counts", "plan", "origin", "gate", "family",
    "encoder", "parts", "first_parts", "by", "sources", "policy",
})  # fmt: skip
_RECORDS = (Evidence, Estimate, Diagnostic, Guard, Plan, Prospect, Waiting, RaterShare, Header)
_KEYS = frozenset(entry.name for record in _RECORDS for entry in fields(record)) | {"current"}
_OF_ROWS = ("knobs", "trained_on", "metrics", "baselines", "extra")  # parts of a header
_MARK = re.compile(r"\[deleted (\d+)\]")


def said(project: Opened, connection: Connection, matched: MatchedRows) -> Gone:
    """The words of the rows that go, as far as a document or a header has them."""
    headers = (strings([plain[name] for name in _OF_ROWS]) for _, plain in _headers(project))
    return words_of_rows(connection, matched, (*documents(connection), *(word for words in headers for word in words)))


def forget(project: Opened, connection: Connection, before: Gone) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Rewrite the documents; the new hashes of bundles by task and digest, and the headers that keep their words."""
    gone = remaining(connection, before)
    hashes: dict[str, dict[str, str]] = {}
    kept: list[str] = []
    if not (gone.raters or gone.named or gone.quoted):
        return hashes, kept

    def clean(value: Any, column: str) -> Any:
        rewriter = _Rewriter(gone, value)
        return rewriter.rater(value) if column in ("who", "key") else rewriter.replaced(value)

    rewrite(connection, clean)
    for digest, plain in _headers(project):
        parts = {name: _Rewriter(gone, plain[name], exact=True).replaced(plain[name]) for name in _OF_ROWS}
        if all(parts[name] == plain[name] for name in parts):
            continue
        header = msgspec.convert({**plain, **parts}, Header)
        if _builds(project, digest, header):
            hashes.setdefault(header.task, {})[digest] = project.registry.prepare(digest, header)
        else:
            kept.append(str(project.registry.root / digest / "header.json"))
    return hashes, kept


class _Rewriter:
    """Puts marks in place of the words of one document; `exact`: of names as a whole, in lists and as keys."""

    def __init__(self, gone: Gone, document: Any, *, exact: bool = False) -> None:
        self._gone, self._exact = gone, exact
        self._marks: dict[str, str] = {}
        used = (int(number) for text in strings(document) for number in _MARK.findall(text))
        self._first = max(used, default=0) + 1
        words = {form for word in gone.raters | gone.named for form in (word, repr(word)[1:-1])}
        parts = [rf"(?<!\w){re.escape(word)}(?!\w)" for word in sorted(words, key=len, reverse=True)]
        parts += [rf'(?<=text contains "){re.escape(word)}(?=")' for word in sorted(gone.quoted)]
        self._pattern = re.compile("|".join(parts))

    def replaced(self, value: Any, name: str = "") -> Any:
        if name in FIXED:
            return value
        if name in ("trusted", "trusted_keys", "members"):
            return [self.rater(one) for one in value]
        if isinstance(value, Mapping):
            of_rater = "own" in value and "region" in value  # a RaterShare
            return {
                key if key in _KEYS else self._text(key): self.rater(inner)
                if of_rater and key == "name"
                else inner
                if self._exact and isinstance(inner, str)
                else self.replaced(inner, key)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.replaced(one) for one in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        if self._exact:
            return self._mark(text) if text in self._gone.named or text in self._gone.raters else text
        return self._pattern.sub(lambda match: self._mark(match[0]), text)

    def rater(self, name: str) -> str:
        """A rater, or a group of raters: their names, with a comma between them."""
        if name in self._gone.raters:
            return self._mark(name)
        return ", ".join(map(self.rater, name.split(", "))) if ", " in name else name

    def _mark(self, word: str) -> str:
        return self._marks.setdefault(word, f"[deleted {self._first + len(self._marks)}]")


def _builds(project: Opened, digest: str, header: Header) -> bool:
    """Whether a policy can be built with this header. What its encoder or a missing kit refuses is no obstacle."""
    try:
        _, tensors = project.registry.read(digest)
        project.catalogue.build(header.family, header.knobs, tensors, header.extra, None)
    except errors.HeadwayError as error:
        return error.code not in ("damaged_features", "bad_header", "bundle_hash_mismatch")
    except (KeyError, TypeError, ValueError):
        return False
    return True


def _headers(project: Opened) -> Iterator[tuple[str, dict[str, Any]]]:
    for digest in project.registry.digests():
        try:
            yield digest, msgspec.to_builtins(project.registry.header(digest))
        except errors.HeadwayError:  # damaged: `headway doctor` reports it
            continue
