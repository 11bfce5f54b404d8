"""The columns of a task equal its rows, whatever was written, settled, stored, damaged and deleted."""

from __future__ import annotations

import multiprocessing
from random import Random

import numpy as np
import pytest

from headway.encode.hashing import HashingEncoder
from headway.learn.bandit import BanditLearner
from headway.learn.sums import Sums
from headway.nouns.errors import InvalidInput
from headway.nouns.records import SOURCES, Settled, Signal
from headway.observe import frame as frames
from headway.observe.erase import DeletionFilter, erase, plan_deletion
from headway.observe.experience import PARTS, Recorded, part_of, parts_of
from headway.observe.frame import TaskFrame, seal
from headway.observe.part_blocks import Batch, blocks_of, without
from headway.observe.rows import STATUSES
from headway.observe.totals import forget_blocks
from tests.observe.conftest import lay
from tests.observe.test_settle import judge as judged, no_wait, run
from tests.observe.test_totals import History

UPTO = 10**9


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few numbers, so that a short log has many."""
    monkeypatch.setattr(frames, "BLOCK", 7)
    monkeypatch.setattr(frames, "_PAGE", 3)
    monkeypatch.setattr(frames, "_LATE", 4)


def rows_of(ground, task="route"):
    """The slow reference: every decision with its outcome, from records."""
    settled = {row.decision.seq: row for row in ground.query.settled(task)}
    rows = []
    for decision in ground.query.decisions(task):
        row = settled.get(decision.seq, Settled(seq=0, decision=decision, reward=None, status="pending"))
        leads = not decision.draw_id and not decision.position
        rows.append(
            (
                *(decision.seq, round(decision.at * 1e6), decision.action, decision.propensity),
                *(decision.propensity_known, decision.source, leads, decision.situation.role, part_of(decision)),
                *(row.seq, row.first, row.reward, row.weight, row.status, row.clipped),
            )
        )
    return rows


def columns_of(ground, task="route", by="group"):
    frame, rows = ground.query.frame(task), []
    for block in frame.blocks():
        actions, names = frame.actions(block)
        parts = parts_of(frame, block, by)
        for place in range(len(block)):
            reward = float(block.reward[place])
            rows.append(
                (
                    *(int(block.seq[place]), int(block.at[place]), names[actions[place]]),
                    *(float(block.propensity[place]), bool(block.known[place]), SOURCES[block.source[place]]),
                    *(bool(block.leads[place]), frame.name(int(block.role[place])), tuple(PARTS)[parts[place]]),
                    *(int(block.settled[place]), int(block.first[place]), None if np.isnan(reward) else reward),
                    *(float(block.weight[place]), STATUSES[block.status[place]], bool(block.clipped[place])),
                )
            )
    return rows


def stored(ground):
    return [
        (int(number), str(name))
        for number, name in ground.database.query("SELECT number, name FROM blocks WHERE number >= 0 AND task_id > 0")
    ]


def route(ground):
    return ground.query.name_id("task", "route")


def rejudge(seq, signals, age_s):
    """Another reward: as after new weights."""
    outcome = judged(seq, signals, 0.0)
    return outcome if outcome.reward is None else type(outcome)(status=outcome.status, reward=1.0 - outcome.reward)


@pytest.mark.parametrize("seed", range(6))
def test_columns_equal_the_rows_at_every_moment(ground, decision, small_blocks, seed):
    history, random = History(ground, decision, seed), Random(seed)
    for step in range(45):
        history.write()
        run(ground, judge=no_wait)
        chance = random.random()
        if chance < 0.1:
            run(ground, judge=rejudge if random.random() < 0.5 else no_wait, again=True)
        if chance < 0.5:
            seal(ground.database, route(ground))
        assert columns_of(ground) == rows_of(ground), step
    assert stored(ground), "the log is long enough for stored blocks"


def test_only_whole_blocks_are_stored_and_their_rows_are_not_read_again(ground, decision, small_blocks):
    ground.add(*(decision(text=f"text {number}") for number in range(9)))
    assert seal(ground.database, route(ground)) == 1
    assert sorted(stored(ground)) == [(0, "decided"), (0, "outcomes")]
    before = columns_of(ground)
    with ground.database.transaction() as connection:  # unseen from now on
        connection.execute("UPDATE decisions SET propensity = 0.5 WHERE seq < 7")
    assert columns_of(ground) == before
    assert seal(ground.database, route(ground)) == 0


def test_later_outcomes_are_applied_to_stored_blocks_and_stored_once_there_are_many(ground, decision, small_blocks):
    made = ground.add(*(decision() for _ in range(9)))
    seal(ground.database, route(ground))
    for place, one in enumerate(made[:6]):
        ground.store.signal([Signal(subject=one.id, name="solved", value=place / 10, at=1.0)])
        run(ground, judge=no_wait)
        assert columns_of(ground) == rows_of(ground)
    assert ground.query.frame("route").late()["log"].size == 6
    assert seal(ground.database, route(ground)) == 1
    assert ground.query.frame("route").late()["log"].size == 0
    assert columns_of(ground) == rows_of(ground)
    ground.store.signal([Signal(subject=made[0].id, name="solved", value=0.9, at=2.0)])
    run(ground, judge=no_wait)
    assert columns_of(ground) == rows_of(ground)


def test_many_outcomes_of_later_decisions_are_not_looked_at_again_for_the_stored_blocks(ground, decision, small_blocks):
    ground.add(*(decision() for _ in range(9)))
    seal(ground.database, route(ground))
    for one in ground.add(*(decision() for _ in range(4))):
        ground.store.signal([Signal(subject=one.id, name="solved", value=1.0, at=1.0)])
        ground.store.signal([Signal(subject=one.id, name="solved", value=0.2, at=2.0)])
        run(ground, judge=no_wait)
        run(ground, judge=rejudge, again=True)
    assert ground.query.frame("route").late()["log"].size > 4
    assert seal(ground.database, route(ground)) == 0
    assert ground.query.frame("route").late()["log"].size == 0
    assert columns_of(ground) == rows_of(ground)


@pytest.mark.parametrize("name", ["decided", "outcomes", "part group"])
def test_a_damaged_block_and_one_of_another_version_are_read_from_rows_and_stored_again(
    ground, decision, small_blocks, monkeypatch, name
):
    ground.add(*(decision(text=f"text {number}") for number in range(16)))
    seal(ground.database, route(ground))
    right = columns_of(ground)
    data = bytearray(ground.database.query("SELECT data FROM blocks WHERE number = 0 AND name = ?", (name,))[0][0])
    data[3] ^= 1
    with ground.database.transaction() as connection:
        connection.execute("UPDATE blocks SET data = ? WHERE number = 0 AND name = ?", (bytes(data), name))
    assert columns_of(ground) == right
    assert seal(ground.database, route(ground), check=True) == (name != "part group")
    assert seal(ground.database, route(ground), check=True) == 0
    monkeypatch.setattr(frames, "_VERSION", b"2")
    assert columns_of(ground) == right
    assert seal(ground.database, route(ground), check=True) == 2
    assert columns_of(ground) == right


def test_a_deletion_leaves_no_block_and_a_reader_that_began_before_it_stores_none(ground, decision, small_blocks):
    made = ground.add(*(decision(text=f"secret {number}") for number in range(16)))
    seal(ground.database, route(ground))
    early = ground.query.frame("route")
    wanted = DeletionFilter(decision=made[2].id)
    matched = plan_deletion(ground.database, wanted)
    with ground.database.transaction() as connection:
        erase(connection, wanted, matched)
    assert stored(ground) == []
    assert not early.keep(0, {"decided": b""})
    assert stored(ground) == []
    assert columns_of(ground) == rows_of(ground)
    assert seal(ground.database, route(ground)) == 2
    assert columns_of(ground) == rows_of(ground)


def test_no_block_holds_a_text_or_a_hash_of_one(ground, decision, small_blocks):
    """Two texts in the same part give the same bytes."""
    texts = [text for text in map(str, range(100)) if part_of(decision(text=text)) == "train"][:2]
    seen = set()
    for text in texts:
        with ground.database.transaction() as connection:
            forget_blocks(connection)
            connection.execute("UPDATE decisions SET text = ?", (text,))
        if not seen:
            ground.add(*(decision(text=text) for _ in range(9)))
        seal(ground.database, route(ground))
        columns_of(ground)
        seen.add(
            tuple(
                bytes(row[0]) for row in ground.database.query("SELECT data FROM blocks WHERE number = 0 ORDER BY name")
            )
        )
    assert len(seen) == 1


def test_blocks_by_kin_take_the_place_of_those_by_other_fields(ground, decision, small_blocks):
    ground.add(*(decision(text=f"order {number}", state={"n": number}) for number in range(9)))
    seal(ground.database, route(ground))
    for by in ("kin", "kin without n"):
        parts = [row[8] for row in columns_of(ground, by=by)]
        assert parts == [part_of(one, by) for one in ground.query.decisions("route")]
    assert sorted(name for _, name in stored(ground)) == ["decided", "outcomes", "part kin without n"]


# -- what learners read


def reference(ground, part, upto, left_out=()):
    """The records of a part, by a reader of rows; in the order in which outcomes became known."""
    for row in ground.query.settled("route"):
        if row.seq <= upto and row.decision.source != "mined" and part_of(row.decision) == part:
            yield without(row, left_out)


@pytest.mark.parametrize("seed", range(3))
def test_learners_read_the_same_rows_as_records_and_as_runs(ground, decision, small_blocks, monkeypatch, seed):
    monkeypatch.setattr("headway.observe.part_blocks.BATCH", 3)
    monkeypatch.setattr("headway.observe.part_blocks.BLOCK", 7)
    history, random = History(ground, decision, seed), Random(seed)
    for number in range(40):
        history.known += ground.add(
            decision(text=f"text {number}", state={"n": number}, source=random.choice(["real", "mined"]))
        )
        history.write()
        run(ground, judge=no_wait)
    seal(ground.database, route(ground))
    upto = ground.query.last_settled("route")
    for left_out in ((), ("n", "text:numbers")):
        experience = Recorded(ground.query, ground.query.frame("route"), upto=upto, left_out=left_out)
        for part in ("train", "tune"):
            rows = list(reference(ground, part, upto, left_out))
            assert list(experience.part(part)) == rows
            wanted = Batch.of(sorted(rows, key=lambda row: row.decision.seq))
            batches = [one for block in experience.blocks(part) for one in block.batches()]
            cut = [list(map(len, one.batches())) for one in blocks_of(sorted(rows, key=lambda row: row.decision.seq))]
            again = [list(map(len, one.batches())) for one in experience.blocks(part)]
            assert [one for one in cut if one] == [one for one in again if one], "so that sums are equal in every bit"
            for name in ("situations", "offered", "actions"):
                assert [one for some in batches for one in getattr(some, name)] == list(getattr(wanted, name))
            for name in ("reward", "weight", "propensity", "known"):
                found = [getattr(some, name) for some in batches] or [np.empty(0)]
                assert np.array_equal(np.concatenate(found), getattr(wanted, name))
            assert sum(sum(one.counts["statuses"].values()) for one in experience.blocks(part)) == len(rows)


class _Records:
    """The slow reference of what a learner reads: records, in the order of the store."""

    def __init__(self, ground, upto):
        self._ground, self._upto = ground, upto

    def part(self, name):
        return sorted(reference(self._ground, name, self._upto), key=lambda row: row.decision.seq)


def _learned(experience):
    """What a bandit learns, in bytes; None while there is nothing to learn from."""
    try:
        learned = BanditLearner(HashingEncoder(8)).learn(experience, {"fit_rows": 6, "clusters": 2}, seed=3)
    except InvalidInput:
        return None
    tensors = {name: np.asarray(tensor).tobytes() for name, tensor in sorted(learned.tensors.items())}
    return tensors, learned.knobs, learned.extra, learned.metrics, learned.baselines, learned.trained_on


@pytest.mark.parametrize("seed", range(4))
def test_sums_that_were_kept_give_the_policy_of_one_learned_from_all_rows(
    ground, decision, small_blocks, monkeypatch, seed
):
    """Bit for bit, after late, withdrawn, rescored and deleted outcomes as well."""
    monkeypatch.setattr("headway.observe.part_blocks.BATCH", 3)
    monkeypatch.setattr("headway.observe.part_blocks.BLOCK", 7)
    monkeypatch.setattr("headway.learn.bandit._MOST_VALUED", 4)
    taken = []
    unpack = Sums.unpack
    monkeypatch.setattr(Sums, "unpack", lambda self, *values: taken.append(1) or unpack(self, *values))
    history, random = History(ground, decision, seed), Random(seed)
    for step in range(30):
        history.write()
        run(ground, judge=rejudge if random.random() < 0.1 else no_wait, again=random.random() < 0.1)
        if random.random() < 0.7:
            seal(ground.database, route(ground))
        if step % 3:
            continue
        upto = ground.query.last_settled("route")
        assert _learned(Recorded(ground.query, ground.query.frame("route"), upto=upto)) == _learned(
            _Records(ground, upto)
        ), step
    assert taken, "some sums were taken from blocks"
    wanted = DeletionFilter(decision=next(ground.query.decisions("route")).id)
    matched = plan_deletion(ground.database, wanted)
    with ground.database.transaction() as connection:
        erase(connection, wanted, matched)
    assert not ground.database.query("SELECT name FROM blocks WHERE task_id > 0")


# -- a crash


def _seal_and_die(place: str, after: int) -> None:
    import os
    import signal

    ground = lay(place)
    done = 0
    keep = TaskFrame.keep

    def dying(self, *values, **named):
        nonlocal done
        if done == after:
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1
        return keep(self, *values, **named)

    frames.BLOCK, frames._PAGE = 7, 3
    TaskFrame.keep = dying
    seal(ground.database, route(ground))


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_process_that_is_killed_while_it_stores_blocks_leaves_whole_ones(
    ground, place, decision, small_blocks, after
):
    ground.add(*(decision(text=f"text {number}") for number in range(23)))
    run(ground, judge=no_wait)
    child = multiprocessing.get_context("spawn").Process(target=_seal_and_die, args=(str(place), after))
    child.start()
    child.join()
    assert child.exitcode == -9
    assert len({number for number, _ in stored(ground)}) == after
    assert columns_of(ground) == rows_of(ground)
    seal(ground.database, route(ground))
    assert len({number for number, _ in stored(ground)}) == 3
    assert columns_of(ground) == rows_of(ground)
