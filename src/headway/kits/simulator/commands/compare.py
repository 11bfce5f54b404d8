"""`headway compare TASK --tasks FILE` with a file of problems, and `--suite`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import click

from headway.cli import OptionHook, Session


def _run(session: Session, values: dict[str, Any]) -> int | None:
    """Turn a suite or a file of problems into the tasks that `compare` reads, and say what asking them may cost."""
    from headway.kits.simulator.problem import read_problems
    from headway.kits.simulator.suites import LICENCE, estimate, is_problem_file, live_tasks, suite

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
