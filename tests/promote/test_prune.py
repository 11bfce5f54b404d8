"""Old snapshots lose their bundles; what anybody may still need stays, and so does every row of the ledger."""

from __future__ import annotations

import pytest

from headway.observe.engines import open_database
from headway.observe.query import Query
from headway.project import Project
from headway.promote.ledger import Entry, Ledger
from headway.promote.registry import Registry
from headway.promote.surplus import GRACE_S, KEPT, KEPT_CANDIDATES, prune, surplus_candidates
from tests.promote.test_bundle import TENSORS, header

LONG_AFTER = 1e6


@pytest.fixture
def ledger(place):
    database = open_database(place)
    yield Ledger(database, Query(database))
    database.close()


@pytest.fixture
def registry(tmp_path):
    return Registry(tmp_path / "policies")


@pytest.fixture
def publish(ledger, registry):
    """Writes a bundle and its row, a second after the one before; gives the hash."""
    seconds = iter(range(1, 10_000))

    def publish(kind="snapshot", digest=None, **detail):
        at = next(seconds)
        if digest is None:
            digest = registry.find(str(registry.add(header(seed=at), TENSORS)))
        expects = ledger.heads("route").expects
        ledger.append(
            Entry(
                task="route",
                kind=kind,
                policy="bandit@0000",
                policy_hash=digest,
                expects=expects,
                detail=detail,
                at=float(at),
            )
        )
        return digest

    return publish


def test_the_newest_snapshots_stay_and_the_oldest_are_removed_first(ledger, registry, publish):
    origin = publish("promote")
    made = [publish() for _ in range(KEPT + 5)]
    assert prune(ledger, registry, "route", now=LONG_AFTER) == made[:5]
    assert set(registry.digests()) == {origin, *made[5:]}
    assert len(ledger.entries("route")) == KEPT + 6, "rows are never removed"
    assert prune(ledger, registry, "route", now=LONG_AFTER) == []


def test_a_young_snapshot_stays_however_many_came_after_it(ledger, registry, publish):
    made = [publish() for _ in range(KEPT + 5)]
    assert prune(ledger, registry, "route", now=3.0 + GRACE_S) == made[:2]
    assert set(registry.digests()) == set(made[2:])


@pytest.mark.parametrize("kind", ["promote", "rollback", "canary", "candidate", "shadow", "plan", "retire"])
def test_a_snapshot_that_another_row_names_stays(ledger, registry, publish, kind):
    named, old = publish(), publish()
    publish(kind, named, share=0.1)
    publish("promote")
    made = [publish() for _ in range(KEPT)]
    assert prune(ledger, registry, "route", now=LONG_AFTER) == [old]
    assert {named, *made} < set(registry.digests())


def test_other_tasks_and_other_bundles_are_unchanged(ledger, registry, publish):
    made = [publish() for _ in range(KEPT + 1)]
    stranger = registry.find(str(registry.add(header(task="other", seed=0), TENSORS)))
    assert prune(ledger, registry, "other", now=LONG_AFTER) == []
    assert prune(ledger, registry, "route", now=LONG_AFTER) == made[:1]
    assert stranger in set(registry.digests())


def test_an_interrupted_prune_is_finished_by_the_next(ledger, registry, publish, monkeypatch):
    monkeypatch.setattr("headway.promote.surplus._PAGE", 3)
    made = [publish() for _ in range(KEPT + 20)]

    class Killed(Exception):
        pass

    remove, calls = registry.remove, []

    def remove_seven(digest):
        calls.append(digest)
        if len(calls) > 7:
            raise Killed
        return remove(digest)

    monkeypatch.setattr(registry, "remove", remove_seven)
    with pytest.raises(Killed):
        prune(ledger, registry, "route", now=LONG_AFTER)
    monkeypatch.undo()
    assert prune(ledger, registry, "route", now=LONG_AFTER) == made[7:20]
    assert set(registry.digests()) == set(made[20:])


def test_a_policy_that_learns_online_keeps_a_bounded_number_of_bundles(tmp_path, environ):
    (tmp_path / "headway.toml").write_text('[tasks.route]\nactions = ["a", "b"]\ngate = "off"\nonline = "live"\n')
    now = [1_000_000.0]
    with Project(tmp_path, environ=environ, clock=lambda: now[0], seed=1) as project:

        def decide():
            now[0] += 1.0
            made = project.decide("route", "hello")
            project.signal(made.id, reward=float(made.action == "a"))
            return made.id

        for _ in range(60):
            decide()
        project._folded_at = float("inf")  # only explicit folds in this test
        project.promote(project.learn("route"))
        made = [decide()]
        for _ in range(KEPT + 4):
            now[0] += GRACE_S
            assert project.fold("route")
            made.append(decide())
        kept = len(list(project.registry.digests()))
        assert kept <= 1 + KEPT + 1, "the promoted one, the newest snapshots, and what is younger than the grace"
        assert len(project.ledger.entries("route", "snapshot")) == KEPT + 4
        assert project.replay(made[-1]).exact is True
        gone = project.replay(made[1])
        assert gone.exact is None
        assert "old snapshots of online policies are removed" in gone.gone
        assert project.rollback("route").policy == "uniform@0"


def test_old_candidates_that_nobody_proved_are_surplus(ledger, registry, publish):
    candidates = [publish("candidate") for _ in range(KEPT_CANDIDATES + 5)]
    ledger.keep_evidence("ev_1", "route", candidates[0], {}, 1.0)  # proven
    publish("shadow", candidates[1])
    publish("retire", candidates[2])
    assert surplus_candidates(ledger, registry, "route", now=GRACE_S) == []  # too young
    surplus = [digest for _, digest in surplus_candidates(ledger, registry, "route", now=LONG_AFTER)]
    assert surplus == candidates[3:5]


@pytest.mark.slow
def test_learning_again_and_again_keeps_a_bounded_number_of_bundles(tmp_path):
    now = [1e9]
    with Project(tmp_path, clock=lambda: now[0]) as project:
        for number in range(60):
            choice = project.decide("route", f"text {number}", ["small", "large"])
            project.signal(choice.id, reward=float(number % 2))
        for seed in range(KEPT_CANDIDATES + 6):
            now[0] += GRACE_S + 1
            last = project.learn("route", seed=seed)
        assert len(list(project.registry.digests())) <= KEPT_CANDIDATES + 1
        assert project.ledger.state("route", project.registry.find(last)) == "candidate"
        assert list(project.ledger.states("route").values()).count("retired") >= 4
