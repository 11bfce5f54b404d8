"""A worker that `headway up` is starting: questions wait for it, and nobody waits for one that will not come."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headway.kits.models.language import Prompt
from headway.kits.reply.client import AsyncLanguageWorker, LanguageWorker
from headway.kits.reply.worker import local_bases, needs_worker
from headway.loop.lock import held
from headway.loop.supervisor import LOCK
from headway.nouns.errors import Unavailable
from headway.settings import load
from tests.kits.reply.test_worker import working
from tests.loop.running import until

PROMPT = Prompt(text="a", max_tokens=2, seed=1)


def missing(folder: Path, **how: float) -> Unavailable:
    with pytest.raises(Unavailable) as raised:
        LanguageWorker(folder, "tiny", **how).generate([PROMPT])
    with pytest.raises(Unavailable) as again:
        asyncio.run(AsyncLanguageWorker(folder, "tiny", **how).generate([PROMPT]))
    assert (again.value.code, again.value.hint) == (raised.value.code, raised.value.hint)
    assert raised.value.code == "worker_missing"
    return raised.value


def test_questions_wait_for_the_worker_that_up_starts(tmp_path: Path, tiny: Path) -> None:
    (tmp_path / ".headway").mkdir()
    with held(tmp_path / ".headway" / LOCK, "headway up") as note, ThreadPoolExecutor(2) as threads:
        note({"workers": ["worker"]})
        asked = [
            threads.submit(lambda: LanguageWorker(tmp_path, tiny).generate([PROMPT])),
            threads.submit(lambda: asyncio.run(AsyncLanguageWorker(tmp_path, tiny).generate([PROMPT]))),
        ]
        until(lambda: all(one.running() for one in asked), "both have asked")
        with working(tmp_path):
            first, second = (one.result(60) for one in asked)
    assert first[0].tokens == second[0].tokens
    assert len(first[0].tokens) == 2


def test_nobody_waits_where_no_worker_is_started(tmp_path: Path) -> None:
    assert "headway worker" in missing(tmp_path).hint
    (tmp_path / ".headway").mkdir()
    with held(tmp_path / ".headway" / LOCK, "headway up") as note:
        note({"workers": []})
        assert missing(tmp_path).hint == "Start `headway up` again: this task was declared after it."
        note({"workers": ["worker"]})
        late = missing(tmp_path, deadline_s=0.1)
        assert "still starting" in late.message
        assert "worker.log" in late.hint
        with pytest.raises(Unavailable):
            LanguageWorker(tmp_path, "tiny").health()


def test_a_worker_is_needed_for_local_models_only(tmp_path: Path) -> None:
    far = '[upstreams.far]\nurl = "http://127.0.0.1:1/v1"\nmodel = "m"\n[tasks.reply]\nkind = "reply"\nbase = "far"\n'
    (tmp_path / "headway.toml").write_text(far)
    assert not needs_worker(load(tmp_path, {}))
    (tmp_path / "headway.toml").write_text(f'{far}[tasks.code]\nkind = "reply"\nbase = "./here"\n')
    assert local_bases(load(tmp_path, {})) == ["./here"]


def test_the_worker_of_up_loads_models_at_once_and_says_what_is_wrong_with_one(tmp_path: Path, tiny: Path) -> None:
    (tmp_path / "tiny").symlink_to(tiny)
    (tmp_path / "headway.toml").write_text(
        '[tasks.reply]\nkind = "reply"\nbase = "./tiny"\n[tasks.code]\nkind = "reply"\nbase = "./nowhere"\n'
    )
    said: list[str] = []
    with working(tmp_path, preload=True, say=said.append):
        until(lambda: len(said) == 2, "both were tried")
        (loaded,) = LanguageWorker(tmp_path, "").health().models
    assert loaded.name == str(tiny.resolve()), "the path begins at the project's folder"
    assert "is loaded (cpu float32" in said[0]
    assert said[1].startswith(f"There is no folder '{tmp_path / 'nowhere'}'")
