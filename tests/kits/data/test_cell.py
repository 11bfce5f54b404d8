"""No cell of a table is run as a formula."""

from __future__ import annotations

import pytest

from headway.kits.data.cell import guarded, unguarded

SIGNS = ["=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1", "\uff0d1", "\uff0b1", "\uff20x"]  # the last four are full-width
FORMULAS = [*SIGNS, *("\t=1", "\r=1", "\n=1", " =1", "  +1", " \uff1d1", "\ufeff=1")]
PLAIN = ["", "text", "a=b", "'quoted'", "1+1", " text", "x\n=1", "é@x"]


@pytest.mark.parametrize("text", FORMULAS, ids=ascii)
def test_a_text_that_could_run_gets_an_apostrophe(text: str) -> None:
    assert guarded(text) == f"'{text}"
    assert unguarded(guarded(text)) == text


@pytest.mark.parametrize("text", PLAIN, ids=ascii)
def test_other_texts_are_not_changed(text: str) -> None:
    assert guarded(text) == text
    assert unguarded(text) == text
