"""The memory of a server does not grow over time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serve.conftest import ASK, Running
from tests.serve.load import hammer

DECISIONS, WARM_UP, EVERY = 200_000, 60_000, 20_000


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_memory_is_flat_over_200_000_decisions(served: Callable[..., Running]) -> None:
    running = served()
    # Every text is different and there are many candidate sets: caches must evict.
    asks = [{**ASK, "text": f"ask {n}", "candidates": [f"arm {n % 97}", "other"]} for n in range(5000)]
    sizes: list[float] = []
    answered = 0
    while answered < DECISIONS:
        answers = hammer(running.port, 64, asks, EVERY)
        assert {status for status, _ in answers} == {201}
        answered += len(answers)
        if answered >= WARM_UP:
            sizes.append(resident_mb(running.process.pid))
    print(f"{answered:,} decisions, resident MB: {[round(size, 1) for size in sizes]}")
    assert max(sizes) <= 1.05 * sizes[0], sizes
    assert running.stored() == answered
