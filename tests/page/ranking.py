"""A project with a ranking task whose policy predicts, and an improver that has run; everything is synthetic.

The rows of the world `projects` taught a linear ranker, which then made 40 decisions of its own. Their rewards come
about as it predicts. Seeds are fixed.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from headway.kits.demo.synth import synthesise
from headway.kits.next_action.improve.run_state import RoundResult, RoundVerdict
from headway.project import Project
from tests.kits.next_action.played import IMPROVER, write_run

__all__ = ["TASK", "write_ranking"]

TASK = "next-action"
SETTINGS = f"""\
[tasks.{TASK}]
kind = "ranking"
reward = {{ composite_delta = 1.0 }}
gate = "off"

[tasks.route]
actions = ["small", "large"]
{IMPROVER}
[improve.idle]
scope = "Nothing yet"
metric = "seconds"
direction = "minimise"
eval = ["sh", "eval.sh"]
files = ["*.txt"]
proposals = "proposals.jsonl"
"""
ACTIONS = [
    {"type": "test", "description": "Add tests for config loader", "scope": "small"},
    {"type": "refactor", "description": "Rewrite the auth module", "scope": "large", "files_affected": 12},
    {"type": "fix", "description": "Fix flaky retry logic", "scope": "small", "files_affected": 2},
]
ROUNDS: list[tuple[str, str, RoundVerdict, float | None, float | None, str]] = [
    ("Count all words in one pass", "refactor", "kept", 0.61, 0.74, "9 pairs won, 0 lost of 9"),
    ("Say what it exports", "docs", "reverted", 0.74, 0.741, "not shown to be better: 4 pairs won, 5 lost of 15"),
    ("Change how the score is computed", "experiment", "refused", None, None, "'eval.sh', which is read-only."),
    ("Sort before counting", "fix", "failed", None, None, "it ran for longer than 30 s"),
]


def write_ranking(folder: Path, *, decisions: int = 40) -> None:
    """Fill an empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "headway.toml").write_text(SETTINGS, "utf-8")
    random = Random(7)
    with Project(folder, environ={}, seed=7, source="synthetic") as project:
        synthesise(project, TASK, rows=600, seed=42, world="projects")
        project.promote(project.learn(TASK, architecture="linear", seed=7))
        for _ in range(decisions):
            state = {"composite_score": random.random(), "tests_passing": random.randrange(90), "tests_total": 90}
            predicted = {row.name: row for row in project.rank(TASK, ACTIONS, state=state)}
            pick = project.decide(TASK, "", ACTIONS, state=state)
            expected = predicted[pick.action]
            project.signal(pick.id, composite_delta=random.gauss(expected.predicted, expected.std or 0.0))
        latest = [decision.id for decision in project.query.latest(TASK, len(ROUNDS))]
        write_run(project.home, [_result(number, decision) for number, decision in enumerate(latest, 1)])


def _result(number: int, decision: str) -> RoundResult:
    proposal, kind, verdict, before, after, why = ROUNDS[number - 1]
    gain = None if before is None or after is None else after - before
    return RoundResult(
        round=number,
        proposal=proposal,
        type=kind,
        verdict=verdict,
        why=why,
        decision=decision,
        propensity=0.25,
        predicted=0.05,
        low=-0.02,
        high=0.12,
        pairs=0 if gain is None else 9,
        before=before,
        after=after,
        gain=gain,
        reward=gain,
    )
