"""One candidate at a time: it is held until its test is over, and what is learned meanwhile is next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.loop.cycle import CycleResult
from headway.loop.due import Marks, due
from headway.loop.watch import Watch
from headway.nouns import ids
from headway.nouns.evidence import Prospect, Waiting
from headway.nouns.kit import catalogue
from headway.project import Project
from headway.promote.gate import Admission, verdict
from headway.promote.ledger import Entry
from headway.promote.standing import CandidatePolicy, CurrentPolicy, Standing
from tests.cli.terminal import headway as command
from tests.loop.conftest import kinds
from tests.promote.test_gate import EVIDENCE, check

EQUAL = (
    '[tasks.route]\nactions = ["small", "large"]\ndecide_within = 200\npromote = "auto"\nramp = "off"\n'
    "final_after_s = 0\n"
)
RULES = (
    '[tasks.route]\nactions = ["small", "large"]\npromote = "auto"\nramp = "off"\nfinal_after_s = 0\n'
    'rules = [{ when = "text_length >= 0", use = "small" }]\n'
)
BETTER = {"small": 0.2, "large": 0.8}
ALIKE = {"small": 0.5, "large": 0.5}


def serve(folder: Path, count: int, seed: int, chances: dict[str, float]) -> None:
    """Decisions without any context, each a success with the chance of its action."""
    rng = np.random.default_rng(seed)
    with headway.open(folder, environ={}, seed=seed) as project:
        names = [ids.decision(1.75e9 + number, rng.bytes(8)) for number in range(count)]
        picks = project.submit([project.consider("route", "", id=name) for name in names]).result()
        rows = []
        for pick in picks:
            rows += project.checked_signals(pick.id, {"reward": float(rng.random() < chances[pick.action])})
        project.submit_signals(rows).result()


def cycle_of(watch: Watch) -> CycleResult:
    (check_,) = watch.check()
    assert check_.done is not None, str(check_)
    return check_.done


def candidates(project: Project) -> list[str]:
    return [entry.policy for entry in project.ledger.entries("route", "candidate")]


# -- the rules, on records


def standing(**changes: object) -> Standing:
    """A candidate under test, with data that has grown by half since it was learned."""
    waits = verdict(replace(EVIDENCE, statistic=90.0))
    whole = {
        "task": "route",
        "current": CurrentPolicy(ref="uniform@0", digest="u", expects=""),
        "candidate": CandidatePolicy(task="route", ref="bandit@1", digest="1"),
        "admission": Admission(state="refused", verdict=waits, fresh=True),
        "tested": True,
        "settled": 1_500,
        "since": 500,
        "retrain_after": 50,
        "most": 25_000,
    }
    return Standing(**{**whole, **changes})  # type: ignore[arg-type]


def judged(**changes: object) -> dict[str, Admission]:
    return {"admission": Admission(state="refused", verdict=verdict(replace(EVIDENCE, **changes)), fresh=True)}


SHADOW = Entry(task="route", kind="shadow", policy="bandit@2", policy_hash="2")
NO_DIFFERENCE = judged(statistic=90.0, prospect=Prospect(likely=0.0, needed=None, most=25_000))
WORSE = judged(statistic=-160.0, statistic_worse=160.0)


def test_a_candidate_under_test_is_held_and_the_next_one_is_learned_as_a_shadow() -> None:
    held = standing()
    assert (held.under_test, held.learns, held.turn) == (True, True, False)
    assert not standing(since=499).learns, "the data has not grown by half yet"
    assert not standing(shadow=SHADOW).turn


@pytest.mark.parametrize("ended", [NO_DIFFERENCE, WORSE], ids=["no difference", "worse"])
def test_the_end_of_a_test_frees_the_place(ended: dict[str, Admission]) -> None:
    over = standing(**ended, since=140)
    assert (over.decided, over.under_test, over.learns) == (True, False, True)
    assert not standing(**ended, since=130).learns, "the rows have not grown by a tenth: a new test would say the same"
    waiting = standing(**ended, shadow=SHADOW)
    assert (waiting.turn, waiting.learns) == (True, False), "the newest shadow is next: nothing is learned again"
    assert due(waiting, Marks()).turn


def test_a_proven_candidate_is_promoted_before_the_shadow_has_its_turn() -> None:
    proven = {"admission": Admission(state="admitted", verdict=verdict(EVIDENCE), fresh=True), "shadow": SHADOW}
    assert not standing(**proven, promote="auto").turn
    assert not standing(**proven, promote="ask").turn, "it waits for a person"
    assert standing(candidate=None, admission=None, shadow=SHADOW).turn, "after the promotion"


def test_a_look_that_a_data_check_refuses_ends_a_test_only_when_its_time_is_over() -> None:
    blocked = (check("ess", ok=False),)
    assert standing(**judged(diagnostics=blocked)).under_test
    assert not standing(**judged(diagnostics=blocked, n=25_000)).under_test


def test_a_candidate_that_is_not_tested_yet_is_replaced_by_the_next_learning() -> None:
    early = standing(tested=False, admission=Admission(state="unproven"), settled=550, since=50)
    assert (early.under_test, early.learns) == (False, True)


def test_looks_come_more_often_than_guards_and_not_after_the_end() -> None:
    marks = Marks()
    asked = standing(since=10)
    assert due(asked, marks).prove
    marks.proved["1 u"] = 1_500
    rows = EVIDENCE.n // 20
    assert not due(replace(asked, settled=1_500 + rows - 1), marks).prove
    assert due(replace(asked, settled=1_500 + rows), marks).prove
    assert not due(standing(**NO_DIFFERENCE, since=10), Marks()).prove


def test_a_candidate_whose_decisions_wait_is_looked_at_when_few_of_their_outcomes_are_in() -> None:
    waiting = Waiting(decisions=8_000, open=12, counting=5_000, until=2e9)
    asked = standing(**judged(statistic=90.0, waiting=waiting), since=10)
    marks = Marks(proved={"1 u": 1_500})
    assert not due(replace(asked, settled=1_502), marks).prove
    assert due(replace(asked, settled=1_503), marks).prove


@pytest.mark.kits("reply")
def test_a_candidate_that_writes_replies_is_looked_at_after_every_vote() -> None:
    asked = standing(kind=catalogue().kind("reply"), since=10, votes=4)
    marks = Marks(proved={"1 u": 4})
    assert not due(asked, marks).prove
    assert not due(replace(asked, settled=9_999), marks).prove, "ratings of single replies compare nothing"
    assert due(replace(asked, votes=5), marks).prove


# -- through the loop


def start_test(folder: Path, watch: Watch) -> str:
    """The candidate, which looks better only by chance: it is tested when waiting no longer helps."""
    serve(folder, 600, 3, ALIKE)
    first = cycle_of(watch)
    assert first.notes == [f"not tested: {first.learned} does not clearly look better yet"]
    serve(folder, 50, 13, ALIKE)
    started = cycle_of(watch)
    assert started.proved == first.learned
    assert started.verdict is not None
    assert started.verdict.state == "wait"
    assert kinds(watch.project) == ["candidate", "test"]
    assert watch.project.standing("route").under_test
    return first.learned


def test_equal_policies_end_without_a_difference_and_the_shadow_is_next(
    tmp_path: Path, watching: Callable[..., Watch]
) -> None:
    watch = watching(EQUAL)
    first = start_test(tmp_path, watch)
    serve(tmp_path, 900, 4, ALIKE)
    second = cycle_of(watch)
    assert second.proved == first, "held"
    assert second.learned
    assert second.learned != first
    assert second.verdict is not None
    assert second.verdict.state == "no difference"
    assert f"No difference between {first} and uniform@0: at most" in second.summary
    assert kinds(watch.project) == ["candidate", "test", "shadow"]
    third = cycle_of(watch)
    assert f"{second.learned} is the candidate now" in third.summary
    assert not third.learned, "the shadow was learned already"
    assert candidates(watch.project) == [first, second.learned]
    assert watch.project.ledger.heads("route").shadow is None


def test_a_person_who_learns_replaces_the_candidate_under_test(tmp_path: Path, watching: Callable[..., Watch]) -> None:
    watch = watching(EQUAL)
    held = start_test(tmp_path, watch)
    serve(tmp_path, 60, 5, ALIKE)
    said = command("-C", tmp_path, "learn", "route")
    assert f"It replaces {held}, which was under test" in said.out
    assert candidates(watch.project)[0] == held
    assert len(candidates(watch.project)) == 2
    assert not watch.project.standing("route").under_test


def test_identical_choices_are_not_tested_and_spend_nothing(tmp_path: Path, watching: Callable[..., Watch]) -> None:
    watch = watching(RULES)
    serve(tmp_path, 400, 6, {"small": 0.9, "large": 0.1})
    done = cycle_of(watch)
    assert f"Not tested: {done.learned} makes the same choices as rules@0" in done.summary
    assert kinds(watch.project) == ["candidate"]
    assert watch.project.prove(task="route").state == "refused"
    assert kinds(watch.project) == ["candidate"], "a person's look is free too"


def experiments(project: Project) -> Iterable[Entry]:
    return project.ledger.entries("route", "experiment")


def test_the_loop_opens_an_experiment_and_its_verdict_ends_it(tmp_path: Path, watching: Callable[..., Watch]) -> None:
    watch = watching(RULES)
    serve(tmp_path, 400, 6, BETTER)
    opened = cycle_of(watch)
    (start,) = experiments(watch.project)
    assert start.share > 0
    assert start.who == "loop"
    assert opened.experiment == f"{opened.learned} decides on {start.share:.0%} of the traffic until its test ends"
    assert opened.verdict is None, "no outcome of the experiment is there yet"
    watch.__exit__(None, None, None)

    again = watching()
    assert again.project.ledger.heads("route").experiment == start, "a restart goes on with the same registration"
    serve(tmp_path, 300, 7, BETTER)
    done = cycle_of(again)
    assert done.verdict is not None
    assert done.verdict.evidence is not None
    assert done.verdict.evidence.n == 300, "only decisions of the experiment count"
    assert done.promoted == opened.learned
    assert again.project.ledger.heads("route").experiment is None
    (test,) = again.project.ledger.entries("route", "test")
    assert test.detail["plan"] == f"experiment {start.detail['from_decision']}"


def test_with_ask_the_experiment_is_offered_and_nothing_unproven_acts(
    tmp_path: Path, watching: Callable[..., Watch]
) -> None:
    watch = watching(RULES.replace('"auto"', '"ask"'))
    serve(tmp_path, 400, 6, BETTER)
    done = cycle_of(watch)
    assert done.next is not None
    assert (done.next.verb, done.next.command) == ("experiment", "headway experiment start route")
    assert "waiting for you: headway experiment start route" in done.summary.lower()
    assert kinds(watch.project) == ["candidate"], "nothing acts, and no test is spent"
    pick = watch.project.decide("route", "")
    assert pick.exploration == "epsilon, floor 0.02"
    watch.project.signal(pick.id, reward=1.0)  # else a proof may wait for its outcome
    status = watch.project.status().task("route")
    assert status is not None
    assert status.next == done.next
    cost = watch.project.verdict_cost("route")
    for said in (f"{cost.share:.0%} of the traffic", "Without one, a proof", "Expected loss"):
        assert said in done.next.why
    entry = watch.project.start_experiment("route")
    assert (entry.policy, entry.share) == (done.learned, cost.share)
    serve(tmp_path, 300, 7, BETTER)
    assert cycle_of(watch).waits, "the loop ends it, and the promotion waits for a person"
    assert watch.project.next_step("route").verb == "promote"


def test_with_ask_the_experiment_ends_and_the_candidate_waits(tmp_path: Path, watching: Callable[..., Watch]) -> None:
    watch = watching(RULES.replace('"auto"', '"ask"') + 'experiment = "auto"\n')
    serve(tmp_path, 400, 6, BETTER)
    cycle_of(watch)
    serve(tmp_path, 300, 7, BETTER)
    done = cycle_of(watch)
    assert done.waits
    assert [entry.detail.get("ended") for entry in experiments(watch.project)] == [None, "better"]
    assert watch.project.promote(task="route").policy == done.proved


def test_experiments_can_be_switched_off(tmp_path: Path, watching: Callable[..., Watch]) -> None:
    watch = watching(RULES + 'experiment = "off"\n')
    serve(tmp_path, 400, 6, BETTER)
    cycle_of(watch)
    assert not list(experiments(watch.project))
