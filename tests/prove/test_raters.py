"""Who gave the rewards: one key may not decide a verdict, however it goes about it; honest raters may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from headway.kits.offline.packed import packed, unpacked
from headway.nouns.evidence import Evidence, RaterShare
from headway.promote.gate import GateRules, resting_on, verdict
from headway.prove.about import About
from headway.prove.evidence import from_log
from headway.prove.log import Log
from headway.prove.proof import LogProof
from tests.prove.logs import small_log

ABOUT = About(task="route", candidate="bandit@4f2a", against="rules@0")
N = 4_000
ROWS = np.arange(N)


def rated(log: Log, raters: NDArray[np.str_]) -> Log:
    """Each row has one rater."""
    names = sorted(set(raters.tolist()))
    return replace(
        log,
        raters={name: raters == name for name in names},
        without={name: np.where(raters == name, np.nan, log.reward) for name in names if name},
    )


def useless(reward: NDArray[np.float64]) -> Log:
    """Policies that differ, in a world in which it makes no difference."""
    log = small_log(N, 5, target=(0.1, 0.1, 0.8), baseline=(0.1, 0.8, 0.1))
    return replace(log, reward=reward)


def coin(seed: int = 0) -> NDArray[np.float64]:
    return (np.random.default_rng(seed).random(N) < 0.5).astype(float)


def by_name(evidence: Evidence) -> dict[str, RaterShare]:
    return {rater.name: rater for rater in evidence.raters}


def test_without_keys_there_is_no_rater_check() -> None:
    plain = from_log([small_log(N, 18)], ABOUT)
    here = from_log([rated(small_log(N, 18), np.full(N, ""))], ABOUT)
    assert verdict(here).passed
    assert here.deciding() == ()
    assert (here.statistic, here.threshold, here.data_hash) == (plain.statistic, plain.threshold, plain.data_hash)
    assert by_name(here)[""].share == 1.0


@pytest.mark.parametrize("name", ["owner", "page", "proxy:", "world:escalation"])
def test_the_project_itself_never_blocks(name: str) -> None:
    assert verdict(from_log([rated(small_log(N, 18), np.full(N, name))], ABOUT)).passed


def test_a_key_that_rated_everything_is_refused_until_it_is_trusted() -> None:
    evidence = from_log([rated(small_log(N, 18), np.full(N, "judge"))], ABOUT)
    refused = verdict(evidence)
    assert refused.state == "refused"
    assert refused.reasons == ("one_key: the key 'judge' rated 100% of 4,000 decisions, and no other key rated any.",)
    assert "headway promote route --trust-key judge" in refused.hint
    assert 'trust_keys = ["judge"]' in refused.hint
    passed = verdict(evidence, GateRules(trusted=frozenset({"judge"})))
    assert passed.passed
    assert passed.reasons[1] == "It depends on the key 'judge', which you trust."
    assert resting_on(passed, ["judge"]) == ("judge",)
    assert not verdict(evidence, GateRules(trusted=frozenset({"somebody else"}))).passed


def test_trust_given_at_proof_time_stays_with_the_evidence() -> None:
    log = rated(small_log(N, 18), np.full(N, "judge"))
    trusting = from_log([log], replace(ABOUT, trusted=("judge",)))
    assert verdict(trusting).passed
    assert trusting.trusted == ("judge",)
    assert trusting.id != from_log([log], ABOUT).id


@pytest.mark.parametrize("count", [2, 3, 40, 90])
def test_several_honest_raters_pass(count: int) -> None:
    names = np.array([f"rater-{number}" for number in range(count)])
    evidence = from_log([rated(small_log(N, 18), names[ROWS % count])], ABOUT)
    assert verdict(evidence).passed, verdict(evidence).reasons
    assert sum(rater.share for rater in evidence.raters) == pytest.approx(1.0)
    assert len(evidence.raters) == count
    assert evidence.raters[0].uplift == pytest.approx(1 / count, abs=0.5 / count + 0.03)


FAVOURS: dict[str, Callable[[Log], NDArray[np.bool_]]] = {
    "a few of its favourite's rows": lambda log: (log.action == 2) & (np.random.default_rng(1).random(N) < 0.1),
    "all of its favourite's rows": lambda log: log.action == 2,
    "the rival's rows too": lambda log: log.action != 0,
    "some of everything": lambda log: np.random.default_rng(2).random(N) < 0.2,
}


@pytest.mark.parametrize("others", ["nobody", "two"])
@pytest.mark.parametrize("how", FAVOURS)
def test_a_key_that_pays_its_favourite_is_refused_by_name(how: str, others: str) -> None:
    """Taking its rows out of the sum is not enough: where it alone rates the favourite, its lies are in the model."""
    log = useless(coin())
    hostile = FAVOURS[how](log)
    paid = replace(log, reward=np.where(hostile, (log.action == 2).astype(float), coin()))
    honest = np.full(N, "") if others == "nobody" else np.where(ROWS % 2, "ann", "bob")
    evidence = from_log([rated(paid, np.where(hostile, "agent", honest))], ABOUT)
    assert evidence.statistic > evidence.threshold, "the tampering works"
    refused = verdict(evidence)
    assert refused.state == "refused"
    assert "'agent'" in refused.reasons[0]
    assert evidence.deciding() == ("agent",)
    assert (by_name(evidence)["agent"].uplift or 0.0) > 0.6
    assert verdict(evidence, GateRules(trusted=frozenset({"agent"}))).passed


def test_subtracting_a_raters_rows_would_not_detect_it() -> None:
    """Why the test is run again: without the scores of its rows, three quarters of the lie are still there."""
    log = useless(coin())
    hostile = log.action == 2
    names = np.where(hostile, "agent", "")
    paid = rated(replace(log, reward=np.where(hostile, 1.0, coin()), keys=names), names)
    evidence = from_log([paid], ABOUT)
    assert next(diagnostic for diagnostic in evidence.diagnostics if diagnostic.name == "one_client").ok
    proof = LogProof()
    proof.update(paid)
    assert proof.raters[""].total > 0.7 * evidence.statistic > evidence.threshold
    assert by_name(evidence)["agent"].statistic < 0.1 * evidence.statistic


def test_a_rater_among_others_is_removed_from_the_mean() -> None:
    """Everybody rates every row; the agent's half of each mean makes the difference."""
    log = useless(coin())
    honest, lie = coin(), (log.action == 2).astype(float)
    both = replace(
        log,
        reward=(honest + lie) / 2,
        raters={"agent": np.ones(N, dtype=bool), "ann": np.ones(N, dtype=bool)},
        without={"agent": honest, "ann": lie},
    )
    evidence = from_log([both], ABOUT)
    assert evidence.statistic > evidence.threshold
    assert evidence.deciding() == ("agent",)
    assert by_name(evidence)["ann"].others == N, "her rows are rated without her, too"


