"""`headway explain --term` and the reference page use the same glossary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.cli.glossary import GLOSSARY, find_term, terms
from headway.nouns.errors import UnknownName
from tests.cli.terminal import headway


def test_the_reference_page_is_the_glossary_file(root: Path) -> None:
    page = root / "docs" / "reference" / "glossary.md"
    assert page.read_text("utf-8") == GLOSSARY.read_text("utf-8"), f"copy {GLOSSARY} to {page}"


def test_every_term_appears_once_in_alphabetical_order() -> None:
    names = [term.name for term in terms()]
    assert names == sorted(names, key=str.casefold)
    assert len({name.casefold() for name in names}) == len(names)


def test_every_term_is_explained_in_one_to_three_sentences() -> None:
    for term in terms():
        assert term.text.endswith("."), term.name
        assert 20 < len(term.text) < 300, term.name
        assert "\n\n" not in term.text, term.name


@pytest.mark.parametrize(
    "name",
    [
        "task",
        "decision",
        "signal",
        "reward",
        "policy",
        "family",
        "candidate",
        "current",
        "evidence",
        "world",
        "upstream",
        "kit",
        "propensity",
        "canary",
        "shadow",
        "margin",
        "guard",
        "gate",
        "ledger",
        "bundle",
        "episode",
        "draw",
        "sticky",
        "settle",
        "censored",
        "maturity",
        "ESS",
        "OPE",
        "e-process",
        "off_policy_evaluation",
        "effective-sample-size",
        "confidence_sequence",
        "exploration-floor",
        "doubly-robust",
    ],
)
def test_a_term_is_found_by_name_or_abbreviation(name: str) -> None:
    assert find_term(name).text


def test_a_mistyped_term_suggests_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match="no term 'propensty'") as caught:
        find_term("propensty")
    assert caught.value.hint == "Did you mean 'propensity'?"
    with pytest.raises(UnknownName):
        find_term(" ")


def test_explain_prints_a_term_without_a_project(tmp_path: Path) -> None:
    shown = headway("-C", tmp_path, "explain", "--term", "ess")
    assert shown.code == 0
    assert shown.out.startswith("Effective sample size (ESS)\nHow many decisions")
    document = json.loads(headway("explain", "--term", "ess", "--json").out)
    assert document["term"] == "Effective sample size"
    assert document["short"] == "ESS"
    assert not list(tmp_path.iterdir())


def test_explain_takes_a_decision_or_a_term_but_not_both_or_neither() -> None:
    assert headway("explain").code == 2
    assert headway("explain", "dec_1", "--term", "ess").code == 2


def test_an_unknown_term_is_an_error_with_a_code() -> None:
    shown = headway("explain", "--term", "propensty", "--json")
    assert shown.code == 1
    assert '"code": "unknown_term"' in shown.err + shown.out
