"""Both engines give the same rewards for any history."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from headway.nouns.errors import HeadwayError
from headway.observe.erase import DeletionFilter
from headway.project import Project

TOML = """
[tasks.one]
actions = ["a", "b"]
reward = { solved = 1.0, cost = -0.5 }
required = ["solved"]
reward_after_s = 50
on_censored = -0.25

[tasks.two]
actions = ["a", "b", "c"]
sticky = true
reward = { solved = 1.0 }
"""
NAMES = st.sampled_from(["solved", "solved", "solved", "cost", "failed", "other"])
RATERS = st.sampled_from(["", "ann", "bob"])
COUNTING = ("solved", "cost", "failed")
KEYS = st.sampled_from(["", "", "k1", "k2"])
WHICH = st.integers(0, 5)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("decide"),
            st.sampled_from(["one", "two"]),
            st.sampled_from([None, "e", "f"]),
            st.sampled_from(["x", "ä\t'\"\\"]),
        ),
        st.tuples(st.just("again"), WHICH),
        st.tuples(st.just("signal"), WHICH, st.just("solved"), st.floats(-2, 2), RATERS, st.just("")),
        st.tuples(st.just("signal"), WHICH, NAMES, st.sampled_from([-1.0, 0.0, 0.1, 1.0, 1e300]), RATERS, KEYS),
        st.tuples(st.just("early"), WHICH, NAMES, st.sampled_from([0.25, 1.0])),
        st.tuples(st.just("episode"), st.sampled_from(["e", "f"]), st.sampled_from([0.5, -2.0])),
        st.tuples(st.just("withdraw"), WHICH, NAMES, RATERS),
        st.tuples(st.just("end"), st.sampled_from(["e", "f"])),
        st.tuples(st.just("erase"), st.sampled_from(["decision", "rater", "episode", "before"]), WHICH),
        st.tuples(st.just("wait"), st.sampled_from([1.0, 60.0])),
        st.tuples(st.just("settle"), st.sampled_from(["one", "two"])),
        st.tuples(st.just("rescore"), st.sampled_from(["one", "two"])),
    ),
    min_size=15,
    max_size=50,
)
FIRST = [("decide", task, episode, "x") for task, episode in [("one", None), ("one", None), ("two", "e"), ("two", "e")]]


class Side:
    """The project of one engine, and its clock."""

    def __init__(self, opening: Callable[..., Project]) -> None:
        self.now = 1_700_000_000.0
        self.project = opening(lambda: self.now)
        self.made: list[Any] = []
        self.prefix = ""

    def begin(self, example: int) -> None:
        self.made, self.prefix = [], f"{example:08x}"

    def id(self, number: int) -> str:
        return f"dec_{self.prefix}00007000a000{number:012x}"

    def do(self, operation: tuple[Any, ...]) -> Any:
        kind, *values = operation
        try:
            return getattr(self, f"_{kind}")(*values)
        except HeadwayError as error:
            return error.code

    def _decide(self, task: str, episode: str | None, text: str) -> Any:
        number = len(self.made)
        self.made.append((task, episode, text))
        return self._ask(number)

    def _ask(self, number: int) -> Any:
        task, episode, text = self.made[number]
        named = None if episode is None else f"{self.prefix}{episode}"
        pick = self.project.decide(task, text, id=self.id(number), episode=named)
        return pick.action, pick.probabilities, pick.situation.step, pick.draw_id

    def _again(self, which: int) -> Any:
        return self._ask(which) if which < len(self.made) else None

    def _signal(self, which: int, name: str, value: float, rater: str, key: str) -> Any:
        return self.project.signal(self.id(which), {name: value}, rater=rater, key=key)

    def _early(self, which: int, name: str, value: float) -> Any:
        return self.project.signal(self.id(which), {name: value}, early=True)

    def _episode(self, episode: str, value: float) -> Any:
        return self.project.signal(self.project.episode("two", f"{self.prefix}{episode}"), solved=value)

    def _withdraw(self, which: int, name: str, rater: str) -> None:
        self.project.withdraw(self.id(which), name, rater=rater)

    def _end(self, episode: str) -> None:
        self.project.end_episode("two", f"{self.prefix}{episode}")

    def _erase(self, by: str, which: int) -> Any:
        wanted = {
            "decision": {"decision": self.id(which)},
            "rater": {"rater": ("ann", "bob")[which % 2]},
            "episode": {"episode": f"{self.prefix}{'ef'[which % 2]}"},
            "before": {"before": self.now - 90.0},
        }[by]
        gone = self.project.erase(DeletionFilter(**wanted), rewrite=False)
        return gone.decisions, gone.signals, gone.episodes, gone.outcomes

    def _wait(self, seconds: float) -> None:
        self.now += seconds

    def _settle(self, task: str) -> int:
        return self.project.settle(task)

    def _rescore(self, task: str) -> int:
        return self.project.rescore(task)

    def table(self) -> Any:
        """Every current reward, and the log of its changes."""
        collected = []
        for task in ("one", "two"):
            self.project.settle(task)
            query = self.project.query
            for rows in (query.settled(task, signals=True, raters=COUNTING), query.log(task)):
                mine = [row for row in rows if row.decision.id.startswith(f"dec_{self.prefix}")]
                places = {row.seq: place for place, row in enumerate(mine)}
                collected.append(
                    [
                        (row.decision.id, row.status, row.reward, row.signals, row.said, places.get(row.replaces or 0))
                        for row in mine
                    ]
                )
            collected.append(self.project.query.counts(task))
        return collected


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, postgres: Any) -> Iterator[tuple[Side, Side]]:
    def opening(environ: dict[str, str]) -> Callable[..., Project]:
        folder = tmp_path_factory.mktemp("engine")
        (folder / "headway.toml").write_text(TOML)
        return lambda clock: Project(folder, environ=environ, seed=3, clock=clock)

    both = Side(opening({})), Side(opening({"HEADWAY_STORE_URL": postgres.store()}))
    yield both
    for side in both:
        side.project.close()


_examples = itertools.count()


@settings(max_examples=6)
@given(OPERATIONS)
@pytest.mark.kits("postgres")
def test_any_history_gives_the_same_reward_table_on_both_engines(sides, operations):
    play_on_both(sides, operations)


@pytest.mark.slow
@pytest.mark.timeout(400)  # on a busy disk
@settings(max_examples=40)
@given(OPERATIONS)
def test_forty_histories_give_the_same_reward_tables_on_both_engines(sides, operations):
    play_on_both(sides, operations)


def play_on_both(sides: tuple[Side, Side], operations: list[tuple[Any, ...]]) -> None:
    example = next(_examples)
    for side in sides:
        side.begin(example)
    for operation in (*FIRST, *operations):
        here, there = (side.do(operation) for side in sides)
        assert here == there, operation
    here, there = (side.table() for side in sides)
    assert here == there
    assert any(here)