def test_a_panel_that_agrees_passes() -> None:
    log = small_log(N, 18)
    everybody = {name: np.ones(N, dtype=bool) for name in ("ann", "bob", "cid")}
    evidence = from_log([replace(log, raters=everybody, without=dict.fromkeys(everybody, log.reward))], ABOUT)
    assert verdict(evidence).passed
    assert [rater.share for rater in evidence.raters] == [1.0] * 3
    assert [rater.uplift for rater in evidence.raters] == pytest.approx([0.0] * 3)


def test_the_rows_without_a_key_must_meet_the_gates_floor() -> None:
    evidence = from_log([rated(small_log(N, 18), np.where(ROWS < N - 150, "ann", "bob"))], ABOUT)
    assert evidence.deciding() == ("ann",)
    assert "150 decisions" in verdict(evidence).reasons[0]


def test_a_key_cannot_keep_a_bad_policy() -> None:
    """What is proven worse makes way, whoever said so: rolling back is always allowed."""
    log = small_log(N, 4, target=(0.8, 0.1, 0.1), baseline=(0.1, 0.1, 0.8))
    assert verdict(from_log([rated(log, np.full(N, "judge"))], ABOUT)).state == "worse"


def test_a_verdict_that_waits_is_not_blocked() -> None:
    evidence = from_log([rated(small_log(300, 2), np.full(300, "judge"))], replace(ABOUT, margin=0.25))
    assert verdict(evidence).state == "wait"


@pytest.mark.parametrize("size", [37, 250, 1_999])
def test_the_chunks_do_not_matter(size: int) -> None:
    """A rater that comes late included: the test without it is taken up where it first appears."""
    names = np.where(ROWS < 1_500, "ann", np.where(ROWS % 3 == 0, "late", ""))
    whole = rated(small_log(N, 18), names)
    parts = []
    for start in range(0, N, size):
        part = whole.rows(start, min(N, start + size))
        parts.append(
            replace(
                part,
                raters={name: rater for name, rater in part.raters.items() if rater.any()},
                without={name: reward for name, reward in part.without.items() if part.raters[name].any()},
            )
        )
    one, many = from_log([whole], ABOUT, display=False), from_log(parts, ABOUT, display=False)
    assert one.data_hash == many.data_hash
    for mine, other in zip(one.raters, many.raters, strict=True):
        assert (mine.name, mine.rows, mine.others) == (other.name, other.rows, other.others)
        assert mine.statistic == pytest.approx(other.statistic, rel=1e-9)
        assert mine.threshold == pytest.approx(other.threshold, rel=1e-3)


def test_who_rated_is_part_of_the_data() -> None:
    log = small_log(N, 18)
    first = from_log([rated(log, np.where(ROWS % 2, "ann", "bob"))], ABOUT, display=False)
    second = from_log([rated(log, np.where(ROWS % 3, "ann", "bob"))], ABOUT, display=False)
    assert first.data_hash != second.data_hash


def test_a_stored_log_gives_the_same_evidence() -> None:
    parts = [rated(small_log(N, 18), np.where(ROWS < 2_000, "", "ann")).rows(a, a + 1_000) for a in range(0, N, 1_000)]
    assert from_log(unpacked(*packed(parts)), ABOUT) == from_log(parts, ABOUT)


@pytest.mark.kits("report")
def test_the_page_says_who_gave_the_rewards() -> None:
    from headway.kits.report import pages as report

    shown = verdict(from_log([rated(small_log(N, 18), np.where(ROWS % 4, "ann", ""))], ABOUT))
    for page in (report.text(shown), report.markdown(shown), report.html(shown)):
        assert "Who gave the rewards" in page
        assert "rated 3,000 decisions (75%)" in page
        assert "this machine" in page
    alone = verdict(from_log([rated(small_log(N, 18), np.full(N, ""))], ABOUT))
    assert "Who gave the rewards" not in report.text(alone)
    refused = verdict(from_log([rated(small_log(N, 18), np.full(N, "<b>"))], ABOUT))
    assert "<b>" not in report.html(refused).replace("<p><b>Next:</b>", "")
    assert "NO  <b>" in report.text(refused)
