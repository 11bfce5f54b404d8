"""Every state that a task can be in has one next step, the same in the terminal, over HTTP and for agents; it runs."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import headway
from headway.kits.agents.mcp import Tools
from headway.nouns.conclusions import conclusion
from headway.nouns.evidence import SAME_CHOICES, VerdictWord, Waiting
from headway.project import Project
from headway.project.alarm import AlarmDetail, raise_alarm
from headway.project.prove.terms import present_terms
from headway.promote.gate import verdict
from tests.cli.terminal import headway as run
from tests.promote.test_gate import EVIDENCE, check
from tests.serve.conftest import Running

TABLE = '[tasks.{task}]\nactions = ["small", "large"]\nretrain_after = 1000\n'
EARLY = {"statistic": 1.0, "threshold": 3.0, "bounds": (-0.01, 0.06), "needed": 431_855_467, "n": 400}
WAITING = Waiting(decisions=8_056, open=105, counting=90, until=1_795_000_000.0)
STATES: dict[str, tuple[VerdictWord | None, str, dict[str, Any]]] = {
    "fresh": (None, "headway decide fresh", {}),
    "collecting": (None, "headway data log collecting", {}),
    "early": ("too early", "headway plan early", EARLY),
    "waiting": ("too early", "headway data log waiting --status pending", {**EARLY, "needed": 90, "waiting": WAITING}),
    "better": ("better", "headway promote better --policy", {}),
    "worse": (
        "worse",
        "headway report worse",
        {"statistic": -160.0, "statistic_worse": 160.0, "bounds": (-0.06, -0.02)},
    ),
    "same": ("no difference", "headway report same", {"diagnostics": (check(SAME_CHOICES, ok=False),)}),
    "unsure": ("cannot tell", "headway report unsure", {"diagnostics": (check("calibration", ok=False),)}),
    "promoted": (None, "headway decide promoted", {}),
    "canary": ("too early", "headway prove canary", EARLY),
    "rolled": (None, "headway decide rolled", {}),
    "drifted": ("too early", "headway data log drifted", EARLY),
}
DRIFT = AlarmDetail(
    stream="reward", action="large", segment="", since=0.0, from_decision=1, before=0.75, after=0.35,
    rows=[200, 200], explore=0.5,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One project with a task in every state."""
    folder = tmp_path_factory.mktemp("states")
    (folder / "headway.toml").write_text("".join(TABLE.format(task=task) for task in STATES))
    with headway.open(folder, environ={}, seed=3) as project:
        for task, (_, _, evidence) in STATES.items():
            if task != "fresh":
                reach(project, task, evidence)
    return folder


def reach(project: Project, task: str, about: dict[str, Any]) -> None:
    for ask in headway.sample("route", n=40, seed=7):
        pick = project.decide(task, ask.text)
        if task != "collecting":
            project.signal(pick.id, reward=ask.outcome(pick.action))
    if task == "collecting":
        return
    policy = project.learn(task)
    keep(project, task, policy, about)
    if task in ("promoted", "rolled"):
        project.promote(policy, at_once=True)
    if task == "rolled":
        project.rollback(task)
    if task == "canary":
        project.canary(policy, share=0.2)
    if task == "drifted":
        raise_alarm(project, task, DRIFT, who="loop")


def keep(project: Project, task: str, policy: str, about: dict[str, Any]) -> None:
    """Store evidence about the candidate as `prove` would."""
    newest, current = project.ledger.last(task, "candidate"), project.current(task)
    assert newest is not None
    settings = project.settings.task(task)
    terms = present_terms(project, settings, (newest.policy, newest.policy_hash), (current.ref, current.digest))
    evidence = replace(
        EVIDENCE,
        task=task,
        candidate=policy,
        candidate_hash=newest.policy_hash,
        against=current.ref,
        against_hash=current.digest,
        reward_version=terms.reward_version,
        config_hash=terms.config_hash,
        behaviour=terms.behaviour,
        test="7",
        **{"id": f"evi_{task}", **about},
    )
    body = msgspec.to_builtins(evidence)
    project.ledger.keep_evidence(evidence.id, task, newest.policy_hash, body, project.clock())


