"""`headway compare TASK --tasks FILE` with a file of problems, and `--suite`, prompts that come with Headway."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from headway.cli import OptionHook, Session
from headway.files import open_regular
from headway.kits.prompts import corpus
from headway.kits.simulator.generate import generate
from headway.kits.simulator.problem import CodeProblem
from headway.kits.simulator.solvers import MAX_TOKENS, prompt_of
from headway.nouns import errors
from headway.settings import Upstream


def _run(session: Session, values: dict[str, Any]) -> int | None:
    """Turn a suite or a file of problems into the tasks that `compare` reads, and say what asking them may cost."""
    from headway.kits.simulator.problem import read_problems

    name, given = values.pop("suite"), values["tasks"]
    if name is not None and given is not None:
        raise click.UsageError("Give --tasks or --suite, not both.")
    if name is not None:
        rows = suite(name)
        session.out.note(f"Suite {name}: {len(rows)} tasks with checks, licence {LICENCE}.")
    elif given is not None and is_problem_file(given):
        rows = live_tasks(read_problems(given))
    else:
        return None
    with session.project() as project:
        actions = project.settings.task(values["task"]).actions
        upstreams = [project.settings.upstreams[action] for action in actions if action in project.settings.upstreams]
        values["tasks"] = _written(project.home / "sim", rows)
    cost = estimate(rows, upstreams, repeats=values["repeats"], max_tokens=values["max_tokens"] or 0)
    session.out.note(
        f"{cost.answers:,} answers will be asked for, at an estimated cost of {cost.least_usd:.2f} to "
        f"{cost.most_usd:.2f} US dollars."
    )
    return None


def _written(folder: Path, rows: list[dict[str, Any]]) -> Path:
    content = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"compare-{hashlib.sha256(content).hexdigest()[:16]}.jsonl"
    path.write_bytes(content)
    return path


COMPARE = OptionHook(
    options=(
        click.Option(
            ["--suite"],
            type=click.Choice(["small", "code"]),
            help="Ask tasks that come with Headway: 63 prompts of seven classes, or 60 programming problems.",
        ),
    ),
    run=_run,
)


SUITES = ("small", "code")
LICENCE = "Apache-2.0"
CODE_COUNT, CODE_SEED = 60, 42
_LETTERS_PER_TOKEN = 4
_SIDES = 2  # policies that are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """What a live comparison may cost, in US dollars: with the cheapest upstream only, with the most expensive only."""

    answers: int
    least_usd: float
    most_usd: float


def suite(name: str) -> list[dict[str, Any]]:
    """The tasks of a suite."""
    if name == "code":
        return live_tasks(generate(CODE_COUNT, CODE_SEED))
    return [{"id": prompt.id, "text": prompt.text, "check": dict(prompt.check)} for prompt in corpus()]


def live_tasks(problems: Iterable[CodeProblem]) -> list[dict[str, Any]]:
    """Problems as tasks of a live comparison; all tests, visible and hidden, check the answer."""
    rows = []
    for problem in problems:
        if problem.tests:
            raise errors.InvalidInput(
                f"The tests of {problem.id!r} are code; a live comparison checks answers by tests that are data.",
                code="bad_tasks",
                hint="Judge solutions of such problems with `headway sim run --tasks FILE --solver UPSTREAM`.",
            )
        cases = [[case.args, case.returns] for case in (*problem.visible, *problem.hidden)]
        check = {"kind": "code", "function": problem.entry, "cases": msgspec.to_builtins(cases)}
        rows.append({"id": problem.id, "text": prompt_of(problem), "check": check})
    return rows


def is_problem_file(path: Path) -> bool:
    """Whether the first line of a file looks like a problem."""
    try:
        with os.fdopen(open_regular(path, follow=True), "rb") as file:
            first = json.loads(next((line for line in file if line.strip()), b"null"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"statement", "entry"} <= first.keys()


def estimate(
    rows: Sequence[Mapping[str, Any]], upstreams: Iterable[Upstream], *, repeats: int = 1, max_tokens: int = 0
) -> CostEstimate:
    """A token is taken as four letters, and every answer as the longest allowed one."""
    answers = _SIDES * repeats * len(rows)
    asked = _SIDES * repeats * sum(len(row["text"]) for row in rows) / _LETTERS_PER_TOKEN
    costs = []
    for upstream in upstreams:
        longest = max_tokens or upstream.max_tokens or MAX_TOKENS
        costs.append(upstream.cost_usd(asked, answers * longest))
    return CostEstimate(answers=answers, least_usd=min(costs, default=0.0), most_usd=max(costs, default=0.0))
