"""Ranges that do not hold are named by status and doctor before a proof asks for them."""

from __future__ import annotations

import random
from pathlib import Path

import headway
from headway.cli.doctor import _unread
from headway.project import Project


def project(folder: Path, settings: str) -> Project:
    (folder / "headway.toml").write_text(
        f'[tasks.route]\nactions = ["a", "b"]\n{settings}\n[store]\ndurability = "process"\n', "utf-8"
    )
    return headway.open(folder, seed=7)


def traffic(opened: Project, n: int, reward: float = 0.5, missing: float = 0.0) -> None:
    rng = random.Random(3)
    for _ in range(n):
        made = opened.decide("route", "question")
        signals = {"reward": reward, "latency_s": rng.uniform(0.2, 2.0)}
        if rng.random() < missing:
            del signals["latency_s"]
        opened.signal(made.id, signals)


def warnings(opened: Project) -> str:
    opened.settle("route")
    said = " ".join(opened.status().tasks[0].warnings)
    found = " ".join(finding.found for finding in _unread(opened))
    assert all(sentence in found for sentence in opened.status().tasks[0].warnings), "doctor says the same"
    return said


def test_rewards_beyond_the_range_are_named_with_a_range_that_holds_them(tmp_path: Path) -> None:
    with project(tmp_path, "") as opened:
        traffic(opened, 97)
        traffic(opened, 3, reward=-41.0)
        said = warnings(opened)
    assert "3 of the latest 100 rewards of route lie outside of its range [-1, 1], from -41 to -41." in said
    assert "range = [-41, 1]" in said
    assert "capped = true" in said


def test_a_declared_cap_needs_no_word(tmp_path: Path) -> None:
    with project(tmp_path, "capped = true") as opened:
        traffic(opened, 10, reward=-41.0)
        assert "range" not in warnings(opened)


def test_a_guard_without_a_range_is_named_before_it_stops_a_proof(tmp_path: Path) -> None:
    with project(tmp_path, "guards = { latency_s = 0.5 }") as opened:
        traffic(opened, 100)
        said = warnings(opened)
    assert "Guard latency_s of route cannot pass: nothing says how large latency_s can be" in said
    assert "range = [0, 20]" in said


def test_missing_guard_values_are_named_with_what_they_count(tmp_path: Path) -> None:
    with project(tmp_path, "guards = { latency_s = { tolerance = 0.5, range = [0, 60] } }") as opened:
        traffic(opened, 100)
        assert "latency_s" not in warnings(opened)
        traffic(opened, 100, missing=0.2)
        said = warnings(opened)
    assert "of the latest decisions of route lack latency_s, and each counts as 60 in its guard" in said
