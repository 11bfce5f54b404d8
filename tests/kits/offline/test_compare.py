"""Comparison with the rules, live runs over real HTTP, and verification of packs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from headway.kits.demo.synth import synthesise
from headway.kits.offline.live_answers import read_tasks, summary
from headway.kits.offline.packs import verify
from headway.kits.offline.rules_comparison import Asking, Compared, compare
from headway.nouns.errors import Damaged, HeadwayError, InvalidInput, InvalidSettings, UnknownName
from headway.project import Project
from tests.kits.proxy.upstream import Upstream

pytestmark = pytest.mark.engines(slow="postgresql", why="it is about files and HTTP")
TOML = """
[tasks.route]
actions = ["primary", "fallback"]
reward = "reward_v1"
rules = [{ when = "task_complexity_score > 0.8 or primary_failure_count >= 2", use = "fallback" }]
guards = { verification_passed = { tolerance = 0.0, direction = "higher" } }
"""


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    running = Upstream()
    yield running
    running.stop()


def learned(opened: Callable[..., Project], toml: str = TOML, rows: int = 650) -> Project:
    project = opened(toml, seed=None)
    synthesise(project, "route", rows=rows, seed=42)
    project.learn("route")
    return project


def with_upstreams(upstream: Upstream, primary: str = "ok", fallback: str = "ok") -> str:
    return TOML.replace('"reward_v1"', "{ solved = 1.0, trajectory_reward = 1.0 }").replace(
        "guards", "required = []\nguards"
    ) + "".join(
        f'[upstreams.{name}]\nurl = "{upstream.url(how)}"\nmodel = "m"\nprice_in = 1.0\nprice_out = 2.0\n'
        for name, how in (("primary", primary), ("fallback", fallback))
    )


def prompts(folder: Path, n: int = 6) -> Path:
    path = folder / "prompts.jsonl"
    rows = [
        {
            "text": f"Say good morning, number {index}",
            "state": {"task_complexity_score": index / n, "primary_failure_count": index % 3},
            "check": {"kind": "includes", "all": ["morning" if index % 2 else "evening"]},
        }
        for index in range(n)
    ]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    return path


# -- synthetic history


def test_synthetic_history_is_marked_and_the_same_seed_adds_nothing(opened: Callable[..., Project]) -> None:
    project = opened(TOML)
    first = synthesise(project, "route", rows=700, seed=1)
    again = synthesise(project, "route", rows=700, seed=1)
    other = synthesise(project, "route", rows=10, seed=2)
    assert (first.stored, again.stored, again.already, other.stored) == (700, 0, 700, 10)
    assert project.query.counts("route").by_source == {"synthetic": 710}
    project.settle("route")
    rewards = [row.reward for row in project.query.settled("route")]
    assert len(rewards) == 710
    assert all(reward is not None and -0.15 <= reward <= 1.25 for reward in rewards)


def test_a_reward_without_signals_of_the_world_is_an_error_with_a_hint(opened: Callable[..., Project]) -> None:
    project = opened('[tasks.route]\nactions = ["primary", "fallback"]\n')
    with pytest.raises(InvalidInput) as error:
        synthesise(project, "route", rows=5, seed=1)
    assert error.value.code == "reward_mismatch"
    assert "reward_v1" in error.value.hint
    with pytest.raises(UnknownName):
        synthesise(project, "route", rows=5, seed=1, world="escalaton")


# -- offline


def test_a_policy_is_compared_with_the_rules_by_default(opened: Callable[..., Project]) -> None:
    comparison = compare(learned(opened), "route")
    assert comparison.against == "rules@0"
    assert comparison.live is None
    assert comparison.offline.evidence is not None
    assert comparison.offline.evidence.difference.value > 0.0
    assert comparison.manifest["policies"].keys() == {comparison.policy, "rules@0"}


def packed(opened: Callable[..., Project], folder: Path) -> Compared:
    return compare(learned(opened), "route", pack=folder, command="headway compare route")


def test_a_pack_verifies_and_its_numbers_equal_those_of_prove(opened: Callable[..., Project], tmp_path: Path) -> None:
    project = learned(opened)
    folder = tmp_path / "packs" / "one"
    comparison = compare(project, "route", pack=folder, command="headway compare route")
    held = verify(folder)
    proven = project.prove(task="route", against="rules@0")
    assert proven.evidence is not None
    assert held.results["offline"]["evidence"]["difference"]["value"] == proven.evidence.difference.value
    assert held.results["offline"]["evidence"]["id"] == proven.evidence.id == comparison.manifest["evidence"]
    assert held.manifest["versions"]["headway"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "SHA256SUMS",
        "about.json",
        "manifest.json",
        "results.json",
        "rows.safetensors",
    ]


def test_one_changed_byte_anywhere_is_detected(opened: Callable[..., Project], tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    packed(opened, folder)
    rng = Random(5)
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for place in {0, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(12))}:
            changed = bytearray(whole)
            changed[place] ^= 1 << rng.randrange(8)
            path.write_bytes(bytes(changed))
            with pytest.raises(HeadwayError) as error:
                verify(folder)
            assert error.value.code == "pack_damaged", (path.name, place)
        path.write_bytes(whole)
    verify(folder)


def test_wrong_numbers_are_detected_even_if_every_hash_is_right(opened: Callable[..., Project], tmp_path: Path) -> None:
    import hashlib

    folder = tmp_path / "pack"
    packed(opened, folder)
    path, sums = folder / "results.json", folder / "SHA256SUMS"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    results = json.loads(path.read_text())
    results["offline"]["evidence"]["difference"]["value"] += 0.01
    path.write_text(json.dumps(results))
    sums.write_text(sums.read_text().replace(before, hashlib.sha256(path.read_bytes()).hexdigest()))
    with pytest.raises(Damaged, match=r"difference\.value"):
        verify(folder)


def test_missing_added_and_unsafe_files_are_detected(opened: Callable[..., Project], tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    packed(opened, folder)
    (folder / "more.txt").write_text("x")
    with pytest.raises(Damaged, match="not listed"):
        verify(folder)
    (folder / "more.txt").unlink()
    kept = (folder / "about.json").read_bytes()
    (folder / "about.json").unlink()
    with pytest.raises(Damaged, match="missing"):
        verify(folder)
    (folder / "about.json").write_bytes(kept)
    sums = folder / "SHA256SUMS"
    sums.write_text(sums.read_text() + f"{'0' * 64}  ../../etc/passwd\n")
    with pytest.raises(Damaged, match="SHA256SUMS"):
        verify(folder)
    with pytest.raises(UnknownName):
        verify(tmp_path / "nothing")


def test_a_pack_is_never_overwritten(opened: Callable[..., Project], tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    packed(opened, folder)
    with pytest.raises(InvalidInput) as error:
        packed(opened, folder)
    assert error.value.code == "pack_exists"
    verify(folder)


# -- live


def test_both_policies_get_the_same_prompts(opened: Callable[..., Project], upstream: Upstream, tmp_path: Path) -> None:
    project = learned(opened, with_upstreams(upstream, fallback="status-500"))
    folder = tmp_path / "pack"
    asking = Asking(tasks=prompts(tmp_path), repeats=2, seed=3)
    comparison = compare(project, "route", asking=asking, pack=folder)
    assert comparison.live is not None
    assert comparison.live["runs"] == 24 == len(upstream.received)
    asked = sorted(request.json["messages"][0]["content"] for request in upstream.received)
    assert all(asked.count(text) == 4 for text in asked)
    rows = [json.loads(line) for line in (folder / "live.jsonl").read_text().splitlines()]
    for row in rows:
        assert row["failed"].endswith("answered 500, at the first try.") == (row["action"] == "fallback")
        assert row["judged"] in ("passed", "failed", "unchecked")
    metrics = comparison.live["metrics"]
    assert metrics["failed"]["policy"] == sum(bool(r["failed"]) for r in rows if r["side"] == "policy") / 12
    assert metrics["cost_usd"]["prompts"] >= 1
    assert verify(folder).results["live"] == json.loads(json.dumps(comparison.live))


def test_an_interrupted_live_run_resumes(opened: Callable[..., Project], upstream: Upstream, tmp_path: Path) -> None:
    project = learned(opened, with_upstreams(upstream))
    folder, asking = tmp_path / "pack", Asking(tasks=prompts(tmp_path), seed=3)

    class Cut(Exception):
        pass

    def cut(what: str, done: int, of: int | None) -> None:
        if what == "ask" and done == 5:
            raise Cut

    with pytest.raises(Cut):
        compare(project, "route", asking=asking, pack=folder, progress=cut)
    with (folder / "live.part").open("a") as file:
        file.write('{"task": "line 1", "rep')  # killed in the middle of a line
    with pytest.raises(InvalidInput) as error:
        compare(project, "route", asking=Asking(tasks=asking.tasks, seed=4), pack=folder)
    assert error.value.code == "other_comparison"
    comparison = compare(project, "route", asking=asking, pack=folder)
    assert comparison.live is not None
    assert comparison.live["runs"] == 12 == len(upstream.received)
    verify(folder)
    assert not (folder / "live.part").exists()


def test_an_action_that_is_not_an_upstream_is_refused_before_any_request(
    opened: Callable[..., Project], tmp_path: Path
) -> None:
    project = learned(opened)
    with pytest.raises(InvalidSettings) as error:
        compare(project, "route", asking=Asking(tasks=prompts(tmp_path)))
    assert error.value.code == "no_upstream"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON"),
        ("[]", "not an object"),
        ('{"text": ""}', "not an object"),
        ('{"text": "a", "txt": 1}', "'txt'"),
        ('{"text": "a", "check": {"kind": "magic"}}', "check"),
        ('{"text": "a", "check": 3}', "check"),
        ('{"text": "a", "id": "x"}\n{"text": "b", "id": "x"}', "earlier"),
        ("", "no prompt"),
    ],
)
def test_the_error_names_a_bad_line_of_prompts(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('\n{"text": "fine"}\n' * bool(line) + line)
    with pytest.raises(InvalidInput, match=reason) as error:
        read_tasks(path)
    assert error.value.code == "bad_tasks"
    if line:
        assert "line" in error.value.message


def test_the_unit_of_an_interval_is_the_prompt() -> None:
    rows = [
        {"task": str(n), "repeat": r, "side": side, "action": "a", "failed": "", "reward": value, "signals": {}}
        for n in range(20)
        for r in range(50)
        for side, value in (("policy", float(n % 2)), ("against", 0.5))
    ]
    once = summary([row for row in rows if row["repeat"] == 0], seed=0)["metrics"]["reward"]
    often = summary(rows, seed=0)["metrics"]["reward"]
    assert (often["low"], often["high"], often["prompts"]) == (once["low"], once["high"], 20)
    assert often["low"] < 0.0 < often["high"]


def judged_rows(unjudged: int) -> list[dict[str, object]]:
    """200 prompts: the policy solves none of the first half, of which so many could not be judged."""
    return [
        {
            "task": str(n), "repeat": 0, "side": side, "action": "a", "failed": "", "reward": None if lost else solved,
            "judged": "error" if lost else "passed", "signals": {} if lost else {"solved": solved},
        }
        for n in range(200)
        for side, solved in (("policy", float(n >= 100)), ("against", 1.0))
        for lost in [side == "policy" and n < unjudged]
    ]  # fmt: skip


def test_unjudged_answers_are_counted_and_refuse_a_verdict_above_one_percent() -> None:
    few = summary(judged_rows(2), seed=0)
    assert (few["unjudged"], few["refused"]) == ({"policy": 2, "against": 0}, "")
    assert few["metrics"]["solved"]["low"] is not None
    many = summary(judged_rows(100), seed=0)
    assert many["metrics"]["solved"]["difference"] == 0.0  # what remains looks as good as the other
    assert "100 of 200 answers" in many["refused"]
    assert many["metrics"]["solved"]["low"] is many["metrics"]["reward"]["high"] is None
    assert "refused" not in summary(judged_rows(0), seed=0)
