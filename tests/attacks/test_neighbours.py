"""A good client beside bad ones: nothing that it was told is lost, and it is refused nothing."""

from __future__ import annotations

import sys

import pytest

from tests.attacks.neighbours import Neighbours, attack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits on connections need Linux")


def unharmed(seen: Neighbours) -> None:
    assert (seen.refused, seen.lost) == (0, 0)


def test_a_good_client_beside_a_few_bad_neighbours_loses_nothing() -> None:
    unharmed(attack(readers=20, writers=20, idle=40, requests=30))


@pytest.mark.slow
def test_a_good_client_beside_4000_bad_neighbours_loses_nothing() -> None:
    unharmed(attack(readers=1000, writers=1000, idle=2000, requests=300))
