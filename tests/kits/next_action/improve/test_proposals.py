"""Proposals: strict for a file, tolerant for a model, and data everywhere."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from headway.kits.next_action.improve.proposals import read_proposal, read_proposals
from headway.kits.next_action.improve.sources import _readable
from headway.nouns.errors import InvalidInput

EDIT = {"path": "a.py", "find": "x", "replace": "y"}
GOOD: dict[str, Any] = {"description": "Do it", "type": "fix", "scope": "small", "edits": [EDIT]}


def test_json_lines_and_an_array_give_the_same_proposals() -> None:
    two = [GOOD, {**GOOD, "name": "again"}]
    lines = "\n".join(map(json.dumps, two)) + "\n\n"
    assert read_proposals(lines, "f") == read_proposals(json.dumps(two), "f")
    assert [proposal.title for proposal in read_proposals(lines, "f")] == ["Do it", "again"]


def test_a_proposal_is_offered_with_its_words_and_the_number_of_its_files() -> None:
    offer = read_proposal({**GOOD, "edits": [EDIT, {"path": "b", "content": ""}]}, "f").offer()
    assert offer == {"name": "Do it", "type": "fix", "description": "Do it", "scope": "small", "files_affected": 2}
    assert read_proposal(msgspec.to_builtins(read_proposal(GOOD, "f")), "f") == read_proposal(GOOD, "f")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"description": ""}, "length >= 1"),
        ({"extra": 1}, "unknown field"),
        ({"edits": []}, "either edits or a patch"),
        ({"patch": "x"}, "either edits or a patch"),
        ({"description": 3}, "Expected str"),
        ({"description": "a\u0000b"}, "control characters"),
        ({"description": "\ud800"}, "UTF-8"),
        ({"edits": [{"path": "a", "content": "\udc80"}]}, "UTF-8"),
        ({"edits": [{"path": "a"}]}, "edits[0]: Expected find and replace"),
        ({"edits": [{**EDIT, "content": "z"}]}, "edits[0]"),
        ({"edits": [{"path": "a", "find": "x"}]}, "edits[0]"),
        ({"edits": [{**EDIT, "find": ""}]}, "edits[0]"),
        ({"edits": [EDIT, {**EDIT, "path": "../b"}]}, "edits[1]"),
    ],
)
def test_a_bad_proposal_is_refused_with_its_place(change: dict[str, Any], words: str) -> None:
    lines = json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "name": "second", **change})
    with pytest.raises(InvalidInput, match="f, line 2") as error:
        read_proposals(lines, "f")
    assert words in error.value.message
    assert error.value.code == "bad_proposal"


def test_a_name_may_be_there_once_only() -> None:
    with pytest.raises(InvalidInput, match="'Do it' is there 2 times") as error:
        read_proposals(f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}", "f")
    assert error.value.code == "duplicate_candidate"


def test_more_than_ten_thousand_proposals_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at most 10,000 proposals, got 10,001"):
        read_proposals("{}\n" * 10_001, "f")


def test_a_models_answer_is_read_leniently() -> None:
    answer = f"Sure!\n```json\n{json.dumps([GOOD, {'description': 'no edits'}, 7, GOOD])}\n```"
    proposed = _readable(answer)
    assert [proposal.title for proposal in proposed.proposals] == ["Do it"]
    assert proposed.unusable == 3
    assert _readable("I would rather not.").proposals == []
