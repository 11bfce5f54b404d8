"""The demo of `headway up`: always marked synthetic, separate from real projects, and complete in ten minutes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.kits.demo.planted import MARK, PLANTED, plant, prepare
from headway.kits.demo.traffic import Demo
from headway.nouns.errors import Conflict
from headway.settings import load
from tests.loop.conftest import AUTO, play
from tests.loop.running import up


def test_the_demos_settings_load_and_mark_everything(tmp_path):
    prepare(tmp_path)
    loaded = load(tmp_path, {})
    assert loaded.store.synthetic
    assert set(loaded.tasks) == {"route", "draft"}
    written = (tmp_path / "headway.toml").read_text("utf-8")
    assert written.startswith(MARK)
    prepare(tmp_path)  # a second run in the same folder works
    assert (tmp_path / "headway.toml").read_text("utf-8") == written


def test_the_demo_refuses_a_real_project(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "headway.toml").write_text(AUTO, "utf-8")
    with headway.open(tmp_path / "other", environ={}) as project:
        project.decide("route", "a real question", ["small", "large"])
    for name in ("mine", "other"):
        with pytest.raises(Conflict) as error:
            prepare(tmp_path / name)
        assert error.value.code == "not_a_demo"
    assert not (tmp_path / "other" / "headway.toml").exists()


def test_the_demo_refuses_a_shared_store(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_STORE_URL", "postgresql://127.0.0.1:9/shared")
    with pytest.raises(Conflict) as error:
        prepare(tmp_path / "new")
    assert error.value.code == "not_a_demo"
    assert not (tmp_path / "new" / "headway.toml").exists()


def test_in_a_synthetic_store_everything_is_marked_synthetic(tmp_path):
    prepare(tmp_path)
    with headway.open(tmp_path, environ={}) as project:
        picks = [project.decide("route", "x", source=source) for source in ("real", "imported")]
        picks.append(project.decide("route", "x"))
        picks.append(project.record("route", "x", ["small", "large"], action="small", propensity=0.5))
        assert {pick.source for pick in picks} == {"synthetic"}


def test_the_planted_candidate_is_harmful_and_the_gate_refuses_it(tmp_path, watching):
    watch = watching(AUTO)
    play(tmp_path, 1500)
    (check,) = watch.check()
    good = check.done.promoted
    assert good
    play(tmp_path, 300, seed=8)
    planted = plant(watch.project)
    assert watch.project.ledger.entries("route")[-1].why == PLANTED
    watch.check()
    verdict = watch.project.prove(planted, task="route")
    assert verdict.state in ("worse", "refused")
    assert verdict.reasons
    assert verdict.evidence.difference.high < 0, "it is truly harmful"
    watch.check()
    assert watch.project.ledger.current("route").policy == good


def test_the_refused_candidate_gets_a_share_all_the_same_until_the_loop_ends_it(tmp_path):
    prepare(tmp_path)
    said: list[str] = []
    demo = Demo(tmp_path, "http://127.0.0.1:9", said.append)
    with headway.open(tmp_path, environ={}) as project:
        demo._planted = planted = plant(project)
        asyncio.run(demo._follow_canary([]))
        assert project.ledger.canary("route") is None, "it is not refused yet"
        demo.events.add("refused")
        asyncio.run(demo._follow_canary([]))
        assert project.ledger.canary("route").policy == planted
    assert said == [f"{planted} decides on 20% of the traffic as a canary anyway, to show the safety net"]
    asyncio.run(demo._follow_canary([row("canary", planted), row("retire", planted, "it is worse")]))
    assert said[-1] == "the harmful canary was ended: it is worse"


def test_a_client_cannot_mark_the_demos_traffic_as_real(tmp_path):
    prepare(tmp_path)
    with up(tmp_path, "--port", "0", "--no-watch") as running:
        running.ready()
        body = {"task": "route", "text": "x"}
        status, answer, _ = running.ask("POST", "/v1/decisions", body)
        assert status == 201
        assert running.ask("POST", "/v1/decisions", {**body, "source": "real"})[0] == 422
        assert running.stop() == 0
    with headway.open(tmp_path, environ={}) as project:
        assert project.query.find(answer["id"]).source == "synthetic"
        assert project.query.counts("route").by_source == {"synthetic": 1}


def row(kind: str, policy: str, why: str = "", **detail: Any) -> dict[str, Any]:
    return {"task": "draft", "kind": kind, "policy": policy, "why": why, "detail": detail}


def test_the_story_of_the_drafts_follows_the_ledger(tmp_path):
    said: list[str] = []
    demo = Demo(tmp_path, "http://127.0.0.1:9", said.append)
    rows = [row("candidate", "bandit@1"), row("experiment", "bandit@1", share=0.5)]
    demo._follow_draft(rows)
    assert demo.events == {"experiment"}
    rows.append(row("promote", "bandit@1"))
    demo._follow_draft(rows)
    assert "degraded" not in demo.events, "the vendor is good for a while"
    demo._drafts += 1000
    demo._follow_draft(rows)
    assert "degraded" in demo.events
    rows.append(row("alarm", "bandit@1", "vendor earns less", action="vendor"))
    demo._follow_draft(rows)
    assert "alarm" in demo.events
    assert "recovered" not in demo.events
    rows.append(row("rollback", "rules@0", "automatic: it is worse"))
    demo._follow_draft(rows)
    assert {"recovered", "repaired"} <= demo.events
    assert said[-2] == "the loop recovered: rules@0 decides now, automatic: it is worse"


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_the_story_ends_within_ten_minutes(tmp_path: Path):
    started, end = time.monotonic(), time.monotonic() + 600
    with up(tmp_path, "--demo", "--port", "0") as running:
        running.ready()
        assert "synthetic" in running.printed()
        wanted = [
            "promoted by the gate",
            "a harmful candidate was planted",
            "the gate refused",
            "as a canary anyway",
            "the harmful canary was ended",
            "an experiment began",
            "an alarm was raised",
            "the loop recovered",
        ]
        while time.monotonic() < end and not all(name in running.printed() for name in wanted):
            time.sleep(0.5)
        printed, took = running.printed(), time.monotonic() - started
        assert running.stop() == 0
    assert all(name in printed for name in wanted), printed
    print(f"the story took {took:.0f} s")
    with headway.open(tmp_path, environ={}) as project:
        for task in ("route", "draft"):
            assert set(project.query.counts(task).by_source) == {"synthetic"}
        (planted,) = [entry.policy for entry in project.ledger.entries("route") if entry.why == PLANTED]
        kinds = [entry.kind for entry in project.ledger.entries("draft")]
        assert kinds.index("experiment") < kinds.index("promote") < kinds.index("alarm")
        live = [entry for entry in project.ledger.entries("route") if entry.kind == "promote"]
        assert planted not in [name.policy for name in live]
        assert live[-1].policy_hash == project.servings.of(project.settings.task("route")).digest
