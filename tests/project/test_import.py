"""Imported history: a consistent report, no invented values, no partial or duplicate rows."""

from __future__ import annotations

import json
import math
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.kits.formats.export_sage import writer
from headway.nouns.errors import HeadwayError, InvalidInput
from headway.project import Project
from tests.project.imports import INTERACTION, adds_up, lines, sage_row, stored

JFL = '[tasks.next-action]\nkind = "ranking"\nfamily = "bandit"\nreward = { composite_delta = 1.0 }\n'


def test_the_real_buffer_has_both_shapes_and_ten_labels_of_which_nine_leak(shared_data: Path, tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(JFL, "utf-8")
    with Project(tmp_path) as project:
        report = project.import_file(shared_data / "jfl" / "training-buffer.jsonl")
        assert (report.read, report.labelled, dict(report.schemas)) == (31, 10, {"round": 10, "review": 21})
        assert report.leaks is not None
        assert (report.leaks.flagged, report.leaks.labelled) == (9, 10)
        assert [leak.message for leak in report.leaks.found] == [
            "recent_deltas[-1] is the label (composite_delta) in 9 of 9 rows"
        ]
        assert (report.stored, report.conflicts) == (30, 1), "one review id occurs twice, with different scores"
        assert report.clashes[0].line == 28
        assert adds_up(report)
        again = project.import_file(shared_data / "jfl" / "training-buffer.jsonl")
        assert (again.stored, again.already, again.conflicts) == (0, 30, 1)
        project.settle("next-action")
        assert project.leaks("next-action").fields == ("recent_deltas",)


def words(rng: random.Random) -> str:
    return " ".join("".join(rng.choices("abcdefghij", k=5)) for _ in range(3))


@pytest.mark.parametrize("prompts", [1, 130])
def test_rows_in_which_only_a_number_is_new_prove_nothing(tmp_path: Path, prompts: int) -> None:
    """Every prompt has an outcome of its own that can only be learned by heart."""
    rng = random.Random(5)
    known = [(words(rng), float(rng.random() < 0.5)) for _ in range(prompts)]
    rows = [
        {"text": f"{text} {n}", "action": rng.choice(["small", "large"]), "reward": worth, "id": n}
        for n, (text, worth) in enumerate(known * (1300 // prompts))
    ]
    with Project(tmp_path) as project:
        project.import_file(
            lines(tmp_path / "log.jsonl", rows),
            task="route",
            columns={"propensity": "unknown"},
            candidates=("small", "large"),
        )
        ref = project.learn("route")
        header = project.registry.header(project.registry.find(ref))
        assert header.split["by"] == ("kin" if prompts > 1 else "group")
        if prompts == 1:
            with pytest.raises(InvalidInput, match="near-copies of training rows") as raised:
                project.prove(ref)
            assert "only a number is new" in str(raised.value.hint)
            return
        verdict = project.prove(ref)
        assert not verdict.passed
        assert verdict.evidence is not None
        assert 20 <= verdict.evidence.n <= 80, "near-copies count once, and only of prompts that nobody has read"


def test_history_without_propensities_is_judged_on_held_out_rows_and_noise_proves_nothing(tmp_path: Path) -> None:
    rng = random.Random(3)
    rows = [
        {"text": words(rng), "action": rng.choice(["small", "large"]), "reward": rng.random(), "id": n}
        for n in range(300)
    ]
    with Project(tmp_path) as project:
        report = project.import_file(
            lines(tmp_path / "log.jsonl", rows),
            task="route",
            columns={"propensity": "unknown"},
            candidates=("small", "large"),
        )
        assert (report.stored, report.unknown_propensity) == (300, 300)
        ref = project.learn("route")
        verdict = project.prove(ref)
        assert verdict.evidence is not None
        assert verdict.evidence.kind == "heldout"
        assert not verdict.passed


def test_a_proof_counts_the_rows_that_it_omits(tmp_path: Path) -> None:
    rng = random.Random(5)
    rows = []
    for n in range(600):
        action = rng.choice(["small", "large"])
        row = {"text": f"ask {n}", "action": action, "reward": rng.random() * (action == "large"), "id": n}
        rows.append({**row, "propensity": 0.5} if n % 3 else row)
    with Project(tmp_path) as project:
        path = lines(tmp_path / "log.jsonl", rows)
        columns = {"propensity": "propensity"}
        project.import_file(path, task="route", columns=columns, candidates=("small", "large"))
        verdict = project.prove(project.learn("route"))
        left = verdict.evidence.counts["with unknown propensity"]
        assert 30 < left < 140, "a third of the held-out part"
        assert not any(math.isnan(value.value) for value in verdict.evidence.values.values())


def test_leaky_fields_are_omitted_from_learning_and_named_in_the_bundle(tmp_path: Path) -> None:
    rng = random.Random(7)
    rows = []
    for n in range(400):
        reward = round(rng.random(), 3)
        rows.append(
            {"id": n, "text": f"case {n} ended {reward:.3f}", "action": rng.choice("ab"), "reward": reward,
             "state_after": reward, "size": rng.randint(1, 9)}
        )  # fmt: skip
    with Project(tmp_path) as project:
        columns = {"propensity": "unknown", "state.after": "state_after", "state.size": "size"}
        path = lines(tmp_path / "log.jsonl", rows)
        report = project.import_file(path, task="route", columns=columns, candidates="ab")
        assert report.leaks is not None
        assert report.leaks.fields == ("after", "text:numbers")
        header = project.registry.header(project.registry.find(project.learn("route")))
        assert header.trained_on["left_out"] == ["after", "text:numbers"]
        assert header.extra["features"]["numbers"] == ["size"]
        trusted = project.registry.header(project.registry.find(project.learn("route", trust=["after"])))
        assert trusted.trained_on["left_out"] == ["text:numbers"]
        assert trusted.extra["features"]["numbers"] == ["after", "size"]


def test_mined_labels_are_read_only_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(JFL, "utf-8")
    entry = {"session": "s", "type": "fix", "title": "Mend it", "status": "complete"}
    rows = [{**entry, "ts": f"2026-0{1 + n % 9}-{10 + n // 9}T00:00:00Z", "title": f"Mend {n}"} for n in range(90)]
    with Project(tmp_path) as project:
        report = project.import_file(lines(tmp_path / "journal.jsonl", rows))
        assert dict(report.sources) == {"mined": 90}
        with pytest.raises(InvalidInput) as error:
            project.learn("next-action")
        assert error.value.code == "nothing_to_learn"
        header = project.registry.header(project.registry.find(project.learn("next-action", mined=True)))
        assert set(header.trained_on["sources"]) == {"mined"}
        assert project.leaks("next-action").labelled == 0
        assert project.query.count_settled("next-action") == 0, "they make no retraining due"
        assert project.due("next-action") == 50


def test_a_live_policy_does_not_fold_mined_labels(tmp_path: Path) -> None:
    toml = (
        '[tasks.route]\nactions = ["a", "b"]\nonline = "live"\ngate = "off"\n' + "reward = { composite_delta = 1.0 }\n"
    )
    (tmp_path / "headway.toml").write_text(toml, "utf-8")
    entry = {"session": "s", "type": "fix", "status": "complete", "ts": "2026-01-01T00:00:00Z"}
    with Project(tmp_path, seed=3) as project:
        for n in range(80):
            project.signal(project.decide("route", f"{n}").id, composite_delta=0.1)
        project.promote(project.learn("route"))
        project.fold("route")

        def rows() -> float:
            return float(
                project.registry.header(project.servings.of(project.settings.task("route")).digest).metrics["rows"]
            )

        before = rows()
        journal = [{**entry, "title": f"Mend {n}", "score_delta": 0.5} for n in range(30)]
        project.import_file(lines(tmp_path / "journal.jsonl", journal), task="route")
        project.settle("route")
        assert project.query.counts("route").by_status["rewarded"] == 110
        project.fold("route")
        assert rows() == before
        project.signal(project.decide("route", "more").id, composite_delta=0.1)
        project.fold("route")
        assert rows() == before + 1


def test_mined_labels_are_reported_separately(tmp_path: Path) -> None:
    from headway.kits.raters.commands.analyze import distribution

    (tmp_path / "headway.toml").write_text(JFL, "utf-8")
    entry = {"session": "s", "type": "fix", "title": "Mend it", "status": "complete", "ts": "2026-01-01T00:00:00Z"}
    with Project(tmp_path) as project:
        project.import_file(lines(tmp_path / "journal.jsonl", [entry]))
        pick = project.record("next-action", "", [{"name": "x", "type": "fix"}], action="x", propensity=1.0)
        project.signal(pick.id, composite_delta=0.5)
        project.settle("next-action")
        rewards = distribution(project.database, project.query, "next-action", low=-1.0, high=1.0)
        assert (rewards.whole.decisions, rewards.whole.mean) == (1, 0.5)
        assert {name: group.mean for name, group in rewards.groups["source"].items()} == {
            "imported": 0.5,
            "mined": 0.015,
        }


def test_a_bad_line_stops_before_anything_is_stored(project: Project, tmp_path: Path) -> None:
    rows = [{**INTERACTION, "prompt": f"{n}"} for n in range(2500)]
    rows[2400]["reward"] = "four"
    path = lines(tmp_path / "log.jsonl", rows)
    with pytest.raises(InvalidInput) as error:
        project.import_file(path)
    assert "log.jsonl line 2401: reward is 'four', expected a number." in error.value.message
    assert "Nothing was stored." in error.value.message
    assert stored(project) == 0
    report = project.import_file(path, on_error="skip")
    assert (report.stored, report.rejected) == (2499, 1)
    assert [(problem.line, problem.field) for problem in report.problems] == [(2401, "reward")]
    assert adds_up(report)


def test_a_dry_run_reports_and_stores_nothing(project: Project, tmp_path: Path) -> None:
    path = lines(tmp_path / "log.jsonl", [INTERACTION, {"prompt": 5, "response": "x"}, {**INTERACTION, "prompt": "B"}])
    report = project.import_file(path, dry_run=True)
    assert (report.stored, report.rejected, stored(project)) == (2, 1, 0)
    assert adds_up(report)


def test_importing_a_longer_log_adds_new_rows_and_late_rewards(project: Project, tmp_path: Path) -> None:
    path = lines(tmp_path / "log.jsonl", [{**INTERACTION, "reward": None}])
    first = project.import_file(path)
    assert (first.stored, first.labelled) == (1, 0)
    grown = project.import_file(lines(path, [INTERACTION, {**INTERACTION, "prompt": "How?"}]))
    assert (grown.stored, grown.late, grown.already) == (1, 1, 0)
    project.settle("reply")
    assert project.query.counts("reply").by_status["rewarded"] == 2


def test_an_invalid_signal_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[tasks.reply]\nreward = { rating = "stars" }\n', "utf-8")
    with Project(tmp_path) as project:
        path = lines(tmp_path / "log.jsonl", [{**INTERACTION, "rating": 4}, {**INTERACTION, "rating": 9}])
        with pytest.raises(InvalidInput, match=r"log.jsonl line 2"):
            project.import_file(path)
        with pytest.raises(HeadwayError) as error:
            project.import_file(path, task="replies")
        assert error.value.code == "unknown_task"


def test_nothing_in_a_synthetic_store_can_be_marked_as_real(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text("[store]\nsynthetic = true\n", "utf-8")
    with Project(tmp_path) as project:
        report = project.import_file(lines(tmp_path / "log.jsonl", [INTERACTION]))
        assert dict(report.sources) == {"synthetic": 1}


@pytest.mark.engines("sqlite", why="it reads the bytes of the file")
def test_secrets_are_redacted_on_import(project: Project, tmp_path: Path) -> None:
    secret = "sk-proj-abcdefghijklmnop1234567890ABCD"
    project.import_file(lines(tmp_path / "log.jsonl", [{**INTERACTION, "prompt": f"use {secret}", "response": secret}]))
    project.import_file(lines(tmp_path / "rows.jsonl", [{**sage_row(1), "state": {"note": f"key {secret}"}}]))
    for path in (project.home / "headway.db", project.home / "headway.db-wal"):
        assert secret.encode() not in path.read_bytes()
    (decision,) = project.query.decisions("reply")
    assert "[redacted:" in decision.situation.text
    assert project.import_file(tmp_path / "log.jsonl").already == 1


# -- round trips


def test_routing_rows_are_exported_byte_for_byte(project: Project, tmp_path: Path) -> None:
    from headway.kits.data.exporter import ExportFilter, export

    path = tmp_path / "routing_v1.jsonl"
    path.write_text("".join(json.dumps(sage_row(n), ensure_ascii=False) + "\n" for n in range(120)), "utf-8")
    report = project.import_file(path)
    assert (report.format, report.stored) == ("sage-routing", 120)
    back = tmp_path / "back.jsonl"
    manifest = export(
        project.database, project.query, back, ExportFilter(), format="sage-routing", writer=writer, now=project.clock()
    )
    assert back.read_bytes() == path.read_bytes()
    assert (manifest["decisions"], manifest["left_out"]) == (120, {})


def test_a_replaced_reward_is_exported_and_a_withdrawn_one_is_not(project: Project, tmp_path: Path) -> None:
    from headway.kits.data.exporter import ExportFilter, export

    project.import_file(lines(tmp_path / "rows.jsonl", [sage_row(1), sage_row(2), sage_row(3)]))
    first, second, _ = project.query.decisions("route")
    project.signal(first.id, reward=0.125)
    project.withdraw(second.id, "reward")
    back = tmp_path / "back.jsonl"
    manifest = export(
        project.database, project.query, back, ExportFilter(), format="sage-routing", writer=writer, now=project.clock()
    )
    rows = [json.loads(line) for line in back.read_text("utf-8").splitlines()]
    assert rows == [{**sage_row(1), "reward": 0.125}, sage_row(3)]
    assert manifest["left_out"] == {"reward withdrawn": 1}


def test_our_own_decisions_can_be_written_as_routing_rows_and_read_again(project: Project, tmp_path: Path) -> None:
    from headway.kits.data.exporter import ExportFilter, export

    for n in range(20):
        pick = project.decide(
            "route", f"{n}", ["small", "large"], state={"task_complexity_score": n / 20}, role="coder"
        )
        if n < 15:
            project.signal(pick.id, reward=n / 20)
    project.decide("route", "three", ["a", "b", "c"])
    project.settle("route")
    back = tmp_path / "route.jsonl"
    manifest = export(
        project.database, project.query, back, ExportFilter(), format="sage-routing", writer=writer, now=project.clock()
    )
    assert (manifest["decisions"], manifest["left_out"]) == (15, {"no reward": 6})
    with Project(tmp_path / "other") as other:
        assert other.import_file(back).stored == 15


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_our_own_export_is_imported_with_ids_probabilities_and_signals(
    project: Project, tmp_path: Path, kind: Any
) -> None:
    from headway.kits.data.exporter import ExportFilter, export

    for n in range(30):
        pick = project.decide(
            "route", f"=ask {n}", ["small", {"name": "large", "cost": 0.5}], state={"x": n, "v": [1, 2]}
        )
        project.signal(pick.id, {"solved": n / 30}, rater="bob", key=f"k{n}")
        project.signal(pick.id, reward=0.5)
    path = tmp_path / f"out.{kind}"
    export(project.database, project.query, path, ExportFilter(), format=kind, now=project.clock())
    with Project(tmp_path / "other") as other:
        report = other.import_file(path)
        assert (report.format, report.stored, report.unknown_propensity) == ("headway", 30, 0)
        exported, imported = list(project.query.decisions("route")), list(other.query.decisions("route"))
        assert [decision.id for decision in exported] == [decision.id for decision in imported]
        assert [decision.probabilities for decision in exported] == [decision.probabilities for decision in imported]
        assert [decision.situation for decision in exported] == [decision.situation for decision in imported]

        def signals_of(opened: Project) -> list[Any]:
            signals = [opened.query.signals(decision.id) for decision in imported]
            return [
                [(signal.name, signal.value, signal.rater, signal.key, signal.at) for signal in row] for row in signals
            ]

        assert signals_of(project) == signals_of(other)
    assert project.import_file(path).already == 30, "the project recognises its own decisions"


# -- killed


def killed_import(folder: Path, path: Path, ready: Callable[[], bool]) -> bool:
    """Starts an import in a separate process and kills it once `ready`; returns whether it was still running."""
    code = "import sys; from pathlib import Path; from headway.project import Project\n"
    code += "with Project(Path(sys.argv[1])) as p: p.import_file(sys.argv[2])\n"
    process = subprocess.Popen([sys.executable, "-c", code, folder, path])
    try:
        while process.poll() is None and not ready():
            time.sleep(0.002)
        running = process.poll() is None
        process.send_signal(signal.SIGKILL)
    finally:
        process.wait()
    return running


def kill_and_resume(folder: Path, path: Path, count: int, after: list[int]) -> None:
    import sqlite3

    database = folder / ".headway" / "headway.db"

    def decisions() -> int:
        if not database.exists():
            return 0
        connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        try:
            return int(connection.execute("SELECT COUNT(*) FROM decisions").fetchone()[0])
        except sqlite3.OperationalError:  # not migrated yet
            return 0
        finally:
            connection.close()

    for limit in after:
        assert killed_import(folder, path, lambda limit=limit: decisions() >= limit), "it had already ended"
        left = decisions()
        assert limit <= left < count
        assert left % 1000 == 0, "a batch is stored completely or not at all"
    with Project(folder) as project:
        before = stored(project)
        report = project.import_file(path)
        assert (report.stored, report.already) == (count - before, before)
        for table in ("decisions", "signals", "imported"):
            assert project.database.query(f"SELECT COUNT(*) FROM {table}") == [(count,)]
        texts = project.database.query("SELECT COUNT(DISTINCT text) FROM decisions")
        assert texts == [(count,)]


@pytest.mark.slow
def test_an_import_that_is_killed_is_finished_by_the_next_one(tmp_path: Path) -> None:
    path = lines(tmp_path / "log.jsonl", [{**INTERACTION, "prompt": f"{n}"} for n in range(40_000)])
    folder = tmp_path / "project"
    folder.mkdir()
    kill_and_resume(folder, path, 40_000, [1000])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_large_import_killed_five_times_loses_nothing_and_adds_nothing_twice(tmp_path: Path) -> None:
    path = lines(tmp_path / "log.jsonl", [{**INTERACTION, "prompt": f"{n}"} for n in range(150_000)])
    folder = tmp_path / "project"
    folder.mkdir()
    kill_and_resume(folder, path, 150_000, [1000, 20_000, 60_000, 90_000, 130_000])
