"""The identity world: logged decisions in which the situation names the best arm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from headway.nouns import Candidate, Decision, Settled, Situation

ARMS = ("blue", "green", "red")
CANDIDATES = tuple(Candidate(name) for name in ARMS)


def row(
    seq: int,
    situation: Situation,
    action: str,
    reward: float | None,
    *,
    candidates: tuple[Candidate, ...] = CANDIDATES,
    propensity: float | None = None,
) -> Settled:
    """One settled decision of a log that chose uniformly; without a reward it is censored."""
    share = 1.0 / len(candidates)
    decision = Decision(
        id=f"dec_{seq}",
        situation=situation,
        candidates=candidates,
        probabilities=(share,) * len(candidates),
        action=action,
        propensity=share if propensity is None else propensity,
        policy="uniform@0",
        policy_hash="",
        config_hash="",
        encoder="",
        exploration="",
        seed=seq,
        at=float(seq),
    )
    return Settled(seq=seq, decision=decision, reward=reward, status="rewarded" if reward is not None else "censored")


class MemoryLog:
    """An Experience in memory: the first four fifths are train, the rest is tune."""

    def __init__(self, rows: Sequence[Settled]) -> None:
        self.rows = list(rows)

    def __iter__(self) -> Iterator[Settled]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, name: str) -> Sequence[Settled]:
        assert name in ("train", "tune"), "a learner asked for rows that it must not see"
        cut = len(self.rows) * 4 // 5
        return self.rows[:cut] if name == "train" else self.rows[cut:]


def by_text(place: int, number: int) -> Situation:
    """The text names the best arm among other words."""
    return Situation(task="identity", text=f"paint item {number % 17} in {ARMS[place]} please")


def by_numbers(place: int, number: int) -> Situation:
    """The number at the index of the best arm is high; nothing else is known."""
    return Situation(
        task="identity", state={f"x{i}": float(i == place) + 0.01 * (number % 5) for i in range(len(ARMS))}
    )


def by_category(place: int, number: int) -> Situation:
    """A category names the best arm; a second, uninformative number is added."""
    return Situation(task="identity", state={"colour": ARMS[place], "noise": float(number % 3)})


WORLDS: dict[str, Callable[[int, int], Situation]] = {
    "text": by_text,
    "numbers": by_numbers,
    "category": by_category,
}


def identity(world: str, count: int, seed: int = 0) -> list[Settled]:
    """Uniformly logged rows: reward 1 for the arm that the situation names, else 0, with a little noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        place, arm = int(rng.integers(len(ARMS))), int(rng.integers(len(ARMS)))
        reward = float(place == arm) + float(rng.normal()) * 0.05
        rows.append(row(number, WORLDS[world](place, number), ARMS[arm], reward))
    return rows
