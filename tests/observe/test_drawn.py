"""Rows of a proof as columns: what is known of clients that send only the probability of their choice."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as some

from headway.nouns import Candidate
from headway.nouns.records import Situation
from headway.observe.drawn import DrawnRows
from headway.observe.frame import _NAMES, _TYPES, Block

SETS = {1: tuple(map(Candidate, "ab")), 2: tuple(map(Candidate, "abc")), 3: tuple(map(Candidate, "abcd"))}
ROW = some.tuples(
    some.booleans(),  # claimed
    some.sampled_from(sorted(SETS)),
    some.integers(0, 1),  # action
    some.sampled_from(["ann", "bob"]),
    some.integers(1, 2),  # policy
    some.sampled_from(["even", "alone", "all"]),
)


def one_by_one(rows, known):
    """The slow reference: row after row."""
    found = []
    for claimed, number, action, key, policy, kind in rows:
        found.append(False)
        if not claimed or number < 2:
            continue
        found[-1] = known.get((key, policy), False)
        logged = probabilities(number, action, kind)
        rest = [value for place, value in enumerate(logged) if place != action]
        if max(rest) - min(rest) > 1e-12:
            known[key, policy] = False
        elif abs(logged[action] - rest[0]) > 1e-12:
            known.setdefault((key, policy), True)
    return found


def probabilities(number, action, kind):
    count = len(SETS[number])
    logged = [1.0 / count] * count
    if kind != "even":
        logged = [0.4 / (count - 1)] * count
        logged[action] = 0.6
    if kind == "all":
        logged[-1] += 0.1
        logged[action] -= 0.1
    return logged


def drawn_of(rows):
    columns = {name: np.zeros(len(rows), dtype=_TYPES[name]) for name in _NAMES}
    for name, place in (("candidates", 1), ("action", 2), ("policy", 4)):
        columns[name] = np.array([row[place] for row in rows], dtype=_TYPES[name])
    logged = np.zeros((len(rows), 4))
    for place, row in enumerate(rows):
        logged[place, : len(SETS[row[1]])] = probabilities(row[1], row[2], row[5])
    return DrawnRows(
        rows=Block(**columns),
        raw=[b""] * len(rows),
        situations=[Situation(task="route")] * len(rows),
        sets=SETS,
        logged=logged,
        seeds=[0] * len(rows),
        keys=[row[3] for row in rows],
        assigned=[""] * len(rows),
        in_unit=np.zeros(len(rows), dtype=np.bool_),
    )


@given(some.lists(some.lists(ROW, min_size=1, max_size=12), min_size=1, max_size=4))
def test_who_sends_only_the_probability_of_the_choice_is_known_from_earlier_rows(batches):
    """Whole batches give what one row after the other gives, and leave the same knowledge behind."""
    known, again = {}, {}
    for rows in batches:
        found = drawn_of(rows).only_chosen(np.array([row[0] for row in rows]), known)
        assert found.tolist() == one_by_one(rows, again)
        assert known == again
