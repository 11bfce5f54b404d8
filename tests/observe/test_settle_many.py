"""Settling many decisions at once gives the outcomes that settling a few at a time gives."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from headway.nouns import ids
from headway.nouns.records import Outcome, Signal
from headway.observe import settler
from headway.observe.settler import settle
from headway.observe.store import Store
from tests.observe.conftest import Ground, lay, make

NOW = 2_000_000_000.0
_LATE = 30.0


def judge(seq: int, signals: Any, age_s: float) -> Outcome:
    if signals.get("failed", 0.0) > 0.0:
        return Outcome(status="failed", reward=-1.0)
    if "solved" in signals:
        return Outcome(status="rewarded", reward=signals["solved"] + 0.1 * signals.get("cost", 0.0))
    return Outcome(status="censored" if age_s >= _LATE else "pending", reward=None)


def _play(ground: Ground, seed: int, shape: str, *, pause: int) -> None:
    """Decisions and signals in some order, settled after every few of them and at the end."""
    rng, known = Random(seed), list[str]()
    ground.store = Store(ground.database, ground.writer, lambda: NOW)
    for number in range(40):
        what = rng.random()
        if what < 0.5 or not known:
            raw = rng.randbytes(16)
            identifier = ids.text(raw[:6] + bytes([0x80 | raw[6] & 15]) + raw[7:])
            changes: dict[str, Any] = {"id": identifier, "at": NOW - 50.0 + number}  # the first of them are due
            if shape == "episodes" and rng.random() < 0.5:
                changes["episode"] = f"e{rng.randrange(4)}"
                if rng.random() < 0.5:
                    changes["unit"] = ids.episode("route", changes["episode"])
            if shape == "requests" and known and rng.random() < 0.4:
                changes |= {"unit": known[0], "draw_id": known[0], "position": number}
            if rng.random() < 0.2:
                early = Signal(subject=identifier, name="solved", value=rng.random(), at=NOW)
                ground.store.signal([early], early=True)
            ground.add(make(task=rng.choice(["route", "route", "other"]), **changes))
            known.append(identifier)
        else:
            name, value = rng.choice(["solved", "failed", "cost"]), rng.choice([0.0, -0.0, 1.0, rng.random()])
            rater = rng.choice(["", "bob"])
            subject = rng.choice(known)
            live = [one for one in ground.query.signals(subject) if (one.name, one.rater) == (name, rater)]
            withdrawn = rng.random() < 0.2 and any(one.value is not None for one in live[-1:])
            ground.store.signal(
                [Signal(subject=subject, name=name, value=None if withdrawn else value, rater=rater, at=NOW)]
            )
        if number % pause == pause - 1:
            _settle(ground)
    _settle(ground)


def _settle(ground: Ground) -> None:
    settle(ground.database, ground.query, "route", judge=judge, version="v1", now=NOW, wait_s=_LATE)


def _outcomes(ground: Ground) -> list[tuple[Any, ...]]:
    return ground.database.query(
        "SELECT d.id, s.reward, s.status, s.clipped, s.weight FROM settled s JOIN decisions d ON d.seq = s.decision "
        "WHERE NOT EXISTS (SELECT 1 FROM settled n WHERE n.replaces = s.seq) ORDER BY d.seq"
    )


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from(["plain", "episodes", "requests"]), st.sampled_from([3, 12, 100]))
def test_outcomes_do_not_depend_on_how_many_are_settled_at_once(seed: int, shape: str, pause: int) -> None:
    results = []
    for most in (4000, 3, 1):
        with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(settler, "_PAGE", most)  # more signals than this are many
            ground = lay(Path(folder) / "headway.db")
            _play(ground, seed, shape, pause=pause)
            results.append(_outcomes(ground))
            ground.writer.close()
            ground.database.close()
    assert results[0] == results[1] == results[2]
