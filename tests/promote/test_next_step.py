"""The next step is what the gate allows: status, page and gate agree, whatever the verdict."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import headway
from headway.nouns.errors import Conflict, GateRefused, InvalidInput
from headway.nouns.evidence import Evidence, Prospect, VerdictState
from headway.nouns.experiment import RampState, VerdictCost
from headway.nouns.kit import catalogue
from headway.nouns.status import NextStep, StepVerb
from headway.nouns.wire import document
from headway.project import Project
from headway.project.prove.terms import present_terms
from headway.promote.gate import Admission, verdict
from headway.promote.ledger import Entry
from headway.promote.next_steps import _URGENCY, FIRST_STEP, Activity, most_urgent, next_step
from headway.promote.standing import CandidatePolicy, CurrentPolicy, Standing
from headway.serve.routes.recent import VerdictAnswer
from tests.cli.command_line import parse
from tests.project.conftest import play
from tests.promote.test_gate import EVIDENCE, check

pytestmark = pytest.mark.kits("next_action")

RANKING, REPLY = (catalogue().kind(name) for name in ("ranking", "reply"))
ACTIONS = 'actions = ["small", "large"]\n'
VERDICTS: dict[VerdictState, dict[str, Any]] = {
    "pass": {},
    "wait": {"statistic": 90.0},
    "worse": {"statistic": -160.0, "statistic_worse": 160.0},
    "no difference": {"statistic": 90.0, "prospect": Prospect(likely=0.01, needed=31_000, most=25_000)},
    "refused": {"diagnostics": (check("ess", ok=False),)},
}
EVIDENCES = (
    "none", "fresh", "other policy", "other reward", "other configuration", "other behaviour", "other declaration",
    "not charged",
)  # fmt: skip


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with an unproven candidate."""
    folder = tmp_path_factory.mktemp("learned") / "project"
    folder.mkdir()
    (folder / "headway.toml").write_text(f"[tasks.route]\n{ACTIONS}")
    with headway.open(folder, environ={}, seed=3) as project:
        play(project, 80)
        project.learn("route")
    return folder


@contextmanager
def copied(learned: Path, tmp_path: Path, *, gate: str, canary: bool) -> Iterator[Project]:
    folder = Path(shutil.copytree(learned, tmp_path / "project"))
    (folder / "headway.toml").write_text(f'[tasks.route]\n{ACTIONS}gate = "{gate}"\n')
    with headway.open(folder, environ={}, seed=3) as project:
        now = project.clock()
        project.clock = lambda: now  # a forecast names a time, and is made twice here
        if canary:
            project.canary(task="route", share=0.2)
        yield project


def keep(project: Project, state: VerdictState, about: str) -> str | None:
    """Store evidence about the newest candidate that comes to this verdict; its id."""
    if about == "none":
        return None
    newest = project.ledger.last("route", "candidate")
    assert newest is not None
    current = project.current("route")
    terms = present_terms(
        project, project.settings.task("route"), (newest.policy, newest.policy_hash), (current.ref, current.digest)
    )
    evidence = replace(
        EVIDENCE,
        id=f"evi_{state}",
        candidate=newest.policy,
        candidate_hash=newest.policy_hash,
        against="rules@0" if about == "other policy" else current.ref,
        against_hash="0" * 64 if about == "other policy" else current.digest,
        reward_version="of old" if about == "other reward" else terms.reward_version,
        config_hash="of old" if about == "other configuration" else terms.config_hash,
        behaviour="of old" if about == "other behaviour" else terms.behaviour,
        declared={"missing": "at random"} if about == "other declaration" else {},
        test="" if about == "not charged" else "7",
        **VERDICTS[state],
    )
    assert verdict(evidence).state == state
    body = msgspec.to_builtins(evidence)
    project.ledger.keep_evidence(evidence.id, "route", newest.policy_hash, body, project.clock())
    return evidence.id


