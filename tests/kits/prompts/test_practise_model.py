"""Practice with a real model: learned from its answers, judged on held-out prompts, each text sent once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headway
from headway.kits.prompts import MUTATIONS
from headway.kits.prompts.answers import Remembered
from headway.kits.prompts.checked_prompts import corpus
from headway.kits.prompts.choosers import masks_of, parted, steps_from
from headway.kits.prompts.practise_model import practise_prompts
from headway.kits.sandbox import bubblewrap
from headway.nouns.errors import HeadwayError
from headway.nouns.records import Candidate, Situation
from tests.cli.terminal import headway as run
from tests.families import build, encoder
from tests.kits.reply.tiny import make
from tests.opinions import opinion_on
from tests.project.model_server import ModelServer, prompts_file


@pytest.fixture
def server() -> Iterator[ModelServer]:
    running = ModelServer()
    yield running
    running.stop()


@pytest.fixture
def folder(tmp_path: Path, server: ModelServer) -> Path:
    (tmp_path / "headway.toml").write_text(f'[upstreams.small]\nurl = "{server.url}"\nmodel = "tiny"\n', "utf-8")
    prompts_file(tmp_path / "mine.jsonl", 16)
    return tmp_path


def practise(folder: Path, **more: Any) -> Any:
    own = {"model": "small", "prompts": folder / "mine.jsonl", **more.pop("settings", {})}
    with headway.open(folder) as project:
        run, kept = practise_prompts(project, settings=own, **{"steps": 1024, **more})
    return SimpleNamespace(**asdict(run), kept_apart=kept)


def texts(folder: Path) -> set[str]:
    prompts = corpus(folder / "mine.jsonl")
    return {text for _, text in steps_from(prompts)} | {prompt.text for prompt in parted(prompts)[1]}


def learned(folder: Path, *words: str, code: int = 0) -> Any:
    done = run("-C", folder, "learn", "--world", "prompts", *words, "--json")
    assert done.code == code, done.out + done.err
    return done.json


def test_the_policy_beats_every_fixed_choice_on_held_out_prompts(folder: Path, server: ModelServer) -> None:
    prompts_file(folder / "mine.jsonl", 40)
    report = learned(
        folder, "--model", "small", "--prompts", str(folder / "mine.jsonl"), "--seed", "3", "--steps", "6144"
    )
    apart = report["kept_apart"]
    assert (apart["practised"], apart["prompts"]) == (32, 8)
    assert report["mean_return"] == apart["greedy"] == pytest.approx(1.0 - 0.0002 * 35)
    assert apart["passed"] == {"greedy": 1.0, "drawn": pytest.approx(1.0, abs=0.3), "uniform": pytest.approx(0.25,
        abs=0.051), "fixed": pytest.approx(0.5, abs=0.2), "unchanged": 0.0}  # fmt: skip
    assert apart["over_uniform"][1] > 0.5
    assert apart["over_fixed"][1] > 0.0
    assert apart["over_unchanged"] == pytest.approx([1.0, 1.0, 1.0]), "no unchanged prompt passes"
    assert not apart["estimated"]
    assert (apart["asked"], apart["recalled"]) == (len(texts(folder)), 0)
    assert sorted(server.asked) == sorted(texts(folder)), "each text once"
    with headway.open(folder) as project:
        digest = project.registry.find(report["policy"])
        header, tensors = project.registry.load(digest, task="mutate")
        assert report["policy"] in [entry.policy for entry in project.ledger.entries("mutate")]
    assert (header.family, header.trained_on["model"], header.trained_on["prompts"]) == ("actor_critic", "small", 32)
    assert header.metrics["mean_return"] == apart["greedy"]
    assert header.baselines == {name: apart[name] for name in ("uniform", "fixed", "unchanged")}
    policy = build(header.family, header.knobs, tensors, header.extra, encoder("hashing"))
    arms = [Candidate(name) for name in MUTATIONS]
    for text, best in (
        ("Please compute the total of 700 and 22.", "task-decomposition"),
        ("Please write a slogan for shop 99. Use the word 'word99'.", "constraint-addition"),
    ):
        shares = opinion_on(policy, Situation(task="mutate", text=text), arms).probabilities
        assert MUTATIONS[int(np.argmax(shares))] == best


def test_the_text_report_is_complete_and_a_second_run_sends_no_request(folder: Path, server: ModelServer) -> None:
    server.usage = None
    words = ("-C", folder, "learn", "--world", "prompts", "--model", "small", "--steps", "1024")
    words = (*words, "--prompts", folder / "mine.jsonl")
    first, second = run(*words), run(*words)
    count = len(texts(folder))
    assert f"small was asked {count} times, 0 answers were cached." in first.out
    assert f"small was asked 0 times, {count} answers were cached." in second.out
    assert len(server.asked) == count
    for text in (
        "uniform choice",
        "best in practice",
        "the prompt as it is",
        "95% interval",
        "too few prompts",
    ):
        assert text in first.out
    assert "estimated as a quarter of the characters" in first.out
    figures = [[line for line in done.out.splitlines()[1:] if " was asked " not in line] for done in (first, second)]
    assert figures[0] == figures[1], "the same policy, the same figures"


def test_an_interrupted_run_resumes(folder: Path, server: ModelServer) -> None:
    server.behave = lambda number, _: (401, {}, b"{}") if number > 20 else None
    with pytest.raises(HeadwayError, match="refused"):
        practise(folder)
    answered = 20
    server.behave = lambda *_: None
    del server.asked[:]

    def interrupt(what: str, done: int, of: int | None) -> None:
        assert of == len(texts(folder))
        if what == "answers" and done == answered + 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        practise(folder, progress=interrupt)
    assert 30 <= len(server.asked) <= 30 + 2 * 4, "only requests in flight are sent again"
    del server.asked[:]
    done = practise(folder)
    assert len(server.asked) == done.kept_apart.asked == len(texts(folder)) - answered - 30
    assert done.kept_apart.recalled == answered + 30


def test_the_prompt_of_a_truncated_line_is_sent_again_and_foreign_lines_are_skipped(
    folder: Path, server: ModelServer
) -> None:
    first = practise(folder)
    (path,) = (folder / ".headway" / "work" / "answers").iterdir()
    body = path.read_bytes()
    path.write_bytes(b'\xff\n{"key": 3}\n' + body[: body[:-1].rindex(b"\n") + 40])
    del server.asked[:]
    again = practise(folder)
    assert (len(server.asked), again.kept_apart.asked) == (1, 1)
    assert again.policy == first.policy
    del server.asked[:]
    assert practise(folder).kept_apart.asked == 0
    assert not server.asked
    assert path.stat().st_mode & 0o077 == 0


def test_another_check_is_applied_to_the_cached_answers(folder: Path, server: ModelServer) -> None:
    practise(folder)
    del server.asked[:]
    rows = [json.loads(line) for line in (folder / "mine.jsonl").read_text("utf-8").splitlines()]
    anything = [{**row, "check": {"kind": "words", "least": 1}} for row in rows]
    (folder / "mine.jsonl").write_text("\n".join(map(json.dumps, anything)), "utf-8")
    assert practise(folder).kept_apart.passed["unchanged"] == 1.0
    assert not server.asked


@pytest.mark.slow
def test_two_mutations_in_a_row_are_practised_and_judged_as_in_the_world(folder: Path, server: ModelServer) -> None:
    prompts_file(folder / "mine.jsonl", 10)
    report = learned(
        folder, "--model", "small", "--prompts", str(folder / "mine.jsonl"), "--set", "most_steps=2", "--steps", "1024"
    )
    apart = report["kept_apart"]
    assert apart["passed"]["uniform"] > 0.3, "a second try helps"
    assert apart["passed"]["uniform"] < 0.8
    assert apart["uniform"] < apart["greedy"] <= 1.0
    assert len(server.asked) == len(set(server.asked)) == apart["asked"]


@pytest.mark.slow
def test_a_local_model_answers_too(tmp_path: Path) -> None:
    model = make(tmp_path / "tiny", "llama", window=1024, endless=True)
    prompts_file(tmp_path / "mine.jsonl", 10)
    report = practise(tmp_path, settings={"model": str(model), "max_tokens": 4}).kept_apart
    assert report.prompts == 2
    assert report.asked > 30
    assert not report.estimated


def test_held_out_prompts_are_a_fifth_and_share_no_text_with_the_others(tmp_path: Path) -> None:
    prompts = corpus()
    practised, kept = parted(prompts)
    assert (len(practised), len(kept)) == (50, 13)
    assert parted(list(reversed(prompts)))[1] == list(reversed(kept)), "by the id, in any order"
    rows = [json.loads(line) for line in prompts_file(tmp_path / "mine.jsonl", 10).read_text("utf-8").splitlines()]
    twins = [*rows, *({**row, "id": f"{row['id']}-again"} for row in rows)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, twins)), "utf-8")
    practised, kept = parted(corpus(tmp_path / "mine.jsonl"))
    assert (len(practised), len(kept)) == (16, 4)
    assert not {prompt.text for prompt in practised} & {prompt.text for prompt in kept}
    assert masks_of([kept[0].text]).any()


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        ("{", "bad_corpus", "mine.jsonl:3 is not a prompt"),
        ('{"id": 1, "class": "sums", "text": "x", "check": {}}', "bad_corpus", "has the unknown class 'sums'"),
        ('{"id": 1, "class": "content", "text": " ", "check": {}}', "bad_corpus", "mine.jsonl:3 has no text"),
        ('{"id": 1, "class": "content", "text": "x", "check": {}}', "bad_check", "mine.jsonl:3: There is no check"),
        ('{"id": 1, "class": "content", "text": "x", "check": 5}', "bad_corpus", "mine.jsonl:3 has a check"),
        (
            '{"id": 1, "class": "content", "text": "x", "check": {"kind": "numeric", "value": "9"}}',
            "bad_corpus",
            "mine.jsonl:3 has a check",
        ),
        (
            '{"id": 1, "class": "content", "text": "x", "check": {"kind": "code", "function": "f", "cases": [3]}}',
            "bad_check",
            "mine.jsonl:3: A case",
        ),
        ('{"id": "sum-1", "class": "content", "text": "x", "check": {"kind": "words"}}', "bad_corpus", "duplicate id"),
    ],
)
def test_the_error_names_a_line_that_is_not_a_prompt(
    folder: Path, server: ModelServer, line: str, code: str, reason: str
) -> None:
    lines = (folder / "mine.jsonl").read_text("utf-8").splitlines()
    (folder / "mine.jsonl").write_text("\n".join([*lines[:2], line, *lines[2:]]), "utf-8")
    error = learned(folder, "--model", "small", "--prompts", str(folder / "mine.jsonl"), code=1)["error"]
    assert error["code"] == code
    assert reason in error["message"]
    assert not server.asked


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (("--model", "smol"), "model_missing", "[upstreams.smol]"),
        (("--model", "smollm2"), "model_missing", "headway models add smollm2"),
        (("--model", "http://127.0.0.1:1/v1"), "unknown_upstream", "[upstreams.NAME]"),
        (("--model", "keyed"), "missing_key", "NO_SUCH_KEY"),
        (("--model", "small", "--prompts", "few.jsonl"), "too_few_prompts", "one in five"),
        (("--model", "small", "--prompts", "none.jsonl"), "bad_corpus", "one prompt per line"),
        (("--model", "small", "--set", "most_steps=6"), "bad_knob", "another"),
        (("--model", "small", "--set", "max_tokens=many"), "bad_knob", "another"),
        (("--model", "small", "--set", "epoch=3"), "unknown_key", "epochs"),
    ],
)
def test_invalid_practice_is_refused_before_any_request(
    folder: Path,
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: str,
    hint: str,
) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(folder / "cache"))
    monkeypatch.chdir(folder)
    prompts_file(folder / "few.jsonl", 9)
    with (folder / "headway.toml").open("a") as file:
        file.write(f'[upstreams.keyed]\nurl = "{server.url}"\nmodel = "x"\nkey_env = "NO_SUCH_KEY"\n')
    error = learned(folder, *words, code=1)["error"]
    assert error["code"] == code
    assert hint in error["hint"]
    assert not server.asked


def test_code_is_never_checked_without_a_sandbox(
    folder: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))  # neither docker nor bwrap
    bubblewrap._program.cache_clear()
    try:
        error = learned(folder, "--model", "small", code=1)["error"]
    finally:
        bubblewrap._program.cache_clear()
    assert error["code"] == "sandbox_missing"
    assert "bubblewrap" in error["hint"]
    assert not server.asked, "some generated tasks are code"


@pytest.mark.parametrize(
    "words",
    [
        ("route", "--model", "small"),
        ("--world", "cartpole", "--model", "small"),
        ("--world", "prompts", "--prompts", "mine.jsonl"),
    ],
)
def test_model_and_prompts_options_are_refused_elsewhere(folder: Path, words: tuple[str, ...]) -> None:
    done = run("-C", folder, "learn", *words, "--json")
    assert (done.code, done.error["code"]) == (2, "usage")
    assert "--world prompts --model smollm2" in done.error["message"]


def test_only_greedy_answers_are_cached(tmp_path: Path, server: ModelServer) -> None:
    from headway.kits.models.chat_endpoint import ChatEndpoint
    from headway.kits.models.language import Prompt, Turn

    with ChatEndpoint("small", server.url, "tiny") as model:
        kept = Remembered(model, tmp_path / "answers.jsonl")
        with pytest.raises(HeadwayError, match="greedy"):
            kept.generate([Prompt(turns=(Turn("user", "hello"),), temperature=0.7)])
        twice = [Prompt(turns=(Turn("user", "hello"),), temperature=0.0, max_tokens=4)] * 2
        assert len({reply.text for reply in kept.generate(twice)}) == 1
    assert len(server.asked) == 1


@pytest.mark.slow
def test_practice_works_with_the_embedded_model(model_cache: Path, tmp_path: Path) -> None:
    assert (model_cache / "models" / "smollm2").is_dir()
    prompts_file(tmp_path / "mine.jsonl", 10)
    words = ("--model", "smollm2", "--prompts", str(tmp_path / "mine.jsonl"), "--set", "max_tokens=16")
    report = learned(tmp_path, *words)
    apart = report["kept_apart"]
    assert (apart["practised"], apart["prompts"]) == (8, 2)
    assert 40 <= apart["asked"] <= 52
    assert not apart["estimated"]
    assert -0.1 < report["mean_return"] < 1.0
    again = learned(tmp_path, *words)
    assert again["kept_apart"] == {**apart, "asked": 0, "recalled": apart["asked"]}
    assert again["policy"] == report["policy"]
