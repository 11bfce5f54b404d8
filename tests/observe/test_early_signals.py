"""Early signals wait for their decision for 24 hours, in limited numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from headway.nouns import ids
from headway.nouns.errors import Busy
from headway.nouns.records import Decision, Signal
from headway.observe import signals
from headway.observe.signals import expire
from headway.observe.store import Store
from tests.observe.conftest import CONFIGS, lay, make

DAY = 86_400.0


@pytest.fixture
def scene(place: Path | str) -> Iterator[SimpleNamespace]:
    ground = lay(place)
    scene = SimpleNamespace(now=1_700_000_000.0, ground=ground)
    scene.store = Store(ground.database, ground.writer, lambda: scene.now)
    yield scene
    ground.writer.close()
    ground.database.close()


def give(scene: SimpleNamespace, subject: str, rater: str = "agent") -> int:
    # Its own time is not its arrival time: a log from last week may be replayed.
    rows = [Signal(subject=subject, name="reward", value=1.0, rater=rater, at=5.0)]
    return int(scene.store.signal(rows, early=True))


def kept(scene: SimpleNamespace) -> int:
    return int(scene.ground.database.query("SELECT COUNT(*) FROM signals")[0][0])


def record(scene: SimpleNamespace, made: Decision) -> None:
    scene.store.add([made], CONFIGS)


def test_early_signals_are_deleted_after_24_hours(scene: SimpleNamespace) -> None:
    alone, followed, episode = make(), make(), make(episode="chat-7")
    for subject in (alone.id, followed.id, ids.episode("route", "chat-7")):
        give(scene, subject)
    scene.now += DAY - 1
    record(scene, followed)
    record(scene, episode)
    expire(scene.ground.database, scene.now)
    assert kept(scene) == 3
    scene.now += 2
    expire(scene.ground.database, scene.now)
    rows = scene.ground.database.query("SELECT subject, early FROM signals ORDER BY seq")
    assert [bytes(row[0]).hex() for row in rows] == [followed.id[4:], ids.episode("route", "chat-7")[4:]]
    assert [row[1] for row in rows] == [None, None]
    record(scene, alone)
    assert give(scene, alone.id) == 1, "it can be sent again"


def test_the_number_of_early_signals_per_rater_is_limited(
    scene: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "MOST", 3)
    waiting = [make() for _ in range(3)]
    for signal in waiting:
        give(scene, signal.id)
    with pytest.raises(Busy) as error:
        give(scene, make().id)
    assert error.value.code == "too_many_early"
    assert kept(scene) == 3
    assert give(scene, make().id, rater="judge") == 1, "others are not limited"
    record(scene, waiting[0])
    assert give(scene, make().id) == 1, "one decision has arrived, so there is room"
    with pytest.raises(Busy):
        give(scene, make().id)
    assert give(scene, waiting[0].id, rater="agent") == 0, "known signals take no room"
    scene.now += DAY
    assert give(scene, make().id) == 1
    assert kept(scene) == 2, "signals older than a day are deleted; one decision had arrived"
