"""`headway models`, as typed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.terminal import headway, process
from tests.kits.models.test_models import hugging_face

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    """A hub with one model, with the endpoints that its clients use."""
    folder = hugging_face(tmp_path / "hub")
    sizes = [{"rfilename": path.name, "size": path.stat().st_size} for path in sorted(folder.iterdir())]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            content, status = b"", 404
            if path.startswith("/api/models/org/small"):
                status = 200
                content = json.dumps({"id": "org/small", "sha": COMMIT, "siblings": sizes}).encode()
            elif path.startswith(f"/org/small/resolve/{COMMIT}/"):
                status, content = 200, (folder / path.rpartition("/")[2]).read_bytes()
            self.send_response(status)
            for name, value in {
                "content-length": str(len(content)),
                "content-type": "application/json" if path.startswith("/api") else "application/octet-stream",
                "x-repo-commit": COMMIT,
                "etag": f'"{path.rpartition("/")[2]}"',
                **({"x-error-code": "RepoNotFound"} if status == 404 else {}),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_folder_is_added_listed_found_and_removed(cache: Path, tmp_path: Path) -> None:
    folder = hugging_face(tmp_path / "folder")
    done = headway("models", "add", folder, "--name", "mine")
    assert done.code == 0, done.err
    place = cache / "models" / "mine"
    assert done.out.splitlines() == [
        f"mine is in {place} (0 MB).",
        'Use it in headway.toml, in a task with kind = "reply": base = "mine"',
        "Next: headway models list",
    ]
    listed = headway("models", "list", "--json").json
    assert [(model["name"], model["kind"], model["problem"]) for model in listed["models"]] == [
        ("mine", "language", "")
    ]
    assert [model["name"] for model in listed["not_here"]] == ["minilm", "smollm2"]
    assert headway("models", "path", "mine").out == f"{place}\n"
    assert headway("models", "path").out == f"{cache / 'models'}\n"
    gone = headway("models", "remove", "mine")
    assert gone.out.splitlines()[-1] == f"Undo: headway models add {folder} --name mine"
    assert "There is no model in" in headway("models", "list").out


def test_damage_is_listed_with_the_command_that_repairs_it(cache: Path, tmp_path: Path) -> None:
    headway("models", "add", hugging_face(tmp_path / "folder"), "--name", "mine")
    (cache / "models" / "mine" / "model.safetensors").write_bytes(b"WEIGHTS")
    for words in (("models", "list"), ("models", "list", "--check")):
        listed = headway(*words)
        assert listed.code == 1
        assert "model.safetensors does not match its hash" in listed.out
        assert f"Next: headway models add {tmp_path / 'folder'} --name mine" in listed.out
    assert headway("models", "path", "mine", "--json").error["code"] == "model_damaged"
    assert headway("models", "add", tmp_path / "folder", "--name", "mine").code == 0
    assert headway("models", "list").code == 0


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (("add", "smolm2"), "model_unknown", "Did you mean 'smollm2'?"),
        (("add", "./nowhere"), "no_folder", "Check the path."),
        (("path", "smollm2"), "model_missing", "headway models add smollm2"),
        (("remove", "smollm2"), "model_missing", ""),
        (("add", "minilm", "smollm2", "--name", "x"), "bad_model_name", "one by one"),
        (("add", "minilm", "--name", "x"), "bad_model_name", "folders and hub names"),
    ],
)
def test_invalid_commands_have_hints(cache: Path, words: tuple[str, ...], code: str, hint: str) -> None:
    error = headway("models", *words, "--json").error
    assert error["code"] == code
    assert hint in error["hint"]


def test_a_hub_name_is_fetched_without_its_pickles(cache: Path, hub: str, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    done = process("models", "add", "org/small", "--name", "mine", "--json", cwd=tmp_path, HF_ENDPOINT=hub)
    assert done.code == 0, done.out + done.err
    (model,) = done.json["models"]
    assert model["source"] == {"hub": "org/small", "revision": COMMIT}
    there = {path.name for path in Path(model["folder"]).iterdir()}
    assert there == {"config.json", "tokenizer.json", "model.safetensors", "headway-model.json"}
    assert headway("models", "path", "org/small").out.strip() == model["folder"]
    missing = process("models", "add", "org/none", "--json", cwd=tmp_path, HF_ENDPOINT=hub)
    assert missing.error["code"] == "model_unknown"


def test_an_unreachable_hub_is_a_clear_error(cache: Path, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    done = process("models", "add", "org/small", "--json", cwd=tmp_path, HF_ENDPOINT="http://127.0.0.1:9")
    assert done.error["code"] == "hub_unreachable"
    assert "./folder" in done.error["hint"]
    assert headway("models", "list", "--json").json["models"] == []


def test_the_doctor_checks_models_and_encoders(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(
        '[tasks.route]\nencoder = "minilm"\n'
        '[tasks.mail]\nencoder = { url = "http://127.0.0.1:9/v1", model = "m", key_env = "EMBED_KEY" }\n'
    )
    headway("models", "add", hugging_face(tmp_path / "folder"), "--name", "mine")
    (cache / "models" / "mine" / "config.json").unlink()
    done = headway("-C", tmp_path, "doctor", "--json")
    checks = {check["name"]: (check["ok"], check["cure"]) for check in done.json["checks"]}
    assert done.code == 1
    assert checks["encoder of route"] == (False, "Add it with `headway models add minilm`.")
    assert checks["encoder of mail"][0] is False
    assert "export EMBED_KEY" in checks["encoder of mail"][1]
    assert checks["model mine"][0] is False