@pytest.mark.parametrize(
    ("state", "about", "canary", "gate"), [*product(VERDICTS, EVIDENCES, (False, True), ("on", "off"))]
)
def test_status_page_and_gate_agree(
    learned: Path, tmp_path: Path, state: VerdictState, about: str, canary: bool, gate: str
) -> None:
    assert VERDICTS.keys() == set(get_args(VerdictState))
    with copied(learned, tmp_path, gate=gate, canary=canary) as project:
        evidence = keep(project, state, about)
        (status,) = project.status().tasks
        step = project.next_step("route")
        assert status.next == step
        assert document(status)["next"]["command"] == step.command
        if evidence is not None:
            page = msgspec.convert(project.report(evidence).document(), VerdictAnswer)
            assert (page.next.verb, page.next.command) == (step.verb, step.command)
        parsed = parse(step.command)
        admitted = promotes(project)
    if about == "not charged" and state != "pass":
        about = "fresh"  # a look that nothing can be promoted on is not charged
    assert (step.verb == "promote") == admitted
    assert admitted == (gate == "off" or (state == "pass" and about == "fresh"))
    if not admitted:
        assert (step.verb == "prove") == (about != "fresh" or (state == "wait" and canary))
        assert (step.verb == "end_canary") == (about == "fresh" and state == "worse" and canary)
    assert parsed.params["task"] == "route"


def promotes(project: Project) -> bool:
    """Whether the gate lets the newest candidate through."""
    try:
        project.promote(task="route")
    except (GateRefused, Conflict):
        return False
    return True


# -- every state that a task can be in, without a store


CURRENT = CurrentPolicy(ref="rules@0", digest="", expects="")
CANDIDATE = CandidatePolicy(task="route", ref="bandit@4f2a", digest="4f2a")
CANARY = Entry(task="route", kind="canary", policy="bandit@4f2a", policy_hash="4f2a", detail={"share": 0.2})


def standing(evidence: Evidence | None = None, admission: Admission | None = None, **more: Any) -> Standing:
    if evidence is not None:
        judged = verdict(evidence)
        admission = Admission(state="admitted" if judged.passed else "refused", verdict=judged, fresh=True)
    candidate = None if admission is None else CANDIDATE
    return Standing(task="route", current=CURRENT, candidate=candidate, admission=admission, retrain_after=50, **more)


