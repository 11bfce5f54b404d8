"""Naming the region that one key decides, on choices that are made up."""

from __future__ import annotations

import numpy as np
import pytest

from headway.nouns.records import Situation
from headway.prove.regions import Comparison, Traits, region

N = 2_000
WORDS = np.array([f"word{number}" for number in range(300)])


def situations(rng: np.random.Generator) -> list[Situation]:
    return [
        Situation(task="route", text=" ".join(rng.choice(WORDS, 6)), state={"size": float(rng.random()), "kind": kind})
        for kind in rng.choice(["a", "b", "c"], N)
    ]


def compared(rows: list[Situation], differ: object, by_others: object, gain: object = None) -> Comparison:
    """The rest of the rows agree; the first half was trained on."""
    chosen = np.where(np.asarray(differ, dtype=np.bool_), "small", "large")
    read = np.arange(len(rows)) < len(rows) // 2
    gains = np.full(len(rows), np.nan) if gain is None else np.asarray(gain, dtype=np.float64)
    others = np.asarray(by_others, dtype=np.bool_)
    return Comparison(Traits(rows), chosen, np.full(len(rows), "large"), others, read, gains)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.75])
def test_a_key_that_rates_at_random_is_not_named(share: float) -> None:
    named = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows = situations(rng)
        differ = [situation.text < "word12" or rng.random() < 0.05 for situation in rows]
        named.append(region(compared(rows, differ, rng.random(N) >= share)))
    assert named == [""] * 12


def test_a_word_a_value_a_range_and_a_pair_are_named() -> None:
    rng = np.random.default_rng(1)
    rows = situations(rng)
    noise, others = rng.random(N) < 0.03, rng.random(N) >= 0.2
    for name, inside in {
        'text contains "word7"': np.array(["word7" in row.text.split() for row in rows]),
        "kind = b": np.array([row.state["kind"] == "b" for row in rows]),
        "0.8762 ≤ size (": np.array([float(str(row.state["size"])) > 0.875 for row in rows]),
        "and ": np.array([row.state["kind"] == "b" and float(str(row.state["size"])) > 0.875 for row in rows]),
    }.items():
        said = region(compared(rows, inside | noise, others & ~inside))
        assert said.startswith(name) or name in said, (name, said)
        assert "it would choose small instead of large, and " in said


def test_a_region_without_a_word_is_named_by_the_rows_that_nobody_was_trained_on() -> None:
    rng = np.random.default_rng(2)
    rows = situations(rng)
    inside = rng.random(N) < 0.03
    said = region(compared(rows, inside, ~inside))
    assert said.startswith("no word or value tells them apart (")
    assert said.endswith("nobody else has rated these")
    learned_by_heart = inside & (np.arange(N) < N // 2)
    assert region(compared(rows, learned_by_heart, ~inside)) == "", "rows of its own that a policy knows by heart"


def test_what_others_confirm_is_fine_and_what_they_deny_is_not() -> None:
    rng = np.random.default_rng(3)
    rows = situations(rng)
    inside = np.array([row.state["kind"] == "b" for row in rows])
    few = rng.random(N) < 0.15
    gain = np.where(inside & few, rng.normal(0.5, 1.0, N), np.nan)
    assert region(compared(rows, inside, ~inside | few)), "too few others"
    assert region(compared(rows, inside, ~inside | few, gain)) == "", "whose ratings agree"
    everybody = np.ones(N, dtype=np.bool_)
    gain = np.where(inside, rng.normal(0.0, 1.0, N), np.nan)
    assert region(compared(rows, inside, everybody, gain)) == ""
    denied = region(compared(rows, inside, everybody, gain - 0.4))
    assert denied.startswith("kind = b (3")
    assert denied.endswith("and the others' ratings show that this is worse")
