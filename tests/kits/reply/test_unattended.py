"""The loop trains reply tasks alone: judged, resumed after kill -9, roles apart, never in the way of a rating."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.kits.models.language import Prompt, Turn
from headway.kits.reply.kept import KeptReply, to_details
from headway.kits.runs.training_runs import list_runs
from headway.loop.watch import Watch
from headway.nouns.errors import InvalidInput, MissingExtra
from headway.project import Project
from tests.kits.reply.rated import tuned_model
from tests.kits.reply.tiny import make

torch = pytest.importorskip("torch")

LEARN = '{ device = "cpu", rank = 4, alpha = 8.0, epochs = 2, anchors = 1, baseline = false, checkpoint = 1 }'
WATCH = "[watch]\ninterval_s = 1\nfree_memory_mb = 0\nfree_disk_mb = 0\nmax_load = 0\n"


@pytest.fixture(scope="module")
def base(tiny: Path) -> Any:
    return tuned_model(tiny)


def settings(folder: Path, model: Path, *tasks: str) -> Path:
    parts = [
        f'[tasks.{task}]\nkind = "reply"\nbase = "{model}"\nretrain_after = 20\nlearn = {LEARN}\n'
        for task in tasks or ("reply",)
    ]
    (folder / "headway.toml").write_text(WATCH + "".join(parts))
    return folder


def rate(project: Project, base: Any, count: int = 30, task: str = "reply", odd: int = 0) -> list[str]:
    """Stores replies of the base and rates them by their first token; all are given a fixed time."""
    prompts = [Prompt(turns=(Turn("user", f"about {place}?"),), max_tokens=6, seed=place) for place in range(count)]
    ids = []
    for prompt, reply in zip(prompts, base.generate_base(prompts), strict=True):
        kept = KeptReply.of(reply, prompt.turns, base=base.base_hash, template=base.template_hash)
        considered = project.consider(task, prompt.turns[0].content)
        decision = project.submit([considered._replace(details=to_details(kept))]).result()[0]
        project.signal(decision.id, stars=5 if reply.tokens[0] % 2 == odd else 1, rater="ann")
        ids.append(decision.id)
    return ids


def tensors(project: Project, task: str = "reply") -> Any:
    newest = project.ledger.last(task, "candidate", "shadow")
    assert newest is not None
    return project.registry.load(newest.policy_hash, task=task)[1]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_thirty_ratings_are_learned_from_and_judged_with_reasons_by_the_loop_alone(
    tmp_path: Path, tiny: Path, base: Any
) -> None:
    with headway.open(settings(tmp_path, tiny)) as project:
        rate(project, base)
    with Watch(tmp_path, environ={}) as watch:
        (check,) = watch.check()
    assert check.done is not None, str(check)
    assert check.done.learned is not None
    with headway.open(tmp_path) as project:
        standing = project.standing("reply")
        assert standing.current.ref == "base@0", "nothing is promoted that nobody has voted for"
        (run,) = list_runs(project.home)
        assert (run.policy, run.state) == (check.done.learned, "done")
        # A random model repeats itself, so its own checks may refuse it; otherwise it waits for votes.
        verdict = check.done.verdict
        assert verdict is None or (verdict.state == "refused" and verdict.reasons)


def kill_after_three_updates(process: subprocess.Popen[Any], folder: Path) -> Path:
    """Kills what trains, and gives its metrics."""
    lines = folder / ".headway" / "work" / "learn-reply-language" / "metrics.jsonl"
    deadline = time.monotonic() + 300
    while not lines.exists() or len(lines.read_bytes().splitlines()) < 3:
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return lines


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_headway_learn_carries_on_a_training_that_was_killed(tmp_path: Path, tiny: Path, base: Any) -> None:
    with headway.open(settings(tmp_path, tiny)) as project:
        rate(project, base)
    line = [sys.executable, "-m", "headway", "-C", tmp_path, "learn", "reply"]
    training = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = kill_after_three_updates(training, tmp_path)
    lines.write_text(lines.read_text("utf-8").replace('{"update": 1,', '{"update": 1, "before": 1,'), "utf-8")
    done = subprocess.run(line, capture_output=True, text=True, encoding="utf-8", check=True)
    assert "language@" in done.stdout
    home = tmp_path / ".headway"
    metrics = home / "work" / list_runs(home)[0].run / "metrics.jsonl"
    first, *others = metrics.read_text("utf-8").splitlines()
    assert '"before": 1' in first, "the first update is that of the training that was killed"
    assert len(others) > 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_loop_that_is_killed_while_it_trains_ends_with_the_same_adapter(
    tmp_path: Path, tiny: Path, base: Any
) -> None:
    folders = [settings(folder, tiny) for folder in (tmp_path / "whole", tmp_path / "killed") if not folder.mkdir()]
    for folder in folders:
        with headway.open(folder) as project:
            rate(project, base)
    with Watch(folders[0], environ={}) as watch:
        watch.check()
    process = subprocess.Popen(
        [sys.executable, "-m", "headway", "-C", folders[1], "watch", "--once"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    lines = kill_after_three_updates(process, folders[1])
    made = json.loads((lines.parent / "run.json").read_bytes())["counts"]["updates"]
    assert made >= 1
    with Watch(folders[1], environ={}) as watch:
        watch.check()
    both = []
    for folder in folders:
        with headway.open(folder) as project:
            both.append(tensors(project))
            assert not (project.home / "work" / "learn-reply-language").exists()
    assert all(np.array_equal(both[0][name], both[1][name]) for name in both[0])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_roles_share_no_weight(tmp_path: Path, tiny: Path, base: Any) -> None:
    file = settings(tmp_path, tiny, "reply", "code") / "headway.toml"
    file.write_text(file.read_text("utf-8").replace("retrain_after", 'gate = "off"\nretrain_after'))
    with headway.open(tmp_path) as project:
        rate(project, base, task="reply")
        rate(project, base, task="code", odd=1)
        first, second = project.learn("reply"), project.learn("code")
        mine, other = tensors(project), tensors(project, "code")
        assert any(not np.array_equal(mine[name], other[name]) for name in mine)
        project.promote(first, task="reply")
        assert project.standing("reply").current.ref == first
        assert project.standing("code").current.ref == "base@0"
        assert project.consider("code", "Who?").decision.action == "base@0"
        again = project.registry.load(project.registry.find(project.learn("code", seed=0)), task="code")[1]
        assert all(np.array_equal(other[name], again[name]) for name in other), second


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_rating_is_stored_while_training_runs(tmp_path: Path, tiny: Path, base: Any) -> None:
    with headway.open(settings(tmp_path, tiny)) as project, headway.open(tmp_path) as other:
        ids = rate(project, base)
        seen: list[float] = []

        def meanwhile(stage: str, done: int, total: int | None) -> None:
            if stage.startswith("learn") and not seen:
                other.signal(ids[0], stars=3, rater="bob")
                seen.append(done)

        project.learn("reply", progress=meanwhile)
        assert seen == [1], "it was rated after the first update"
        live = [(signal.rater, signal.value) for signal in other.query.signals(ids[0], live=True)]
        assert ("bob", 3.0) in live


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_replies_of_another_base_and_a_folder_that_cannot_be_trained_are_refused(
    tmp_path: Path, tiny: Path, base: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = make(tmp_path_factory.mktemp("other"), "qwen2")
    with headway.open(settings(tmp_path, other)) as project:
        rate(project, base)
        with pytest.raises(InvalidInput) as raised:
            project.learn("reply")
        assert raised.value.code == "too_few_ratings", "no reply is of this base"
    plain = make(tmp_path_factory.mktemp("gpt2"), "gpt2")
    settings(tmp_path, plain)
    with headway.open(tmp_path) as project:
        with pytest.raises(InvalidInput) as raised:
            project.learn("reply")
        assert raised.value.code == "model_not_trainable"
        assert "Llama" in raised.value.hint
        assert project.ledger.last("reply", "candidate", "shadow") is None, "nothing is half written"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_without_torch_learning_names_the_extra_and_without_memory_a_question_fails_alone(
    tmp_path: Path, tiny: Path, base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headway.kits.reply.client import LanguageWorker
    from headway.kits.reply.model import LanguageModel
    from headway.nouns.errors import Unavailable
    from tests.kits.reply.test_worker import working

    with headway.open(settings(tmp_path, tiny)) as project:
        rate(project, base)
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "torch", None)
            for name in [name for name in sys.modules if name.startswith("headway.kits.reply.l")]:
                patch.delitem(sys.modules, name)
            with pytest.raises(MissingExtra) as raised:
                project.learn("reply")
        assert "headway[language]" in raised.value.hint
    prompt = Prompt(text="a", max_tokens=2, temperature=0)
    with working(tmp_path / "worker"):
        worker = LanguageWorker(tmp_path / "worker", tiny)

        def full(*_: Any, **__: Any) -> Any:
            raise MemoryError("no memory")

        with monkeypatch.context() as patch:
            patch.setattr(LanguageModel, "request", full)
            with pytest.raises(Unavailable) as failed:
                worker.generate([prompt])
        assert failed.value.code == "no_memory"
        assert "run out of memory" in failed.value.message
        assert len(worker.generate([prompt])[0].tokens) >= 1, "the worker lives on"
