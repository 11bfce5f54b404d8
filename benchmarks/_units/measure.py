"""Play the simulated projects of `units.py` in several processes, and turn them into figures."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from _units.money import money
from _units.proofs import CONTROLS, TRIALS

__all__ = ["Key", "figures", "keys", "measure"]

MONEY = "money"


class Key(NamedTuple):
    """One project: what is measured, whether a better candidate is tested, and the number of the replication."""

    name: str
    control: bool
    replication: int


def keys(projects: int, trials: int, only: Sequence[str] = ()) -> Iterator[Key]:
    """What to play: so many projects for counts and money, and so many of each trial, controls a quarter as often."""
    wanted = [name for name in (MONEY, *TRIALS) if not only or name in only]
    for name in wanted:
        for replication in range(projects if name == MONEY else trials):
            yield Key(name, False, replication)
    for name in wanted:
        for replication in range(0 if name == MONEY else max(1, trials // 4)):
            yield Key(name, True, replication)


def play(key: Key, seed: int) -> dict[str, Any]:
    """One project. Seeds of different base seeds never meet."""
    number = seed * 100_000 + key.replication
    if key.name == MONEY:
        return asdict(money(number))
    return asdict((CONTROLS if key.control else TRIALS)[key.name](number))


def measure(wanted: Sequence[Key], *, seed: int, jobs: int, resume: Path | None) -> dict[Key, dict[str, Any]]:
    """The results by key; those that an earlier run of the same seed has kept in the file are not played again."""
    results: dict[Key, dict[str, Any]] = {}
    if resume is not None and resume.exists():
        rows = [json.loads(line) for line in resume.read_text("utf-8").splitlines()]
        results = {Key(*row["key"]): row["result"] for row in rows if row["seed"] == seed}
    missing = sorted((key for key in wanted if key not in results), key=lambda key: key.replication)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_politely) as pool:
        playing = {pool.submit(play, key, seed): key for key in missing}
        for done, future in enumerate(as_completed(playing), start=1):
            key = playing[future]
            results[key] = future.result()
            if resume is not None:
                with resume.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "seed": seed, "result": results[key]}) + "\n")
            if done % 100 == 0 or done == len(missing):
                print(f"{done:,} of {len(missing):,}", file=sys.stderr, flush=True)
    return {key: results[key] for key in wanted}


def _politely() -> None:
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"


def figures(results: dict[Key, dict[str, Any]]) -> dict[str, float]:
    """Shares and counts by what was measured."""
    made: dict[str, float] = {}
    rows = [row for key, row in results.items() if key.name == MONEY]
    if rows:
        made["projects"] = len(rows)
        made["projects with equal counts and money"] = sum(row["counts"] for row in rows)
    for name in ("saved", "quality"):
        known = [row[name] for row in rows if row[name] is not None]
        if known:
            made[f"{name} covered"] = sum(known) / len(known)
            made[f"{name} unknown"] = 1.0 - len(known) / len(rows)
    for kind in sorted({row["kind"] for row in rows}):
        for name in ("saved", "quality"):
            known = [row[name] for row in rows if row["kind"] == kind and row[name] is not None]
            if known:
                made[f"{name} covered, {kind}"] = sum(known) / len(known)
    for name in TRIALS:
        for control, what in ((False, "false"), (True, "right")):
            ended = [row for key, row in results.items() if (key.name, key.control) == (name, control)]
            if ended:
                made[f"{name}: {what} promotions"] = sum(row["promoted"] for row in ended)
                made[f"{name}: {what} of"] = len(ended)
        mixed = [row["mixed"] for key, row in results.items() if key.name == name]
        if any("mixed" in row for key, row in results.items() if key.name == name) and "episode" in name:
            made[f"{name}: episodes of two policies"] = sum(mixed)
    return made
