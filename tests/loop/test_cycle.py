"""Cycles on real projects: learning, proof, promotion or waiting, guards, records."""

from __future__ import annotations

import pytest

import headway
from headway.loop.due import Marks, due
from headway.nouns.errors import Conflict
from headway.observe.jobs import Jobs, worker_there
from tests.loop.conftest import ASK, AUTO, kinds, lying, play


def only(check):
    (one,) = check
    return one


def cycles(project):
    return [job for job in reversed(Jobs(project.database).latest()) if job.kind == "cycle"]


def test_nothing_is_learned_before_enough_outcomes_have_settled(tmp_path, watching):
    watch = watching(AUTO)
    assert only(watch.check()).skipped == "nothing is due"
    play(tmp_path, 49)
    assert only(watch.check()).skipped == "nothing is due"
    play(tmp_path, 1, seed=8)
    assert only(watch.check()).done.learned


def test_with_auto_a_proven_candidate_is_promoted(tmp_path, watching):
    watch = watching(AUTO)
    play(tmp_path, 1200)
    done = only(watch.check()).done
    assert done.promoted == done.learned
    entry = watch.project.ledger.entries("route")[-1]
    assert (entry.kind, entry.policy, entry.who) == ("promote", done.promoted, "loop")
    assert {test.who for test in watch.project.ledger.tests("route")} == {"loop"}
    assert entry.evidence_id == done.verdict.evidence.id
    assert watch.project.decide("route", "x").policy_hash == entry.policy_hash, "the promoted policy is served"


def test_with_ask_a_proven_candidate_waits(tmp_path, watching):
    watch = watching(ASK)
    play(tmp_path, 1200)
    done = only(watch.check()).done
    assert done.waits
    assert done.verdict.passed
    assert not done.promoted
    play(tmp_path, 900, seed=9)
    again = only(watch.check())
    assert again.skipped.endswith(f"headway promote route --policy {done.proved}"), (
        "nothing replaces it while the user decides"
    )
    assert kinds(watch.project) == ["candidate", "test"]
    entry = watch.project.promote(task="route")
    assert entry.policy == done.learned, "the suggested command promotes that candidate"


def test_a_cycle_is_a_job_with_its_result_and_a_page(tmp_path, watching):
    watch = watching(AUTO)
    play(tmp_path, 600)
    done = only(watch.check()).done
    (job,) = cycles(watch.project)
    assert (job.state, job.done, job.total) == ("done", 100, 100)
    assert job.result["learned"] == done.learned
    assert job.result["verdict"] == done.verdict.state
    assert job.result["evidence"] == done.verdict.evidence.id
    pages = watch.project.home / "reports"
    markdown = (pages / f"{job.result['report']}.md").read_text("utf-8")
    html = (pages / f"{job.result['report']}.html").read_text("utf-8")
    for page in (markdown, html):
        assert done.learned in page.replace("\\", "")
        assert done.verdict.evidence.id in page.replace("\\", "")
        assert "600 decisions of this task are synthetic" in page
    assert html.count("<main>") == html.count("</main>") == 1


def test_one_task_that_fails_does_not_stop_the_others(tmp_path, watching):
    watch = watching(
        AUTO + '[tasks.early]\nactions = ["small", "large"]\nencoder = "minilm"\n'
        '[tasks.late]\nactions = ["small", "large"]\n'
    )
    for task in ("early", "route", "late"):
        play(tmp_path, 60, task=task)
    check = {result.task: result for result in watch.check()}
    assert check["early"].error.startswith("failed: ")
    assert check["route"].done.learned
    assert check["late"].done.learned
    failed = [job for job in cycles(watch.project) if job.state == "failed"]
    assert [job.body["task"] for job in failed] == ["early"]
    assert failed[0].result["error"]["code"] == "model_missing"


def test_a_failing_task_is_retried_with_growing_pauses(tmp_path, watching):
    moment = [1_900_000_000.0]
    watch = watching('[tasks.route]\nactions = ["small", "large"]\nencoder = "minilm"\n', clock=lambda: moment[0])
    play(tmp_path, 60)
    waits = []
    for _ in range(9):
        assert only(watch.check()).error
        assert only(watch.check()).skipped.startswith("the last cycle failed")
        waits.append(watch._marks["route"].not_before - moment[0])
        moment[0] = watch._marks["route"].not_before
    assert waits == [30.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0]


