"""What `prove` checks in the decisions of a project, through the public interface."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from headway.nouns import ids
from headway.nouns.evidence import Diagnostic, Verdict
from headway.project import Project
from tests.project.conftest import play
from tests.project.imports import lines

ACTIONS = ["a", "b", "c"]
TOML = '[tasks.ask]\nactions = ["a", "b", "c"]\nrange = [0.0, 1.0]\nfallback = "a"\n\n[tasks.ask.reward]\nscore = 1.0\n'
NOW = 1.75e9
SHARE = 0.3  # of exploration that every client below claims
OFTEN = [1.0 - SHARE + SHARE / 3, SHARE / 3, SHARE / 3]
pytestmark = pytest.mark.engines(slow="postgresql", why="the checks are about rows, not about engines")


def named(verdict: Verdict, name: str) -> Diagnostic:
    assert verdict.evidence is not None
    return next(check for check in verdict.evidence.diagnostics if check.name == name)


def unchecked(verdict: Verdict) -> str:
    assert verdict.evidence is not None
    return "; ".join(verdict.evidence.unchecked)


def client(
    project: Project,
    n: int,
    choose: Callable[[random.Random, int, float], str],
    *,
    score: Callable[[str], float] = lambda action: 0.5,
    at: Callable[[int], float] = lambda row: 1.7e9 + row,
    seed: int = 1,
    request: int | None = None,
) -> None:
    """Import decisions that a client made by itself; it claims to explore with probability SHARE."""
    rng = random.Random(seed)
    rows = []
    for row in range(n):
        user, x = rng.randrange(100), rng.random()
        action = choose(rng, user, x)
        rows.append(
            {
                "id": ids.decision(at(row)),
                "task": "ask",
                "at": at(row),
                "state": {"user": f"u{user}", "x": x} | ({} if request is None else {"request": request + row}),
                "candidates": ACTIONS,
                "probabilities": OFTEN,
                "action": action,
                "signals": [{"name": "score", "value": score(action), "at": min(at(row), NOW) + 1.0}],
            }
        )
    path = lines(project.folder / f"log{len(list(project.folder.glob('log*')))}.jsonl", rows)
    assert project.import_file(path, format="headway").stored == n


def record(project: Project, n: int, choose: Callable[[random.Random, int, float], str]) -> None:
    """Decisions of a client that sends the probability of its choice alone."""
    rng = random.Random(1)
    for _ in range(n):
        user, x = rng.randrange(100), rng.random()
        action = choose(rng, user, x)
        claimed = OFTEN[ACTIONS.index(action)]
        made = project.record("ask", "", ACTIONS, state={"user": f"u{user}", "x": x}, action=action, propensity=claimed)
        project.signal(made.id, score=0.5)


def honest(rng: random.Random, user: int, x: float) -> str:
    del user, x
    return rng.choices(ACTIONS, OFTEN)[0]


def by_user(rng: random.Random, user: int, x: float) -> str:
    del rng, x
    return random.Random(user).choices(ACTIONS, OFTEN)[0]


def by_context(rng: random.Random, user: int, x: float) -> str:
    del user
    explores = SHARE * 2.0 * (x > 0.5)
    return rng.choice(ACTIONS) if rng.random() < explores else "a"


def greedy(rng: random.Random, user: int, x: float) -> str:
    del rng, user, x
    return "a"


def other_order(rng: random.Random, user: int, x: float) -> str:
    del user, x
    return rng.choices(ACTIONS, OFTEN[::-1])[0]


@pytest.fixture
def asked(opened: Callable[..., Project]) -> Project:
    return opened(TOML)


@pytest.mark.parametrize(
    ("choose", "check"),
    [(by_user, "repetition"), (by_context, "calibration"), (greedy, "calibration"), (other_order, "calibration")],
)
def test_a_client_with_wrong_probabilities_proves_nothing(asked, choose, check):
    client(asked, 800, choose)
    verdict = asked.prove("fixed@0", against="uniform@0", task="ask")
    assert verdict.state == "refused"
    assert not named(verdict, check).ok


def test_an_honest_client_passes_the_checks_and_what_it_alone_knows_is_named(asked):
    client(asked, 800, honest)
    verdict = asked.prove("fixed@0", against="uniform@0", task="ask")
    for name in ("calibration", "repetition", "clock", "clipping", "duplicates", "future"):
        assert named(verdict, name).ok, named(verdict, name)
    assert "800 decisions made elsewhere could not be replayed" in unchecked(verdict)


@pytest.mark.parametrize(("step_s", "words"), [(72.0, "the decisions span 16 h: days of the week"), (864.0, "")])
def test_a_log_of_less_than_a_week_says_which_days_it_has_not_seen(asked, step_s, words):
    client(asked, 801, honest, at=lambda row: 1.7e9 + step_s * row)
    said = unchecked(asked.prove("fixed@0", against="uniform@0", task="ask"))
    assert words in said
    assert bool(words) == ("the decisions span" in said)


def test_a_client_that_sends_only_the_probability_of_its_choice_is_not_accused(asked):
    record(asked, 400, honest)
    verdict = asked.prove("fixed@0", against="uniform@0", task="ask")
    assert named(verdict, "calibration").ok
    assert "with the chosen action's probability alone" in unchecked(verdict)


def test_a_greedy_client_is_found_by_the_probability_of_its_choice_alone(asked):
    record(asked, 400, greedy)
    assert not named(asked.prove("fixed@0", against="uniform@0", task="ask"), "calibration").ok


def test_our_own_decisions_are_asked_again(project):
    play(project, n=300)
    verdict = project.prove(project.learn("route"))
    assert named(verdict, "replay").ok
    assert "asked again" in named(verdict, "replay").message
    assert named(verdict, "drift").ok
    assert unchecked(verdict).startswith("the decisions span ")
    assert ";" not in unchecked(verdict)


def test_a_store_that_was_changed_by_hand_is_found_by_asking_again(project):
    play(project, n=300)
    policy = project.learn("route")
    import struct

    with project.database.transaction() as connection:
        connection.execute("UPDATE decisions SET probabilities = ?", (struct.pack("<2d", 0.52, 0.48),))
    verdict = project.prove(policy)
    assert not named(verdict, "replay").ok
    assert verdict.state == "refused"


def test_decisions_of_a_policy_that_is_gone_are_named(project):
    play(project, n=150)
    policy = project.learn("route", seed=1)
    project.canary(policy, share=0.5)
    play(project, n=150, seed=8)
    other = project.learn("route", seed=2)
    digest = project.registry.find(policy)
    project.canary(other, share=0.1)
    project.registry.remove(digest)
    verdict = project.prove(other)
    assert "cannot be asked again" in unchecked(verdict)


def test_rewards_that_the_range_cuts_are_refused_with_a_range_that_fits(asked):
    client(asked, 800, honest, score=lambda action: {"a": 1.0, "b": 0.0, "c": 2.7}[action])
    verdict = asked.prove("fixed@0", against="uniform@0", task="ask")
    check = named(verdict, "clipping")
    assert verdict.state == "refused"
    assert any(reason.startswith("Cannot tell: ") for reason in verdict.reasons)
    assert "most of them after 'c'" in check.message
    assert "range = [0, 2.7]" in check.cure


@pytest.mark.parametrize("numbers", [(None, None), (0, 400)])
def test_copies_under_other_ids_count_once(asked, numbers):
    """Also if a retry has a request number of its own in its state."""
    for request in numbers:
        client(asked, 400, honest, request=request)
    verdict = asked.prove("fixed@0", against="uniform@0", task="ask")
    assert verdict.evidence is not None
    assert verdict.evidence.counts["repeated, counted once"] == 400
    assert verdict.evidence.n == 400
    assert not named(verdict, "duplicates").ok


def test_decisions_of_one_day_are_not_taken_for_copies(asked):
    """Few different situations, and only the day is known."""
    client(asked, 600, honest, at=lambda row: 1.7e9 + 86_400.0 * (row // 100))
    verdict = asked.prove("fixed@0", against="uniform@0", task="ask")
    assert verdict.evidence is not None
    assert verdict.evidence.n == 600
    assert named(verdict, "duplicates").ok


def test_decisions_in_the_future_and_outcomes_before_their_decision_are_refused(asked):
    client(asked, 300, honest, at=lambda row: 4e9 + row)
    verdict = asked.prove("fixed@0", against="uniform@0", task="ask")
    assert not named(verdict, "future").ok
    assert not named(verdict, "clock").ok, "their signals came before"


def test_the_page_names_what_was_not_checked(asked):
    client(asked, 300, honest)
    verdict = asked.prove("fixed@0", against="uniform@0", task="ask")
    assert verdict.evidence is not None
    page = asked.report(verdict.evidence.id).page
    assert "Not checked: 300 decisions made elsewhere could not be replayed" in page.method
    assert not replace(verdict.evidence, unchecked=()).unchecked


def paid(project: Project, pays: dict[str, float], once: tuple[str, float] | None = None) -> None:
    """Decisions that can be evidence; `once`: the reward of one that cannot, because its probability is unknown."""
    client(project, 800, honest, score=pays.__getitem__)
    if once is not None:
        action, score = once
        row = {"id": ids.decision(1.69e9), "task": "ask", "at": 1.69e9, "text": "old", "candidates": ACTIONS}
        row |= {"action": action, "signals": [{"name": "score", "value": score, "at": 1.69e9 + 1.0}]}
        assert project.import_file(lines(project.folder / "old.jsonl", [row]), format="headway").stored == 1


GOOD, BAD = {"a": 0.9, "b": 0.2, "c": 0.2}, {"a": 0.2, "b": 0.9, "c": 0.9}


@pytest.mark.parametrize(("pays", "state"), [(GOOD, "pass"), (BAD, "worse")])
def test_a_log_without_cut_rewards_decides(asked, pays, state):
    paid(asked, pays)
    assert asked.prove("fixed@0", against="uniform@0", task="ask").state == state


@pytest.mark.parametrize(
    ("pays", "once", "state"),
    [
        (GOOD, ("a", -99.0), "refused"),
        (GOOD, ("b", 99.0), "refused"),
        (GOOD, ("a", 99.0), "pass"),
        (BAD, ("a", 99.0), "refused"),
        (BAD, ("b", -99.0), "refused"),
        (BAD, ("a", -99.0), "worse"),
        (BAD, ("a", 1.01), "worse"),
    ],
)
def test_a_verdict_that_a_cut_elsewhere_could_reverse_is_refused(asked, pays, once, state):
    """`fixed@0` always takes `a`, so it gains by what `a` earns and by what `b` costs beyond the range."""
    paid(asked, pays, once)
    verdict = asked.prove("fixed@0", against="uniform@0", task="ask")
    assert verdict.state == state, verdict.reasons
    if state == "refused":
        (said,) = verdict.reasons
        assert said.startswith("Cannot tell: rewards outside of the range in decisions that are no evidence: 1;")
        assert f"range = {[min(0, int(once[1])), max(1, int(once[1]))]}" in verdict.hint
