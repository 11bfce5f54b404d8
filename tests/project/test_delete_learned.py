"""Deletion and learning: bundles that used deleted rows, online policies, consensus weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headway.observe.erase import DeletionFilter
from headway.project import Project
from tests.project.deletions import ARMS, TOML, Opened, table


def test_bundles_learned_from_deleted_rows_are_listed(opened: Opened) -> None:
    from tests.project.conftest import play

    project = opened()
    ids = play(project, 120)
    first = project.learn("route")
    later = play(project, 5, seed=9)
    assert project.erase(DeletionFilter(decision=later[-1]), dry_run=True).bundles == ()
    from headway.observe.experience import part_of

    learned = next(identifier for identifier in ids if part_of(project.query.decision(identifier)) == "train")
    held_out = next(identifier for identifier in ids if part_of(project.query.decision(identifier)) == "prove")
    assert project.erase(DeletionFilter(decision=held_out), dry_run=True).bundles == ()
    assert project.erase(DeletionFilter(decision=learned), dry_run=True).bundles == (first,)


@pytest.mark.engines(slow="postgresql", why="it is about learning")
def test_an_online_policy_unlearns_deleted_rows_exactly(opened: Opened) -> None:
    from tests.project.conftest import play

    project = opened('[tasks.route]\nonline = "live"\ngate = "off"\n')
    play(project, 120)
    project.promote(project.learn("route"))
    more = play(project, 20, seed=11)
    project.fold("route")
    before = project.servings.of(project.settings.task("route")).digest
    done = project.erase(DeletionFilter(decision=more[7]))
    assert done.snapshots["route"]
    after = project.servings.of(project.settings.task("route"))
    assert after.digest != before
    _, with_it = project.registry.load(before, task="route")
    _, without = project.registry.load(after.digest, task="route")
    count = float(with_it["totals"][..., 0].sum()) - float(without["totals"][..., 0].sum())
    assert count == 1.0
    # Sums rebuilt from the remaining rows are the same.
    rebuilt = _rebuilt(project, before)
    for name in ("moments", "totals") if "moments" in without else ("totals",):
        np.testing.assert_allclose(np.asarray(without[name]), rebuilt[name], atol=1e-9)


def _rebuilt(project: Project, digest: str) -> dict[str, Any]:
    from headway.learn import online
    from headway.observe.experience import part_of

    settings = project.settings.task("route")
    header, tensors = project.registry.load(digest, task="route")
    body = project.servings.body(settings)
    policy = project.servings.policy("route", body, str(project.registry.ref(digest)), digest)
    state = online.state_from(policy)
    for name in ("moments", "targets", "totals"):
        if hasattr(state, name):
            getattr(state, name)[...] = 0.0
    state.open()
    start = int(header.trained_on["folded_from"])
    for row in project.query.settled("route"):
        if (
            row.seq <= int(header.trained_on["upto"])
            and row.reward is not None
            and (row.seq > start or part_of(row.decision) != "prove")
        ):
            online.update(state, row)
    del tensors
    return dict(online.tensors_of(state))


def test_with_consensus_a_deleted_rater_has_no_influence_left(opened: Opened) -> None:
    toml = TOML + "consensus = true\n"
    rng = np.random.default_rng(2)
    project = opened(toml)
    ids = [project.decide("route", f"q{n}", ARMS).id for n in range(30)]
    ratings = [(n, rater, float(rng.normal())) for n in range(30) for rater in ("ann", "bob", "eve")]
    for n, rater, value in ratings:
        project.signal(ids[n], {"reward": value}, rater=rater)
    expected = table(project)
    for n in range(0, 30, 2):
        project.signal(ids[n], {"reward": 4.0}, rater="troll")
    assert table(project) != expected
    project.erase(DeletionFilter(rater="troll"))
    assert table(project) == expected