IDLE, BUSY = Activity(decisions=0, signals=0), Activity(decisions=90, signals=80, pending=0)
WAIT = replace(EVIDENCE, id="evi_1", **VERDICTS["wait"])
REFUSED = replace(EVIDENCE, id="evi_1", **VERDICTS["refused"])
WORSE = replace(EVIDENCE, id="evi_1", **VERDICTS["worse"])
ALARM = replace(CANARY, kind="alarm", why="'large' earns 0.35 instead of 0.75.")
EXPERIMENT = "headway experiment start route"
COST = VerdictCost(
    task="route", policy="bandit@4f2a", against="rules@0", uplift=0.05, share=0.4, decisions=900, experiment_share=0.4,
    log_alone=12_000, by_share={0.0: 12_000, 0.4: 900}, within=5000, known=0, pilot=400, per_day=None, loss=1.5,
)  # fmt: skip
RAMP = RampState(
    task="route", policy="bandit@4f2a", against="rules@0", shares=(0.1, 0.25, 0.5, 1.0), step=2, share=0.25, since=0.0,
    decisions=60, counted=50, least=120,
)  # fmt: skip
PROMOTE = "headway promote route --policy bandit@4f2a"
IMPORT = "headway data import BUFFER --task route"  # of a ranking task: its actions are described, not only named
UNPROVEN, NO_VOTES = Admission(state="unproven"), InvalidInput("Nobody has voted.", code="no_evidence")
UNRATED, VOTE = "headway chat --role route --unrated", "headway compare route --ask"
STEPS: dict[str, tuple[NextStep, StepVerb, str]] = {
    name: (next_step(where, activity), verb, command)
    for name, where, activity, verb, command in (
        ("nothing decided", standing(), IDLE, "decide", 'headway decide route "Summarise this page"'),
        (
            "nothing declared",
            standing(has_actions=False),
            IDLE,
            "decide",
            'headway decide route "Summarise this page" --candidates small,large',
        ),
        ("actions in words", standing(has_actions=False, kind=RANKING), IDLE, "decide", IMPORT),
        ("few actions in words", standing(since=10, kind=RANKING), BUSY, "decide", IMPORT),
        ("no signal", standing(), Activity(decisions=9, signals=0), "log", "headway data log route"),
        ("signals wait", standing(), Activity(decisions=9, signals=1, pending=8), "log", "headway data log route"),
        ("replies wait", standing(kind=REPLY), Activity(decisions=9, signals=1, pending=8), "log", UNRATED),
        ("no votes", standing(admission=UNPROVEN, kind=REPLY, unprovable=NO_VOTES), BUSY, "prove", VOTE),
        ("few votes", standing(replace(WAIT, kind="preference"), kind=REPLY), BUSY, "prove", VOTE),
        ("too little", standing(since=10), BUSY, "decide", 'headway decide route "Summarise this page"'),
        ("enough", standing(settled=50, since=50), BUSY, "learn", "headway learn route"),
        ("unproven", standing(admission=Admission(state="unproven")), BUSY, "prove", "headway prove route"),
        ("offered", standing(admission=Admission(state="unproven"), offer=COST.offer), BUSY, "experiment", EXPERIMENT),
        ("ramp", standing(EVIDENCE, ramp=RAMP), BUSY, "ramp", "headway promote route"),
        ("passed", standing(EVIDENCE), BUSY, "promote", PROMOTE),
        ("not yet", standing(WAIT), BUSY, "plan", "headway plan route"),
        ("not yet, by a hair", standing(replace(WAIT, needed=0)), BUSY, "plan", "headway plan route"),
        ("not yet, canary", standing(WAIT, canary=CANARY), BUSY, "prove", "headway prove route"),
        ("refused", standing(REFUSED), BUSY, "report", "headway report route"),
        ("refused, much new", standing(REFUSED, settled=90, since=60), BUSY, "learn", "headway learn route"),
        ("worse", standing(WORSE), BUSY, "report", "headway report route"),
        ("worse, little new", standing(WORSE, settled=900, since=50), BUSY, "report", "headway report route"),
        ("worse, enough new", standing(WORSE, settled=900, since=90), BUSY, "learn", "headway learn route"),
        (
            "worse, canary",
            standing(WORSE, canary=CANARY),
            BUSY,
            "end_canary",
            "headway promote route --policy bandit@4f2a --canary 0",
        ),
        ("disputed", standing(disputed=verdict(WORSE)), BUSY, "rollback", "headway rollback route"),
        ("disputed, better known", standing(EVIDENCE, disputed=verdict(WORSE)), BUSY, "promote", PROMOTE),
        (
            "disputed canary",
            standing(WORSE, canary=CANARY, disputed=verdict(WORSE)),
            BUSY,
            "end_canary",
            f"headway promote route --policy {WORSE.candidate} --canary 0",
        ),
        ("alarm", standing(WAIT, alarm=ALARM), BUSY, "alarm", "headway data log route"),
        ("alarm, better known", standing(EVIDENCE, alarm=ALARM), BUSY, "promote", PROMOTE),
        ("kit missing", standing(kit_missing="bandit"), BUSY, "doctor", "headway doctor"),
        (
            "current already",
            standing(admission=Admission(state="already_current")),
            BUSY,
            "report",
            "headway report route",
        ),
    )
}


@pytest.mark.parametrize("name", STEPS)
def test_every_state_has_a_step_that_parses(name: str) -> None:
    step, verb, command = STEPS[name]
    assert (step.verb, step.command) == (verb, command)
    assert step.why.endswith(".")
    parse(step.command)


def test_every_verb_of_a_step_is_reached_and_ordered() -> None:
    assert {step.verb for step, _, _ in STEPS.values()} == set(get_args(StepVerb)) == _URGENCY.keys()
    parse(FIRST_STEP.command)


def test_a_policy_that_is_not_the_newest_is_named() -> None:
    older = replace(CANDIDATE, newest=False)
    for where in (
        standing(WAIT),
        standing(REFUSED),
        standing(EVIDENCE),
        standing(admission=Admission(state="unproven")),
    ):
        step = next_step(replace(where, candidate=older))
        assert parse(step.command).params["policy"] == "bandit@4f2a"


def test_the_most_urgent_step_of_several_tasks_comes_first() -> None:
    decide, learn, prove = (STEPS[name][0] for name in ("too little", "enough", "unproven"))
    assert most_urgent([decide, learn, prove, learn]) is prove
    assert most_urgent([]) is FIRST_STEP
