"""A field that gives the outcome away is found, by name; a field that merely predicts it is left in peace."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from headway.nouns.records import Candidate, Situation
from headway.nouns.words import masked, spoken
from headway.prove.leaks import LeakDetector, Leaks

Row = Callable[[random.Random, float], Mapping[str, Any]]


def watched(
    state: Row,
    *,
    n: int = 200,
    label: Callable[[random.Random], float] = lambda rng: rng.gauss(0, 1),
    text: Callable[[random.Random, float], str] = lambda rng, y: "",
    action: Row | None = None,
    seed: int = 1,
) -> Leaks:
    rng, watch = random.Random(seed), LeakDetector()
    for _ in range(n):
        y = label(rng)
        features = {} if action is None else dict(action(rng, y))
        situation = Situation(task="t", text=text(rng, y), state=dict(state(rng, y)))
        watch.add(situation, Candidate("a", features), {"reward": y})
    return watch.leaks()


def coin(rng: random.Random) -> float:
    return float(rng.random() < 0.5)


def stars(rng: random.Random) -> float:
    return float(rng.randint(1, 5))


PLANTED: dict[str, tuple[Leaks, str, str]] = {
    "the label itself": (watched(lambda rng, y: {"x": rng.random(), "score": y}), "score", "equals"),
    "scaled and shifted": (watched(lambda rng, y: {"score": 3 * y - 2}), "score", "affine"),
    "turned round": (watched(lambda rng, y: {"score": -y}), "score", "affine"),
    "rounded": (watched(lambda rng, y: {"score": round(y, 2)}), "score", "affine"),
    "in the tail of a list": (
        watched(lambda rng, y: {"recent": [rng.gauss(0, 1) for _ in range(rng.randint(0, 4))] + [y]}),
        "recent", "equals",
    ),
    "at the head of a list": (watched(lambda rng, y: {"recent": [y, rng.random()]}), "recent", "equals"),
    "somewhere in a list": (
        watched(lambda rng, y: {"all": rng.sample([y, *(rng.gauss(0, 1) for _ in range(5))], 6)}), "all", "contains",
    ),
    "in half of the rows": (watched(lambda rng, y: {"score": y if rng.random() < 0.6 else 0.0}), "score", "equals"),
    "a coin": (watched(lambda rng, y: {"won": bool(y)}, label=coin), "won", "equals"),
    "a coin turned round": (watched(lambda rng, y: {"lost": not y}, label=coin), "lost", "affine"),
    "stars": (watched(lambda rng, y: {"rated": int(y)}, label=stars), "rated", "equals"),
    "in a word": (
        watched(lambda rng, y: {"outcome": "kept" if y else "rejected"}, label=coin), "outcome", "determines",
    ),
    "in a text": (
        watched(lambda rng, y: {}, text=lambda rng, y: f"Run {rng.randint(1, 99)}: delta {y:+.3f}"), "text", "text",
    ),
    "in a title of the action": (
        watched(lambda rng, y: {}, action=lambda rng, y: {"description": f"Tuning ({y:+.4f})"}),
        "action.description", "text",
    ),
    "as a percentage": (watched(lambda rng, y: {}, text=lambda rng, y: f"up {100 * y:.2f}%"), "text", "text"),
}  # fmt: skip


@pytest.mark.parametrize("how", PLANTED)
def test_a_planted_leak_is_detected(how: str) -> None:
    leaks, field, kind = PLANTED[how]
    assert [(leak.field, leak.kind) for leak in leaks.found] == [(field, kind)]
    assert leaks.flagged >= 0.5 * leaks.labelled


CLEAN: dict[str, dict[str, Any]] = {
    "noise": {"state": lambda rng, y: {"a": rng.random(), "b": rng.randint(0, 3), "c": [rng.random()] * 3}},
    "a strong predictor": {"state": lambda rng, y: {"x": y + rng.gauss(0, 0.1)}},
    "a very strong one": {"state": lambda rng, y: {"x": y + rng.gauss(0, 0.03)}, "n": 1000},
    "a coin that is nearly known": {"state": lambda rng, y: {"x": y if rng.random() < 0.9 else 1 - y}, "label": coin},
    "the last rating": {"state": lambda rng, y: {"last": y if rng.random() < 0.8 else 3.0}, "label": stars},
    "a constant": {"state": lambda rng, y: {"x": 1.0, "role": "coder"}, "label": coin},
    "zeros beside zeros": {
        "state": lambda rng, y: {"errors": 0 if rng.random() < 0.9 else 1},
        "label": lambda rng: 0.0 if rng.random() < 0.9 else 1.0,
    },
    "an embedding": {"state": lambda rng, y: {"embedding": [rng.gauss(0, 1) for _ in range(64)]}, "n": 100},
    "numbers in prose": {
        "state": lambda rng, y: {},
        "text": lambda rng, y: f"Raise the limit from {rng.randint(1, 9)}.50 to {rng.random():.2f}, see 3.14 and +0.10",
    },
    "prose that quotes other scores": {
        "state": lambda rng, y: {},
        "label": lambda rng: round(rng.random(), 1),
        "text": lambda rng, y: f"last time {rng.random():.2f}",
    },
    "a price that the reward follows from": {
        "state": lambda rng, y: {},
        "label": coin,
        "action": lambda rng, y: {"cost": 1.0 - y, "type": "cheap" if y else "dear"},
    },
    "few rows": {"state": lambda rng, y: {"won": bool(y)}, "label": coin, "n": 10},
}


@pytest.mark.parametrize("how", CLEAN)
@pytest.mark.parametrize("seed", range(5))
def test_clean_data_raises_no_alarm(how: str, seed: int) -> None:
    assert watched(seed=seed, **CLEAN[how]).found == ()


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.integers(2, 6),
    st.integers(5, 60),
    st.lists(st.sampled_from(["number", "flag", "word", "list"]), min_size=1, max_size=8),
)
def test_independent_columns_of_few_values_raise_no_alarm(seed: int, values: int, n: int, kinds: list[str]) -> None:
    def state(rng: random.Random, y: float) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for place, kind in enumerate(kinds):
            drawn = rng.randrange(values)
            made[f"f{place}"] = {"number": drawn, "flag": bool(drawn), "word": f"w{drawn}", "list": [drawn, 1.0]}[kind]
        return made

    assert watched(state, n=n, label=lambda rng: float(rng.randrange(values)), seed=seed).found == ()


def test_a_time_later_than_the_outcome_is_detected() -> None:
    watch = LeakDetector()
    for n in range(20):
        state = {"created_at": 1.7e9 + n, "finished_at": 1.7e9 + n + 60, "count": 1.7e9 + n + 60}
        watch.add(Situation(task="t", state=state), None, {"reward": n % 3}, at=1.7e9 + n, told_at=1.7e9 + n + 30)
    assert [(leak.field, leak.kind) for leak in watch.leaks().found] == [("finished_at", "dated")]


def test_an_iso_time_is_a_time_whatever_its_name() -> None:
    watch = LeakDetector()
    for n in range(20):
        watch.add(Situation(task="t", state={"seen": "2026-01-01T00:00:00Z"}), None, {"reward": n % 2}, told_at=1.6e9)
    assert watch.leaks().fields == ("seen",)


def test_outcomes_dated_before_their_decision_are_counted() -> None:
    watch = LeakDetector()
    for n in range(10):
        watch.add(Situation(task="t"), None, {"reward": 1.0}, at=100.0 + n, told_at=50.0 if n < 3 else 200.0)
    assert watch.leaks().backwards == 3


def test_texts_on_both_sides_of_the_split_are_counted_exact_and_near() -> None:
    watch = LeakDetector()
    for text, part in (
        ("Sort a list.", "train"), ("sort  a LIST", "prove"), ("Sort a list.", "prove"),
        ("Only here", "prove"), ("Only there", "tune"), ("", "train"), ("", "prove"),
    ):  # fmt: skip
        watch.add(Situation(task="t", text=text), None, {}, part=part)
    leaks = watch.leaks()
    assert (leaks.twins, leaks.exact_twins) == (2, 1)


def test_leaks_in_many_rows_are_detected_on_a_sample() -> None:
    watch = watched(lambda rng, y: {"score": y}, n=25_000)
    assert watch.fields == ("score",)
    assert watch.rows == 25_000
    assert watch.looked_at <= 10_000


def test_a_constant_label_cannot_leak() -> None:
    assert watched(lambda rng, y: {"x": y}, label=lambda rng: 1.0).found == ()


@pytest.mark.parametrize(
    ("text", "values", "without"),
    [
        ("delta=-0.2740 at 3 of 10", [-0.274], "delta=# at 3 of 10"),
        ("(+0.1660)", [0.166], "(#)"),
        ("up 3.4% after v1.2.3", [0.034], "up # after v1.2.3"),
        ("0.5 and 12 and 1,000", [], "0.5 and 12 and 1,000"),
        ("−0.25", [-0.25], "#"),
        ("x0.25 2024-01-01", [], "x0.25 2024-01-01"),
    ],
)
def test_measurements_in_a_text_are_distinguished_from_other_numbers(
    text: str, values: list[float], without: str
) -> None:
    assert [value for value, _ in spoken(text)] == pytest.approx(values)
    assert masked(text) == without


@given(st.text("0123456789.+-−%# ab", max_size=100))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert masked(masked(text)) == masked(text)
    assert spoken(masked(text)) == ()
