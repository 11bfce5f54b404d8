"""`headway generate` and `headway worker`, as typed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminal import headway, ran
from tests.kits.reply.tiny import make


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("tiny"), "llama", endless=True)


def test_a_text_is_continued_and_a_seed_repeats_it(empty: Path, model: Path) -> None:
    line = ("-C", empty, "generate", "Once upon", "--model", model, "--max-tokens", 12)
    first = headway(*line, "--seed", 5)
    assert first.code == 0
    assert first.out.rstrip("\n")
    assert headway(*line, "--seed", 5).out == first.out
    assert headway(*line, "--seed", 6).out != first.out
    assert "--seed" in headway(*line).err, "how to repeat the text"
    assert not (empty / ".headway").exists(), "nothing was recorded"


def test_json_has_tokens_and_both_log_probabilities(empty: Path, model: Path) -> None:
    report = headway(
        "-C", empty, "generate", "x", "--model", model, "--max-tokens", 5, "--n", 3, "--seed", 1, "--json"
    ).json
    assert set(report) == {"model", "completions"}
    assert report["model"] == model.name
    assert [completion["seed"] for completion in report["completions"]] == [1, 2, 3]
    for item in report["completions"]:
        assert len(item["tokens"]) == len(item["logprob_model"]) == len(item["logprob_acting"]) == 5
        assert item["finish"] == "length"


def test_streaming_prints_the_same(empty: Path, model: Path) -> None:
    line = ("-C", empty, "generate", "--chat", "hi", "--system", "Be brief.", "--model", model, "--seed", 2)
    line = (*line, "--max-tokens", 20)
    assert headway(*line, "--stream").out == headway(*line).out


def test_a_prompt_may_come_from_standard_input(empty: Path, model: Path) -> None:
    line = ("--model", model, "--max-tokens", 4, "--temperature", 0)
    typed = headway("-C", empty, "generate", "hello", *line)
    assert headway("-C", empty, "generate", "-", *line, stdin="hello").out == typed.out


def test_a_missing_model_names_the_command(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(empty))
    error = headway("-C", empty, "generate", "x", "--json").error
    assert error["code"] == "model_missing"
    assert "headway models add smollm2" in error["hint"]


def test_a_missing_extra_names_the_command(empty: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "broken" / "torch").mkdir(parents=True)
    (tmp_path / "broken" / "torch" / "__init__.py").write_text("raise ImportError('no torch', name='torch')", "utf-8")
    program = [sys.executable, "-m", "headway", "generate", "x", "--model", model, "--json"]
    done = ran(program, cwd=empty, PYTHONPATH=str(tmp_path / "broken"))
    assert done.code == 1
    assert done.error["code"] == "missing_extra"
    assert "headway[language]" in done.error["hint"]


@pytest.mark.parametrize("words", [("--stream", "--n", 2), ("--system", "x"), ("--temperature", -1), ("--top-p", 0)])
def test_contradictory_options_are_usage_errors(empty: Path, words: tuple[object, ...]) -> None:
    assert headway("-C", empty, "generate", "x", *words).code == 2


def test_a_worker_prints_its_socket_and_process_as_json(empty: Path) -> None:
    command = [sys.executable, "-m", "headway", "-C", empty, "worker", "--device", "cpu", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            document = json.loads("".join(iter(worker.stdout.readline, "}\n")) + "}")
            assert set(document) == {"socket", "pid", "stop", "next"}
            assert document["pid"] == worker.pid
            assert Path(document["socket"]).is_socket()
            worker.send_signal(signal.SIGINT)
            assert worker.wait(timeout=60) == 0
        finally:
            worker.kill()


@pytest.mark.slow
def test_the_command_uses_a_running_worker(empty: Path, model: Path) -> None:
    line = ("-C", empty, "generate", "Once upon", "--model", model, "--max-tokens", 12, "--seed", 5)
    alone = headway(*line)
    command = [sys.executable, "-m", "headway", "-C", empty, "worker", "--device", "cpu", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert "listens" in worker.stdout.readline()
            assert worker.stdout.readline().startswith("Next: headway")
            asked = headway(*line)
            assert "is loaded (cpu float32" in worker.stdout.readline()
            second = headway("-C", empty, "worker", "--json")
            worker.send_signal(signal.SIGINT)
            assert worker.wait(timeout=60) == 0
        finally:
            worker.kill()
    assert (asked.code, asked.out) == (0, alone.out)
    assert second.error["code"] == "already_running"
