"""Reads a project of an older version through the public API only.

    with headway.open(unpacked("project", tmp_path)) as project:
        replays(project, ids)

Every function returns plain JSON values. The expected files were written by the same functions on the old code. Records
may be mappings or objects: `field` reads both.
"""

from __future__ import annotations

import gzip
import json
import math
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent / "before_kits"


def unpacked(name: str, folder: Path) -> Path:
    """The stored folder `name`, unpacked under `folder`."""
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has no filters
        archive.extractall(folder)
    return folder / name


def dump(name: str) -> str:
    """A PostgreSQL dump as SQL text."""
    return gzip.decompress((FIXTURES / f"{name}.sql.gz").read_bytes()).decode()


def expected(name: str) -> dict[str, Any]:
    """The results of the old code."""
    answers: dict[str, Any] = json.loads(gzip.decompress((FIXTURES / f"{name}.json.gz").read_bytes()))
    return answers


def field(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)


def fields(record: Any, *names: str) -> dict[str, Any]:
    return {name: field(record, name) for name in names}


def close(actual: Any, wanted: Any) -> bool:
    """Equal up to the last digits, because a BLAS library may sum in another order."""
    if isinstance(wanted, float) and isinstance(actual, float):
        return math.isclose(actual, wanted, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(actual) and math.isnan(wanted))
    if isinstance(wanted, dict) and isinstance(actual, dict):
        return actual.keys() == wanted.keys() and all(close(actual[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list) and isinstance(actual, list):
        return len(actual) == len(wanted) and all(map(close, actual, wanted))
    return bool(actual == wanted)


def replays(project: Any, ids: Sequence[str]) -> dict[str, Any]:
    """Each decision, replayed."""
    answers = {}
    for identifier in ids:
        replay = project.replay(identifier)
        again = field(replay, "replayed")
        answers[identifier] = {
            "exact": field(replay, "exact"),
            "stored": fields(field(replay, "stored"), "action", "propensity"),
            "replayed": None if again is None else fields(again, "action", "propensity"),
        }
    return answers


def explanations(project: Any, ids: Sequence[str]) -> dict[str, Any]:
    """The numbers and names of `explain`, without its sentences."""
    answers = {}
    for identifier in ids:
        record = project.explain(identifier)
        names = ("id", "task", "at", "text", "episode", "step", "role", "policy", "policy_hash", "exploration")
        names += ("source", "draw", "assigned", "action", "propensity", "confidence")
        answers[identifier] = {
            **fields(record, *names),
            "state": dict(field(record, "state")),
            "candidates": [
                fields(row, "name", "probability", "predicted", "std") for row in field(record, "candidates")
            ],
            "signals": [fields(row, "name", "value", "rater", "at") for row in field(record, "signals")],
            "outcome": fields(field(record, "outcome"), "status", "reward", "clipped"),
        }
    return answers


def ledger(project: Any, task: str) -> dict[str, Any]:
    """Every row of the ledger, and the resulting state of each policy."""
    names = ("n", "kind", "policy", "policy_hash", "expects", "who", "why", "evidence_id", "at")
    current, canary = project.ledger.current(task), project.ledger.canary(task)
    return {
        "rows": [{**fields(row, *names), "detail": dict(row.detail)} for row in project.ledger.entries(task)],
        "states": dict(project.ledger.states(task)),
        "current": None if current is None else current.policy,
        "canary": None if canary is None else canary.policy,
    }


def standing(project: Any) -> dict[str, Any]:
    """Each task of `status`: its current policy and its numbers of decisions and outcomes."""
    return {
        field(row, "task"): {
            **fields(row, "current", "current_hash", "canary", "decisions", "signals", "evidence"),
            "candidates": list(field(row, "candidates")),
            "outcomes": dict(field(row, "outcomes")),
            "sources": dict(field(row, "sources")),
        }
        for row in field(project.status(), "tasks")
    }


def proof(project: Any, task: str, policy: str, against: str) -> dict[str, Any]:
    """The verdict on a pair of policies, and every number in it."""
    verdict = project.prove(policy, against=against, task=task)
    return {"state": verdict.state, **numbers(verdict.evidence)}


def numbers(evidence: Any) -> dict[str, Any]:
    """The numbers of an evidence record or of its stored form, without the sentences."""
    names = ("candidate", "candidate_hash", "against", "against_hash", "n", "statistic", "statistic_worse")
    names += ("threshold", "alpha", "challenger", "needed", "reward_version", "data_hash", "seed", "margin", "ended")
    estimate = ("value", "low", "high", "n", "ess", "method", "level")
    bounds = field(evidence, "bounds")
    return {
        **fields(evidence, *names),
        "bounds": None if bounds is None else list(bounds),
        "difference": fields(field(evidence, "difference"), *estimate),
        "values": {name: fields(value, *estimate) for name, value in field(evidence, "values").items()},
        "checks": [fields(check, "name", "value", "limit", "ok", "blocks") for check in field(evidence, "diagnostics")],
        "guards": [
            {
                **fields(guard, "name", "tolerance", "ok"),
                "difference": fields(field(guard, "difference"), *estimate),
            }
            for guard in field(evidence, "guards")
        ],
        "counts": {
            name: count
            for name, count in field(evidence, "counts").items()
            if name in ("rewarded", "failed", "censored", "pending")
        },
        "raters": [fields(row, "name", "rows", "share", "uplift", "others") for row in field(evidence, "raters")],
    }


def choices(project: Any, asks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """New decisions, one per prompt, in order: a project opened with `seed` uses consecutive seeds."""
    answers = []
    for ask in asks:
        pick = project.decide(
            ask["task"], ask.get("text", ""), state=ask.get("state"), episode=ask.get("episode"), step=ask.get("step")
        )
        answers.append(
            {"policy": pick.policy, "seed": pick.seed, "action": pick.action, "probabilities": list(pick.probabilities)}
        )
    return answers


def ranking(project: Any, task: str, ask: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Candidates in order of predicted reward."""
    rows = project.rank(task, text=ask.get("text", ""), state=ask.get("state"))
    return [fields(row, "name", "predicted", "std") for row in rows]
