"""One error budget: which looks are charged, and which share of it the next one gets."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

import headway
from headway.nouns import Settled
from headway.observe import newest_trained, part_of
from headway.observe.draws import known
from headway.project import Project
from headway.project.prove import screen
from headway.project.prove.terms import present_terms
from headway.promote import Terms
from tests.project.conftest import play

TASK = '[tasks.route]\nactions = ["small", "large"]\nfallback = "small"\nseed = 3\n'


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("played") / "project"
    folder.mkdir()
    (folder / "headway.toml").write_text(TASK)
    with headway.open(folder, environ={}, seed=3) as project:
        play(project, 1200)
        project.learn("route")
    return folder


@pytest.fixture
def project(played: Path, tmp_path: Path):
    folder = Path(shutil.copytree(played, tmp_path / "project"))
    with headway.open(folder, environ={}, seed=3) as opened:
        yield opened


def share(project: Project, policy: str | None = None, **more: object) -> tuple[int, str]:
    """Which test this look is, and the row that charged it."""
    evidence = project.prove(policy, task="route", **more).evidence
    assert evidence is not None
    return evidence.challenger, evidence.test


def count_charged(project: Project) -> int:
    return len(project.ledger.entries("route", "test"))


def test_a_test_is_charged_once_however_often_it_is_looked_at(project: Project) -> None:
    first = share(project)
    assert first[0] == 1
    assert first[1]
    play(project, 60, seed=9)
    assert share(project) == first
    assert count_charged(project) == 1


def test_another_candidate_and_a_built_in_policy_are_further_tests(project: Project) -> None:
    assert share(project)[0] == 1
    assert share(project, "fixed@0")[0] == 2
    project.learn("route", seed=5, model="clusters")
    assert share(project)[0] == 3
    assert share(project, "fixed@0")[0] == 2, "a test keeps its share"


@pytest.mark.slow
def test_every_registration_is_a_further_test(project: Project) -> None:
    assert share(project)[0] == 1
    for k in (2, 3):
        project.plan("route", uplift=0.1, register=True)
        play(project, 260, seed=20 + k)
        assert share(project)[0] == k


def test_a_promotion_that_stands_adds_to_the_shares_and_a_rollback_takes_that_back(project: Project) -> None:
    assert share(project)[0] == 1
    assert share(project, "fixed@0")[0] == 2
    policy = project.promote(task="route", at_once=True).policy
    assert project.ledger.promotions("route") == 1
    third = project.prove("fixed@0", task="route").evidence
    assert third is not None
    assert (third.challenger, third.promotions) == (3, 1), "tests are counted over the whole life of the task"
    assert third.alpha == pytest.approx(2 * 0.04 / (2 * 3 * 4))
    project.rollback("route")
    assert project.ledger.promotions("route") == 0
    again = project.prove(policy, task="route").evidence
    assert again is not None
    assert (again.challenger, again.promotions) == (4, 0), "a proof after a rollback is a further test"
    assert again.alpha == pytest.approx(0.04 / (2 * 4 * 5))


def test_promoting_a_policy_again_counts_it_once(project: Project) -> None:
    project.prove(task="route")
    policy = project.promote(task="route", at_once=True).policy
    project.rollback("route")
    play(project, 900, seed=33)
    project.prove(policy, task="route")
    project.promote(policy, task="route", at_once=True)
    assert project.ledger.promotions("route") == 1
    assert count_charged(project) == 2


def test_a_refused_look_is_free(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(TASK)
    with headway.open(tmp_path, environ={}, seed=3) as project:
        play(project, 120)
        project.learn("route")
        verdict = project.prove(task="route")
        assert verdict.state == "refused"
        assert verdict.evidence is not None
        assert (verdict.evidence.challenger, verdict.evidence.test) == (1, "")
        assert count_charged(project) == 0


def test_junk_is_refused_and_spends_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    worse = screen.Look(rows=600, moved=0.5, difference=-0.01, error=0.02)
    monkeypatch.setattr(screen, "look_at", lambda *_: worse)
    verdict = project.prove(task="route")
    assert verdict.state == "refused"
    assert "is no better even on its training data" in verdict.reasons[0]
    assert count_charged(project) == 0
    assert share(project, "fixed@0")[0] == 1, "a built-in policy has no training rows to be screened on"


def test_the_first_look_is_remembered_until_something_that_it_rests_on_changes(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    look_at = screen.look_at
    monkeypatch.setattr(screen, "look_at", lambda rows, *who: reads.append(len(rows)) or look_at(rows, *who))
    settings, uniform = project.settings.task("route"), project.current("route")
    newest = project.ledger.last("route", "candidate")
    assert newest is not None
    terms = present_terms(project, settings, (newest.policy, newest.policy_hash), (uniform.ref, uniform.digest))
    first = screen.first_look(project, settings, terms)
    play(project, 60, seed=9)
    assert screen.first_look(project, settings, terms) is first, "later outcomes are not its training rows"
    header, frame = project.registry.header(newest.policy_hash), project.query.frame("route")
    parts, upto = header.trained_on["parts"], header.trained_on["upto"]
    rows = newest_trained(frame, parts, header.split["by"], upto=upto, from_decision=0, most=10)
    project.signal(project.query.by_seq(int(rows.seq[0])).id, reward=1.0 - float(rows.reward[0]))
    project.settle("route")
    again = screen.first_look(project, settings, terms)
    assert again is not None
    assert again.difference != first.difference
    other = present_terms(project, settings, (newest.policy, newest.policy_hash), project_policy(project, "fixed@0"))
    assert screen.first_look(project, settings, other) != again
    assert len(reads) == 3


def project_policy(project: Project, ref: str) -> tuple[str, str]:
    return project.servings.resolve(project.settings.task("route"), ref)


def test_the_screen_knows_better_from_worse_on_training_rows(project: Project) -> None:
    settings, uniform = project.settings.task("route"), project.current("route")
    newest = project.ledger.last("route", "candidate")
    assert newest is not None
    better = present_terms(project, settings, (newest.policy, newest.policy_hash), (uniform.ref, uniform.digest))
    assert screen.screen(project, settings, better) is None
    same = present_terms(project, settings, *[(newest.policy, newest.policy_hash)] * 2)
    equal = screen.screen(project, settings, same)
    assert equal is not None
    assert (equal.ok, equal.blocks, equal.value) == (False, True, 0.0)
    assert equal.message.startswith(f"makes the same choices as {newest.policy} on its training data")
    header, frame = project.registry.header(newest.policy_hash), project.query.frame("route")
    other_way = replace(
        better,
        candidate=better.against,
        candidate_hash=better.against_hash,
        against=better.candidate,
        against_hash=better.candidate_hash,
    )
    looks = [screen._look(project, settings, terms, header, frame) for terms in (better, other_way)]
    assert looks[0] is not None
    assert looks[0].difference > 0.05
    assert looks[1] is not None
    assert looks[1].difference < -0.05
    records = [
        row for row in project.query.outcomes(known(frame)) if part_of(row.decision) in header.trained_on["parts"]
    ]
    assert 0 < looks[0].rows <= len(records)
    drawn = [one for one in records if one.seq <= header.trained_on["upto"] and one.reward is not None][-5000:]
    assert looks[0].rows == len(drawn)
    assert looks[0].difference == pytest.approx(slow_look(project, drawn, better), abs=1e-12)


def slow_look(project: Project, rows: list[Settled], terms: Terms) -> float:
    """The same from records, one by one."""
    pipelines = [
        project.servings.pipeline("route", terms.config, *who)
        for who in ((terms.candidate, terms.candidate_hash), (terms.against, terms.against_hash))
    ]
    given: dict[str, list[float]] = {}
    for row in rows:
        given.setdefault(row.decision.action, []).append(row.reward or 0.0)
    means = {action: fmean(rewards) for action, rewards in given.items()}
    scores = []
    for row in rows:
        decision, names = row.decision, [candidate.name for candidate in row.decision.candidates]
        asked = [decision.situation], [decision.candidates], [decision.seed]
        ours, theirs = (one.distributions(*asked)[0] for one in pipelines)
        taken = names.index(decision.action)
        model = [means[name] for name in names]
        score = sum((a - b) * m for a, b, m in zip(ours, theirs, model, strict=True))
        weight = (ours[taken] - theirs[taken]) / decision.propensity
        scores.append(score + weight * ((row.reward or 0.0) - model[taken]))
    return fmean(scores)


def test_an_automatic_rollback_is_not_charged(project: Project) -> None:
    project.prove(task="route")
    project.promote(task="route", at_once=True)
    charged = count_charged(project)
    play(project, 260, seed=31)
    project.guard("route", who="test")
    assert count_charged(project) == charged
    evidence = project.verdict(project.ledger.latest_evidence("route", project.current("route").digest) or "").evidence
    assert evidence is not None
    assert (evidence.challenger, evidence.test, evidence.against) == (1, "", "uniform@0")


def test_a_test_shows_in_the_ledger_and_leaves_who_is_current_alone(project: Project) -> None:
    before = project.ledger.heads("route")
    project.prove(task="route")
    after = project.ledger.heads("route")
    assert (after.current, after.candidate, after.canary, after.plan) == (
        before.current, before.candidate, before.canary, before.plan,
    )  # fmt: skip
    entry = project.ledger.entries("route", "test")[0]
    assert entry.detail["k"] == 1
    assert entry.evidence_id == project.ledger.latest_evidence("route")
    assert project.ledger.state("route", entry.policy_hash) == "candidate"
