"""Snapshots of policies that learn online are untrusted: what no rows can have made is refused without a traceback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from headway.decide import bandit
from headway.encode import encoder
from headway.learn import online
from headway.nouns.errors import Damaged
from tests.families import learner
from tests.learn.logs import MemoryLog, identity

TEXT = encoder()
ODD: tuple[Any, ...] = (None, "x", -1, 1e308, [], {}, ["a"], {"a": 1}, True)


def _continued(knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any]) -> bool:
    """Whether learning goes on from such a bundle."""
    try:
        state = online.state_from(bandit.read(knobs, tensors, extra, TEXT))
    except Damaged:
        return False
    assert all(np.isfinite(tensor).all() for tensor in online.tensors_of(state).values())
    return True


@pytest.mark.parametrize("model", ["linear", "clusters"])
def test_a_forged_snapshot_is_refused_or_learns_on(model: str) -> None:
    made = learner("bandit", encoder=TEXT).learn(MemoryLog(identity("text", 60)), {"model": model}, 3)
    knobs, tensors, extra = made.knobs, made.tensors, made.extra
    assert _continued(knobs, tensors, extra)
    for name, values in tensors.items():
        others = {key: value for key, value in tensors.items() if key != name}
        assert not _continued(knobs, others, extra), name
        for wrong in (
            np.zeros(0),
            np.array(1.0),
            values.reshape(-1, 1, 1, 1),
            values.astype(np.float32),
            np.full(values.shape, np.nan),
            np.full(values.shape, 1e308),
        ):
            assert not _continued(knobs, {**others, name: wrong}, extra), name
        for number in (1e99, -1e99, -1.0, 0.0):
            _continued(knobs, {**others, name: np.full(values.shape, number)}, extra)
    for odd in ODD:
        for name in knobs:
            _continued({**knobs, name: odd}, tensors, extra)
        for name in extra:
            assert not _continued(knobs, tensors, {**extra, name: odd}), (name, odd)