def test_a_canary_starts_ends_when_proven_worse_and_does_not_come_back(tmp_path, watching):
    toml = (
        '[tasks.route]\nactions = ["good", "bad"]\ncanary = 0.3\nretrain_after = 200\n'
        'rules = [{ when = "text_length >= 0", use = "good" }]\n'
    )
    watch = watching(toml)
    lying(tmp_path, 0, 1200, bad=0.9, good=0.5)  # "bad" pays while the candidate is learned …
    done = only(watch.check()).done
    assert done.canary.startswith(done.learned)
    assert watch.project.ledger.canary("route").policy == done.learned
    assert watch.project.ledger.canary("route").who == "loop"
    bad = done.learned
    for first in range(1200, 6000, 400):  # … and no longer
        lying(tmp_path, first, first + 400, bad=0.0, good=0.9)
        done = only(watch.check()).done
        if done is not None and done.rolled_back:
            break
    assert done.rolled_back.startswith(f"the canary {bad} ended, automatic: Proven worse")
    assert watch.project.ledger.states("route")[watch.project.registry.find(bad)] == "retired"
    assert bad not in [entry.policy for entry in watch.project.ledger.entries("route") if entry.kind == "promote"]


def test_a_promoted_policy_that_turns_out_worse_is_rolled_back(tmp_path, watching):
    toml = (
        '[tasks.route]\nactions = ["good", "bad"]\ngate = "off"\npromote = "ask"\nretrain_after = 100000\n'
        'explore = { kind = "epsilon", value = 0.3 }\n'
    )
    watch = watching(toml)
    lying(tmp_path, 0, 200, bad=0.9, good=0.1)
    watch.project.promote(watch.project.learn("route"))
    assert only(watch.check()).done.rolled_back == ""
    lying(tmp_path, 200, 600, bad=0.1, good=0.9)
    assert only(watch.check()).done.rolled_back == "", "what raised the alarm is no evidence"
    assert kinds(watch.project)[2] == "alarm"
    lying(tmp_path, 600, 1200, bad=0.1, good=0.9)
    done = only(watch.check()).done
    assert done.rolled_back.startswith("rolled back to uniform@0, automatic: Proven worse")
    rolled_back = watch.project.ledger.current("route")
    assert watch.project.verdict(rolled_back.evidence_id).state == "worse"
    assert kinds(watch.project)[:5] == ["candidate", "promote", "alarm", "candidate", "rollback"]


def test_a_second_watch_names_the_holder_of_the_project(tmp_path, watching):
    watching(ASK)
    with pytest.raises(Conflict) as error:
        watching()
    assert error.value.code == "already_running"
    assert f"process {__import__('os').getpid()}" in error.value.message


def _worked_on(folder):
    with headway.open(folder, environ={}) as project:
        return worker_there(project.database)


def test_a_watch_is_the_worker_that_the_server_looks_for(tmp_path, watching):
    assert not _worked_on(tmp_path)
    watch = watching(ASK)
    assert _worked_on(tmp_path)
    watch.__exit__(None, None, None)
    assert not _worked_on(tmp_path)


def test_learning_requested_from_the_server_is_done(tmp_path, watching):
    watch = watching(ASK)
    play(tmp_path, 60)
    jobs = Jobs(watch.project.database)
    good = jobs.add("learn", {"task": "route", "family": None, "seed": 5}, now=1.0)
    bad = jobs.add("learn", {"task": "route", "family": "nonsense", "seed": None}, now=2.0)
    watch._between()
    assert jobs.get(good.job).result["policy"] in [entry.policy for entry in watch.project.ledger.entries("route")]
    assert (jobs.get(bad.job).state, jobs.get(bad.job).result["error"]["code"]) == ("failed", "family_missing")


def test_the_work_of_a_killed_watch_is_ended_or_queued_again(tmp_path, watching):
    watch = watching(AUTO)
    jobs = Jobs(watch.project.database)
    cycle = jobs.begin("cycle", {"task": "route"}, worker="watch", now=1.0, lease_s=1e9)
    asked = jobs.add("learn", {"task": "route"}, now=1.0)
    jobs.claim("watch", now=1.0, lease_s=1e9, kinds=("learn",))
    watch.__exit__(None, None, None)
    again = Jobs(watching().project.database)
    assert (again.get(cycle.job).state, again.get(cycle.job).result["error"]["code"]) == ("failed", "interrupted")
    assert again.get(asked.job).state == "queued"


