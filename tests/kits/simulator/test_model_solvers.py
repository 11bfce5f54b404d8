"""Language models as solvers: an upstream that answers, one that is down, and a local model."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headway.kits.simulator.generate import generate
from headway.kits.simulator.problem import CodeProblem, write_problems
from headway.kits.simulator.run import check_solver, solution_of
from headway.kits.simulator.solvers import known_models, prompt_of
from headway.nouns.errors import HeadwayError, Unavailable
from tests.cli.terminal import headway

TOML = '[upstreams.coder]\nurl = "{url}/v1"\nmodel = "any"\ntimeout_s = 5\n'


class Coder(ThreadingHTTPServer):
    """An OpenAI-compatible server that answers with the reference of the problem that it is asked about."""

    def __init__(self, problems: list[CodeProblem]) -> None:
        self.answers = {prompt_of(problem): problem.reference for problem in problems}
        super().__init__(("127.0.0.1", 0), _Answer)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert isinstance(self.server, Coder)
        source = self.server.answers[asked["messages"][-1]["content"]]
        message = {"role": "assistant", "content": f"Here it is:\n```python\n{source}```\nDone."}
        body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": {}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Silence."""


@pytest.fixture
def problems() -> list[CodeProblem]:
    return list(generate(3, seed=12))


@pytest.fixture
def coder(problems: list[CodeProblem]) -> Iterator[Coder]:
    server = Coder(problems)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_prompt_has_the_statement_and_visible_tests_only(problems: list[CodeProblem]) -> None:
    for problem in problems:
        prompt = prompt_of(problem)
        assert problem.statement in prompt
        assert all(json.dumps(case.returns) in prompt for case in problem.visible)
        assert not any(f"({json.dumps(case.args[0])}) returns" in prompt for case in problem.hidden)
        assert prompt_of(problem, "Do it.").startswith("Do it.")


def test_an_upstream_writes_solutions_and_its_prose_is_left_out(
    tmp_path: Path, coder: Coder, problems: list[CodeProblem]
) -> None:
    (tmp_path / "headway.toml").write_text(TOML.format(url=coder.url))
    assert "coder" in known_models(tmp_path)
    check_solver("coder", tmp_path)
    assert solution_of("coder", problems[0], tmp_path).strip() == problems[0].reference.strip()


@pytest.mark.slow
def test_a_dead_upstream_is_an_error_and_is_asked_again_on_resume(
    tmp_path: Path, coder: Coder, problems: list[CodeProblem]
) -> None:
    write_problems(tmp_path / "problems.jsonl", problems[:1])
    (tmp_path / "headway.toml").write_text(TOML.format(url="http://127.0.0.1:9"))
    words = (
        "-C",
        tmp_path,
        "sim",
        "run",
        "--tasks",
        tmp_path / "problems.jsonl",
        "--solver",
        "coder",
        "--workers",
        "1",
    )
    down = headway(*words, "--json")
    if down.code and "error" in down.json and down.error["code"] == "sandbox_missing":
        pytest.skip("there is no sandbox here")
    assert (down.code, down.json["counts"]["error"]) == (1, 1)
    (tmp_path / "headway.toml").write_text(TOML.format(url=coder.url))
    again = headway(*words, "--json")
    assert (again.code, again.json["counts"]["passed"], again.json["resumed"]) == (0, 1, 0)


def test_unknown_and_missing_solvers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    with pytest.raises(HeadwayError, match="Did you mean 'smollm2'") as unknown:
        check_solver("smolm2", tmp_path)
    assert unknown.value.code == "unknown_solver"
    with pytest.raises(Unavailable) as missing:
        check_solver("smollm2", tmp_path)
    assert missing.value.code == "model_missing"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("model_cache")
def test_the_embedded_model_is_a_solver(tmp_path: Path, problems: list[CodeProblem]) -> None:
    check_solver("smollm2", tmp_path)
    source = solution_of("smollm2", problems[0], tmp_path)
    assert source == solution_of("smollm2", problems[0], tmp_path)
    assert problems[0].entry in source
    tasks = tmp_path / "problems.jsonl"
    write_problems(tasks, problems[:1])
    done = headway("-C", tmp_path, "sim", "run", "--tasks", tasks, "--solver", "smollm2", "--workers", "1", "--json")
    if done.code and "error" in done.json and done.error["code"] == "sandbox_missing":
        pytest.skip("there is no sandbox here")
    assert (done.code, done.json["problems"], done.json["counts"]["error"]) == (0, 1, 0)
    assert done.json["families"].keys() == {problems[0].family}
