"""`online = "live"` through the loop: proven, promoted, guarded, and no cycle fails."""

from __future__ import annotations

import pytest

from headway.project.prove.subject import stored_evidence
from tests.loop.conftest import AUTO
from tests.loop.played import TASK, MovedClock, Played

LIVE = AUTO + 'online = "live"\nrange = [0, 1]\n'


def test_a_live_policy_is_promoted_and_guarded_and_no_cycle_fails(watching):
    clock = MovedClock()
    watch = watching(LIVE, clock=clock, timed=False)
    world = Played(watch, clock, {"small": 0.2, "large": 0.9}, seed=3)
    world.serve(600, until=lambda: bool(world.rows("promote")))
    (promoted,) = world.rows("promote")
    assert promoted.why.endswith("BETTER")
    since = world.made
    world.serve(300)
    assert len(world.rows("snapshot")) >= 5, "it learns as it decides"
    project = watch.project
    looks = [stored_evidence(project, look) for look, *_ in project.ledger.evidences(TASK, limit=50)]
    guards = [look for look in looks if look.rule == "betting, restarted"]
    assert guards, "its own decisions are looked at"
    assert guards[0].against == "uniform@0"
    assert guards[0].n == max(look.n for look in guards) <= world.made - since, "since the promotion only"
    world.chances = {"small": 0.9, "large": 0.1}
    world.serve(600, every=25, until=lambda: bool(world.rows("rollback")))
    (rolled_back,) = world.rows("rollback")
    assert rolled_back.policy == "uniform@0"
    assert rolled_back.why.startswith("automatic: Proven worse")
    assert rolled_back.evidence_id is not None
    assert not world.errors


@pytest.mark.slow
def test_a_candidate_is_judged_and_replaced_while_the_live_policy_publishes_snapshots(watching):
    clock = MovedClock()
    watch = watching(LIVE, clock=clock, timed=False)
    world = Played(watch, clock, {"small": 0.2, "large": 0.9}, seed=4)
    world.serve(600, until=lambda: bool(world.rows("promote")))
    learned = len(world.rows("candidate"))
    world.serve(600)
    assert len(world.rows("candidate")) + len(world.rows("shadow")) > learned + 1
    standing = watch.project.standing(TASK)
    waits = standing.candidate is not None and not watch.project.readiness(standing).now
    assert standing.candidate is None or waits or standing.verdict is not None or standing.unprovable is not None
    assert not world.errors
