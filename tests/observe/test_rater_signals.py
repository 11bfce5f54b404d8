"""The raters behind a reward, read with the rows, on both engines."""

from __future__ import annotations

from headway.nouns import ids
from headway.nouns.records import Signal
from tests.observe.test_settle import give, run

COUNTING = ("solved", "failed")


def raters_of(ground, **options):
    rows = ground.query.settled("route", **{"raters": COUNTING, **options})
    return [(row.raters, dict(row.said)) for row in rows]


def test_a_store_with_one_rater_is_not_queried(ground, decision):
    first, second = ground.add(decision(), decision())
    give(ground, first.id)
    run(ground, wait_s=1.0)
    assert raters_of(ground) == [(("",), {"": ()}), ((), {})], "an unrated decision has no rater"
    assert second.id


def test_each_row_has_the_raters_of_the_signals_that_count(ground, decision):
    made = ground.add(*(decision() for _ in range(4)))
    give(ground, made[0].id, 1.0, rater="ann")
    give(ground, made[0].id, 7.0, name="latency_s", rater="agent")
    give(ground, made[1].id, 0.5)
    give(ground, made[2].id, 0.5, rater="ann")
    give(ground, made[2].id, 1.0, rater="bob")
    give(ground, made[3].id, 1.0, name="failed", rater="agent")
    run(ground)
    both = {"ann": (("solved", 0.5),), "bob": (("solved", 1.0),)}
    assert raters_of(ground) == [
        (("ann",), {"ann": ()}),
        (("",), {"": ()}),
        (("ann", "bob"), both),
        (("agent",), {"agent": ()}),
    ]
    assert raters_of(ground, raters=True)[0][0] == ("agent", "ann"), "if every signal counts, measurements do too"
    assert raters_of(ground, raters=False) == [((), {})] * 4, "raters are read only on request"


def test_withdrawn_and_replaced_signals_have_no_rater(ground, decision):
    made = ground.add(decision())[0]
    give(ground, made.id, 1.0, rater="ann")
    give(ground, made.id, 0.0, rater="bob")
    give(ground, made.id, 0.25, rater="bob")
    give(ground, made.id, None, rater="ann")
    run(ground)
    assert raters_of(ground) == [(("bob",), {"bob": ()})]


def test_raters_of_repeated_draws_and_of_the_episode_count(ground, decision):
    opening = decision(episode="e", step=0)
    ground.add(opening, opening=True)
    ground.add(decision(episode="e", step=1, draw_id=opening.id))
    follower = ground.query.latest("route", 1)[0]
    other = ground.add(decision())[0]
    give(ground, opening.id, 0.2, rater="ann")
    give(ground, follower.id, 0.4, rater="bob")
    give(ground, ids.episode("route", "e"), 0.6, rater="judge")
    give(ground, other.id, 1.0, rater="ann")
    run(ground)
    rows = {row.decision.id: row for row in ground.query.settled("route", raters=COUNTING)}
    expected = {"ann": (("solved", 0.2),), "bob": (("solved", 0.4),), "judge": (("solved", 0.6),)}
    assert dict(rows[opening.id].said) == expected
    assert rows[opening.id].reward == sum([0.2, 0.4, 0.6]) / 3
    assert rows[other.id].raters == ("ann",)


def test_rows_on_many_pages_keep_their_own_raters(ground, decision):
    made = ground.add(*(decision() for _ in range(1_203)))
    names = [("ann", "bob", "")[place % 3] for place in range(len(made))]
    ground.store.signal(
        [
            Signal(subject=decision.id, name="solved", value=1.0, rater=name, at=1.0)
            for decision, name in zip(made, names, strict=True)
        ]
    )
    run(ground)
    rows = list(ground.query.settled("route", raters=COUNTING))
    assert [row.raters for row in rows] == [(name,) for name in names]
