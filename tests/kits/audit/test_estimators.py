"""The estimators that an audit shows: by hand, and in pieces of a log."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from headway.kits.audit.evidence import Method, RunningEstimates, rows
from headway.kits.heldout import normal
from headway.prove import display as core
from tests.prove.logs import small_log

REWARD = np.array([1.0, 0.0, 1.0, 0.5])
WEIGHT = np.array([0.5, 2.0, 4.0, 0.0])
DIRECT = np.array([0.4, 0.6, 0.5, 0.7])
FITTED = np.array([0.8, 0.2, 0.5, 0.5])
METHODS: tuple[Method, ...] = ("ips", "snips", "dr")


@pytest.mark.parametrize(
    ("method", "by_hand"),
    [
        ("ips", (0.5 + 0.0 + 4.0 + 0.0) / 4),
        ("snips", 4.5 / 6.5),
        ("dr", (2.2 + 0.5 * 0.2 + 2.0 * -0.2 + 4.0 * 0.5) / 4),
    ],
)
def test_estimators_equal_values_computed_by_hand(method: Method, by_hand: float) -> None:
    assert rows(method, reward=REWARD, weight=WEIGHT, direct=DIRECT, fitted=FITTED).mean() == pytest.approx(by_hand)


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_streaming_gives_what_the_whole_log_gives(seed: int, cuts: int) -> None:
    log = small_log(300, seed)
    q = core.cross_fitted(log)
    w, m, fitted = core.terms(log, log.target, q)
    wb, mb, _ = core.terms(log, log.baseline, q)
    both = RunningEstimates(compared=True)
    for part in np.array_split(np.arange(300), cuts):
        both.add(
            reward=log.reward[part], weight=w[part], direct=m[part], fitted=fitted[part], baseline=(wb[part], mb[part])
        )
    for method in METHODS:
        ours = rows(method, reward=log.reward, weight=w, direct=m, fitted=fitted)
        theirs = rows(method, reward=log.reward, weight=wb, direct=mb, fitted=fitted)
        alone = both.candidate().estimate(method)
        assert alone.value == pytest.approx(float(ours.mean()), abs=1e-9)
        assert (alone.low, alone.high) == pytest.approx(normal(ours), abs=1e-9)
        assert both.estimate(method).value == pytest.approx(float((ours - theirs).mean()), abs=1e-9)
        assert both.estimate(method).low == pytest.approx(normal(ours - theirs)[0], abs=1e-9)