def test_a_task_that_repeatedly_ends_the_process_has_to_wait(tmp_path, watching):
    (tmp_path / "headway.toml").write_text(ASK, "utf-8")
    play(tmp_path, 60)
    moment = [1_900_000_000.0]
    for _ in range(3):
        watch = watching(ASK, clock=lambda: moment[0])
        Jobs(watch.project.database).begin("cycle", {"task": "route"}, worker="watch", now=moment[0], lease_s=60)
        watch.__exit__(None, None, None)
    watch = watching(clock=lambda: moment[0])
    assert only(watch.check()).skipped.startswith("the last cycle failed")
    moment[0] += 31
    assert only(watch.check()).done.learned


def test_a_cycle_that_stopped_after_learning_continues_with_the_proof(tmp_path, watching):
    (tmp_path / "headway.toml").write_text(AUTO, "utf-8")
    play(tmp_path, 1200)
    with headway.open(tmp_path, environ={}) as project:
        candidate = project.learn("route")
    done = only(watching(AUTO).check()).done
    assert (done.learned, done.proved, done.promoted) == ("", candidate, candidate)


def test_a_cycle_that_stopped_after_the_proof_continues_with_the_promotion(tmp_path, watching):
    (tmp_path / "headway.toml").write_text(AUTO, "utf-8")
    play(tmp_path, 1200)
    with headway.open(tmp_path, environ={}) as project:
        candidate = project.learn("route")
        assert project.prove(candidate).passed
    watch = watching(AUTO)
    assert due(watch.project.standing("route"), Marks()).act
    assert only(watch.check()).done.promoted == candidate
    assert kinds(watch.project).count("promote") == 1
    assert only(watch.check()).done is None or kinds(watch.project).count("promote") == 1


def test_evidence_against_an_earlier_current_policy_does_not_promote(tmp_path, watching):
    watch = watching(AUTO)
    play(tmp_path, 1200)
    candidate = only(watch.check()).done.promoted
    watch.project.rollback("route")
    standing = watch.project.standing("route")
    assert standing.candidate is None, "a rolled-back policy is not promoted again"
    assert candidate not in [entry.policy for entry in watch.project.ledger.entries("route")[3:]]


def test_changed_settings_are_used_unless_they_are_invalid(tmp_path, watching):
    lines: list[str] = []
    watch = watching(ASK, say=lines.append)
    (tmp_path / "headway.toml").write_text(ASK + "retrain_after = 7\n", "utf-8")
    watch.check()
    assert watch.project.settings.task("route").retrain_after == 7
    (tmp_path / "headway.toml").write_text("[tasks.route]\nnonsense = 1\n", "utf-8")
    watch.check()
    assert watch.project.settings.task("route").retrain_after == 7
    assert any("the old settings stay in use" in line for line in lines)


def test_an_online_policy_folds_settled_rows(tmp_path, watching):
    toml = AUTO + 'gate = "off"\nonline = "live"\nretrain_after = 100000\n'
    watch = watching(toml)
    play(tmp_path, 100)
    watch.project.promote(watch.project.learn("route"))
    with headway.open(tmp_path, environ={}) as project:
        pick = project.decide("route", "one more")
        project._folded_at = float("inf")  # the loop folds, not this process
        project.signal(pick.id, reward=0.4)
    watch._between()
    assert kinds(watch.project)[-1] == "snapshot"
    count = len(kinds(watch.project))
    watch._version = -1
    watch._between()
    assert len(kinds(watch.project)) == count, "at most one snapshot per second, and none without new rows"


def test_the_same_reason_is_printed_once(tmp_path, watching):
    lines: list[str] = []
    watch = watching(ASK + "[watch]\nidle_s = 1e9\n", say=lines.append, clock=lambda: 1_900_000_000.0)
    play(tmp_path, 60)
    for _ in range(3):
        watch.check()
    assert len(lines) == 1
    assert "not now: the last decision is" in lines[0]


def test_rows_older_than_keep_days_are_deleted(tmp_path, watching):
    watch = watching(f"{AUTO}[store]\nkeep_days = 30\n")
    play(tmp_path, 20)
    watch.check()
    assert watch.project.query.counts("route").decisions == 20
    now = [watch._clock() + 31 * 86_400.0]
    watch._clock = watch.project.clock = lambda: now[0]
    watch.check()
    assert watch.project.query.counts("route").decisions == 20, "all are too old: more likely the clock is wrong"
    watch.project.decide("route", "a new question")
    now[0] += 86_400.0
    watch.check()
    assert watch.project.query.counts("route").decisions == 1
