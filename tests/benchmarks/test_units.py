"""The simulated projects of benchmarks/units.py: single ones, and what their figures say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))  # benchmarks are scripts: they import one another by bare name

from _units.measure import Key, figures, keys, measure  # noqa: E402
from _units.money import money  # noqa: E402
from _units.proofs import CONTROLS, TRIALS, episodes  # noqa: E402
from _units.world import KINDS  # noqa: E402


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_what_upstreams_did_is_what_a_project_counts(seed: int) -> None:
    spoken = money(seed)
    assert spoken.kind == KINDS[seed]
    assert spoken.counts


@pytest.mark.parametrize("name", TRIALS)
def test_a_candidate_that_is_not_better_is_not_promoted(name: str) -> None:
    ended = TRIALS[name](1)
    assert not ended.promoted
    assert ended.units > 200
    assert not ended.mixed


@pytest.mark.parametrize("name", CONTROLS)
def test_a_candidate_that_is_better_is_promoted(name: str) -> None:
    assert CONTROLS[name](1).promoted


def test_an_episode_is_of_one_policy_whatever_its_length() -> None:
    assert episodes(3, share=0.5).mixed == 0


def test_a_run_is_continued_and_its_figures_are_shares(tmp_path: Path) -> None:
    kept, wanted = tmp_path / "kept.jsonl", list(keys(2, 4, ["money", "rescue"]))
    assert wanted.count(Key("rescue", True, 0)) == 1
    row = '{{"key": ["{}", {}, {}], "seed": 5, "result": {}}}\n'
    said = '{"kind": "plain", "counts": true, "saved": true, "quality": null}'
    ended = '{"promoted": false, "word": "worse", "mixed": 0}'
    kept.write_text(
        "".join(row.format("money", "false", n, said) for n in range(2))
        + "".join(row.format("rescue", "false", n, ended) for n in range(4))
        + row.format("rescue", "true", 0, ended),
        "utf-8",
    )
    made = figures(measure(wanted, seed=5, jobs=1, resume=kept))
    assert made["projects with equal counts and money"] == made["projects"] == 2
    assert (made["saved covered"], made["saved unknown"]) == (1.0, 0.0)
    assert "quality covered" not in made
    assert (made["rescue: false promotions"], made["rescue: false of"], made["rescue: right of"]) == (0, 4, 1)
