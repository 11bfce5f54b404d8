"""The rows of a proof, made from columns, equal those that are made from records one by one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as some

from headway.nouns.errors import InvalidInput
from headway.observe import frame as frames
from headway.observe.draws import draws_of
from headway.observe.erase import DeletionFilter
from headway.project import Project
from headway.project.prove.logged import ProofRows, logged
from headway.project.prove.unread import Unread
from headway.prove.log import CENSORED, DELETED, FAILED, PENDING, REWARDED
from tests.project.test_unread import STEPS, TOML, _do, watched_traffic

_STATUS = {"rewarded": REWARDED, "failed": FAILED, "censored": CENSORED, "pending": PENDING}


def check_against_records(project: Project, ref: str) -> None:
    """The slow reference: which rows speak, and what they say, from records."""
    task = project.settings.task("route")
    candidate, other = project.servings.resolve(task, ref), project.servings.resolve(task, "uniform@0")
    reader = ProofRows(project, task, candidate, other)
    seen = list(logged(reader))
    unread = Unread(project, task, candidate, other)
    order = draws_of(project.query.frame("route"))
    times = [(round(one.at * 1e6), one.seq) for one in project.query.decisions("route")]
    assert order.seq.tolist() == [seq for _, seq in sorted(times)]
    speak = [
        row
        for row in project.query.outcomes(order.seq[: order.mature()].tolist())
        if unread.speaks(row.decision, row.first or None) and row.decision.propensity_known
    ]
    if not seen:
        assert not speak
        return
    body = project.servings.body(task)
    pipelines = [project.servings.pipeline("route", body, *policy) for policy in (candidate, other)]
    arms = seen[0].arms
    places = [place for chunk in seen for place in np.flatnonzero(chunk.status != DELETED).tolist()]
    names = ("reward", "action", "logged", "target", "baseline", "status", "worst", "keys", "sources")
    found = {name: np.concatenate([getattr(chunk, name)[chunk.status != DELETED] for chunk in seen]) for name in names}
    assert len(places) == len(speak)
    for place, row in enumerate(speak):
        decision = row.decision
        drawn, asked = np.zeros(len(arms)), np.zeros((2, len(arms)))
        columns = [arms.index(one.name) for one in decision.candidates]
        drawn[columns] = decision.probabilities
        for number, pipeline in enumerate(pipelines):
            asked[number, columns] = pipeline.distributions([decision.situation], decision.candidates, [decision.seed])
        reward = np.nan if row.reward is None else row.reward
        assert np.array_equal(found["reward"][place], reward, equal_nan=True)
        assert arms[found["action"][place]] == decision.action
        assert np.array_equal(found["logged"][place], drawn)
        assert np.array_equal([found["target"][place], found["baseline"][place]], asked)
        assert found["status"][place] == _STATUS[row.status]
        assert found["worst"][place] == (row.reward is None)
        assert (found["keys"][place], found["sources"][place]) == (decision.key or "local", decision.source)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, tick=some.sampled_from([1.0, 0.0]))
def test_the_rows_of_a_proof_equal_records(steps: list[tuple[str, int]], tick: float) -> None:
    """Decided, rated, rated late, withdrawn, rescored, deleted and imported again, in any order, in small blocks."""
    with (
        TemporaryDirectory() as folder,
        watched_traffic(Path(folder)) as traffic,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(frames, "BLOCK", 7)
        traffic.tick = tick
        traffic.play(12)
        for what, number in steps:
            _do(traffic, what, number)
        traffic.project.settle("route")
        for ref in list(traffic.read)[-1:]:
            with suppress(InvalidInput):  # nothing may speak yet
                check_against_records(traffic.project, ref)


def test_they_do_on_both_engines(tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "BLOCK", 16)
    (tmp_path / "headway.toml").write_text(TOML.replace("WEIGHT", "1.0"))
    clock = [1_790_000_000.0]
    with Project(tmp_path, environ=environ, seed=3, clock=lambda: clock[0]) as project:
        made = []
        for number in range(90):
            clock[0] += 1.0
            made.append(project.decide("route", f"ask {number}", role="coder" if number % 3 else "").id)
            project.signal(made[-1], {"solved": number % 7 / 7}, rater="ann" if number % 2 else "bob")
        project.signal(made[3], {"kind": 0.5}, rater="eve")
        project.withdraw(made[70], "solved", rater="bob")  # evidence reads the decisions before it
        ref = project.learn("route")
        project.erase(DeletionFilter(decision=made[5]), rewrite=False)
        check_against_records(project, ref)
        verdict = project.prove(ref, against="uniform@0")
        assert verdict.evidence is not None
        assert {rater.name for rater in verdict.evidence.raters} <= {"ann", "bob", "eve"}