@pytest.fixture(scope="module")
def doors(folder: Path) -> dict[str, dict[str, Any]]:
    """The tasks as each door gives them, by name."""
    running = Running(folder)
    try:
        over_http = running.client.get("/v1/tasks").json()["tasks"]
    finally:
        running.stop()
    with headway.open(folder, environ={}) as project:
        to_agents = Tools(project).status()["tasks"]
    on_terminal = run("-C", folder, "status", "--json").json["tasks"]
    given = {"terminal": on_terminal, "HTTP": over_http, "MCP": to_agents}
    return {door: {task["task"]: task for task in tasks} for door, tasks in given.items()}


@pytest.mark.parametrize("task", STATES)
def test_every_door_shows_the_same_step_and_verdict_and_the_command_runs(
    folder: Path, doors: dict[str, dict[str, Any]], task: str
) -> None:
    word, command, _ = STATES[task]
    shown = {door: (tasks[task]["next"], without_time(tasks[task]["verdict"])) for door, tasks in doors.items()}
    assert shown["terminal"] == shown["HTTP"] == shown["MCP"]
    step, told = shown["terminal"]
    assert step["command"].startswith(command)
    assert (told and told["word"]) == word
    for text in (step["why"], *([told["text"]] if told else [])):
        assert not any(odd in text for odd in ("431,855", "`", "e+", "  ")), text
    done = run("-C", folder, *shlex.split(step["command"])[1:])
    assert done.code == 0, done.err
    if told:
        page = run("-C", folder, "report", task)
        assert page.out.partition("\n")[2].startswith(told["word"].upper()), page.out  # after money and quality
        assert "431,855" not in page.out


def without_time(told: dict[str, Any] | None) -> dict[str, Any] | None:
    """The verdict without the time that it takes, which depends on when it was asked."""
    return told and {**told, "forecast": None, "text": told["text"].partition(" more decisions, ")[0]}


def test_a_test_that_waits_for_outcomes_asks_for_no_more_decisions(doors: dict[str, dict[str, Any]]) -> None:
    for door, tasks in doors.items():
        told = tasks["waiting"]["verdict"]
        assert "waiting for 105 outcomes, at the latest until 18 November 2026, 11:06 UTC" in told["text"], door
        assert (told["more"], told["forecast"]["until"]) == (0, "2026-11-18T11:06:40.000Z")
    part = verdict(replace(EVIDENCE, **{**EARLY, "needed": 900, "waiting": WAITING}))
    assert part.more == 810
    assert "about 810 more decisions; 8,056 wait for their outcomes" in conclusion(part)


def test_too_early_says_how_many_and_when_and_a_huge_number_is_never_shown() -> None:
    few = verdict(replace(EVIDENCE, **{**EARLY, "needed": 900}))
    assert (few.word, few.more) == ("too early", 900)
    tiny = verdict(replace(EVIDENCE, **EARLY))
    assert (tiny.word, tiny.more) == ("too early", 600)
    assert "431,855" not in tiny.hint
    rows = replace(check("rows", ok=False), value=60.0, limit=200.0)
    short = verdict(replace(EVIDENCE, diagnostics=(rows,)))
    assert (short.word, short.more) == ("too early", 140)
    speaking = replace(check("speaking_rows", ok=False), value=10.0, limit=30.0)
    sparse = verdict(replace(EVIDENCE, n=300, diagnostics=(speaking, check("row_share", ok=False))))
    assert (sparse.word, sparse.more) == ("too early", 600)
    rare = verdict(replace(EVIDENCE, n=300, diagnostics=(speaking, check("weight_share", ok=False))))
    assert rare.word == "cannot tell", "more of the same would not help: what is compared is hardly ever tried"
    file = replace(EVIDENCE, candidate_hash="", statistic=1.0, threshold=3.0)
    assert verdict(replace(file, needed=431_855_467)).word == "no difference"
    assert verdict(replace(file, needed=900)).word == "too early"
