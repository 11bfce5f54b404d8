from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.kits.audit.running import RunningEstimates
from headway.prove import estimators, intervals
from tests.prove.logs import small_log


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_streaming_gives_what_the_whole_log_gives(seed: int, cuts: int) -> None:
    log = small_log(300, seed)
    q = estimators.cross_fitted(log)
    w, m, fitted = estimators.terms(log, log.target, q)
    wb, mb, _ = estimators.terms(log, log.baseline, q)
    alone, both = RunningEstimates(shrinkage=3.0), RunningEstimates(shrinkage=3.0, compared=True)
    for part in np.array_split(np.arange(300), cuts):
        alone.add(reward=log.reward[part], weight=w[part], direct=m[part], fitted=fitted[part])
        both.add(
            reward=log.reward[part], weight=w[part], direct=m[part], fitted=fitted[part], baseline=(wb[part], mb[part])
        )
    for method in estimators.METHODS:
        rows = estimators.rows(method, reward=log.reward, weight=w, direct=m, fitted=fitted, shrinkage=3.0)
        other = estimators.rows(method, reward=log.reward, weight=wb, direct=mb, fitted=fitted, shrinkage=3.0)
        low, high = intervals.normal(rows)
        estimate = alone.estimate(method)
        assert estimate.value == pytest.approx(float(rows.mean()), abs=1e-9)
        assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=1e-9)
        assert both.estimate(method).value == pytest.approx(float((rows - other).mean()), abs=1e-9)
        assert both.estimate(method).low == pytest.approx(intervals.normal(rows - other)[0], abs=1e-9)
