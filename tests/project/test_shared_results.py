"""Decisions that share one result: a proof by decision cannot tell what each of them did."""

from __future__ import annotations

import random

import pytest

from headway.nouns.evidence import Verdict
from headway.observe.units import shared_results
from headway.project import Project
from tests.project.test_claims import Clock

TOML = """[tasks.ask]
actions = ["a", "b"]
range = [0.0, 1.0]
floor = 0.6
rules = [{ when = "text_length >= 0", use = "a" }]
"""
WORTH = {"a": 0.2, "b": 0.8}
pytestmark = pytest.mark.engines(slow="postgresql", why="the rule is about verdicts, not about engines")


def opened(folder, more: str = "") -> Project:
    (folder / "headway.toml").write_text(TOML + more, "utf-8")
    return Project(folder, environ={}, clock=Clock(), seed=1)


def request(project: Project, rng: random.Random, failing: float) -> None:
    """As the proxy does: an attempt that fails is followed by one among the others, with a link back."""
    state = {"x": rng.random()}
    first = project.decide("ask", "", state=state)
    if rng.random() >= failing:
        project.signal(first.id, reward=float(rng.random() < WORTH[first.action]))
        return
    project.signal(first.id, failed=1.0, rater="proxy:")
    second = project.decide("ask", "", ["a" if first.action == "b" else "b"], state=state)
    project.signal(second.id, attempt=2.0, rater="proxy:", label=first.id)
    project.signal(second.id, reward=float(rng.random() < WORTH[second.action]))


def requests(project: Project, count: int, failing: float) -> Verdict:
    rng = random.Random(3)
    for _ in range(count):
        request(project, rng, failing)
    return project.prove(project.learn("ask"))


def episodes(project: Project, count: int, length: int, *, whole: bool) -> Verdict:
    """Episodes of some decisions; rated as a whole, or each decision by itself."""
    rng = random.Random(4)
    for number in range(count):
        chosen = []
        for _ in range(length):
            made = project.decide("ask", "", state={"x": rng.random()}, episode=f"e{number}")
            chosen.append(made)
            if not whole:
                project.signal(made.id, reward=float(rng.random() < WORTH[made.action]))
        if whole:
            project.signal(project.episode("ask", f"e{number}"), reward=float(rng.random() < WORTH[chosen[-1].action]))
    return project.prove(project.learn("ask"))


def test_the_store_knows_which_decisions_share_a_result(tmp_path):
    with opened(tmp_path) as project:
        rng = random.Random(1)
        for _ in range(20):
            request(project, rng, 0.5)
        whole = [project.decide("ask", "", state={"x": 0.5}, episode="whole").seq for _ in range(3)]
        alone = project.decide("ask", "", state={"x": 0.5}, episode="alone")
        for name in ("whole", "alone"):
            project.signal(project.episode("ask", name), reward=1.0)
        project.decide("ask", "", state={"x": 0.5}, episode="unrated")
        project.decide("ask", "", state={"x": 0.5}, episode="unrated")
        task = project.query.name_id("task", "ask")
        shared = shared_results(project.database, task, [project.query.name_id("signal", "reward")])
        assert shared == set(whole)
        assert alone.seq not in shared
        assert not shared_results(project.database, task, [project.query.name_id("signal", "latency_s")])
        assert shared_results(project.database, task, ()) == set(whole)


def test_a_result_of_a_whole_episode_proves_nothing_about_its_steps(tmp_path):
    with opened(tmp_path) as project:
        verdict = episodes(project, 250, 3, whole=True)
        assert verdict.word == "cannot tell"
        assert verdict.reasons[0].startswith("Cannot tell: several decisions share one result")
        assert "steps of an episode" in verdict.reasons[0]
        assert 'unit = "episode"' in verdict.hint


@pytest.mark.parametrize(("length", "whole"), [(3, False), (1, True)])
def test_episodes_whose_decisions_have_results_of_their_own_are_proven(tmp_path, length, whole):
    with opened(tmp_path) as project:
        assert episodes(project, 900 // length, length, whole=whole).passed


def test_a_sticky_episode_is_one_draw_and_is_proven(tmp_path):
    with opened(tmp_path, "sticky = true\n") as project:
        assert episodes(project, 700, 2, whole=True).passed


def test_requests_are_judged_as_requests_whatever_rescued_them(tmp_path):
    """A first model that fails and is rescued counts with what the user got, and with the first draw's probability."""
    with opened(tmp_path) as project:
        verdict = requests(project, 1200, 0.2)
        assert verdict.passed
        assert verdict.evidence.n <= 1200


def test_requests_that_never_fall_back_are_proven_as_before(tmp_path):
    with opened(tmp_path) as project:
        assert requests(project, 700, 0.0).passed


def test_only_the_proxy_links_decisions(tmp_path):
    """A client that could link the decisions of others could hide them from a proof."""
    with opened(tmp_path) as project:
        rng = random.Random(1)
        for _ in range(10):
            request(project, rng, 0.0)
        seqs = [one.id for one in project.query.decisions("ask")]
        project.signal(seqs[1], attempt=2.0, rater="mallory", label=seqs[0])
        assert not any(one.unit for one in project.query.decisions("ask"))
