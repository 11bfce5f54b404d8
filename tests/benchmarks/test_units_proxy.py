"""benchmarks/units.py --proxy: projects through a real server, compared with what the model servers saw."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "benchmarks"))

from _units.through_proxy import play


def test_every_number_of_a_small_project_equals_the_truth() -> None:
    checked = play(2, requests=16)
    assert checked.compared > 100
    assert checked.wrong == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, 21))
def test_every_number_of_a_project_equals_the_truth(seed: int) -> None:
    assert play(seed).wrong == []
