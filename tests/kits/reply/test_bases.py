"""The base of a reply task: where it is looked for, what doctor says of it, and when it cannot be trained."""

from __future__ import annotations

from pathlib import Path

import pytest

import headway
from headway.kits.models.language import Turn
from headway.kits.reply.client import check
from headway.kits.reply.comparison import ReplyWriter
from headway.kits.reply.kept import KeptReply, to_details
from headway.kits.reply.learn.material import material, readiness
from headway.kits.reply.ratings import comment, rate
from headway.kits.reply.wire import base_of
from headway.nouns.errors import InvalidInput
from headway.project import Project
from headway.settings import load

TOML = """
[upstreams.far]
url = "http://127.0.0.1:1/v1"
model = "m"
[tasks.reply]
kind = "reply"
base = "far"
[tasks.here]
kind = "reply"
base = "./models/tiny"
[tasks.file]
kind = "reply"
base = "./model.gguf"
"""


@pytest.fixture
def folder(tmp_path: Path, tiny: Path) -> Path:
    (tmp_path / "headway.toml").write_text(TOML)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny").symlink_to(tiny)
    return tmp_path


def rated(project: Project, task: str, marks: str) -> list[str]:
    ids = []
    for place, mark in enumerate(marks):
        considered = project.consider(task, f"about {place}?")
        kept = KeptReply(text="It is.", turns=(Turn("user", f"about {place}?"),), foreign=True)
        ids.append(project.submit([considered._replace(details=to_details(kept))]).result()[0].id)
        rate(project, ids[-1], mark)
    return ids


def test_a_relative_base_begins_at_the_folder_of_the_project(
    folder: Path, tiny: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    with headway.open(folder) as project:
        assert material(project, project.settings.task("here")).folder == tiny.resolve()
    assert base_of("smollm2", folder) == "smollm2"
    assert base_of("/a/model", folder) == "/a/model"


def test_doctor_says_which_models_are_missing(folder: Path) -> None:
    findings = {finding.name: finding for finding in check(load(folder, {}))}
    assert [findings[f"base of {task}"].ok for task in ("reply", "here", "file")] == [True, True, False]
    assert "a GGUF file is not read" in findings["base of file"].found
    assert "llama.cpp" in findings["base of file"].cure
    assert findings["language worker"].ok is None
    assert "headway worker" in findings["language worker"].cure


def test_the_weights_of_an_upstream_cannot_be_trained(folder: Path) -> None:
    with headway.open(folder) as project:
        told = readiness(project, "reply", least=10, least_of_sign=3)
        assert told.reasons[0] == "The base is the upstream 'far', whose weights are not here to be trained"
        with pytest.raises(InvalidInput) as raised:
            material(project, project.settings.task("reply"))
    assert raised.value.code == "model_unsupported"


def test_the_check_counts_ratings_that_came_a_moment_ago(folder: Path) -> None:
    with headway.open(folder) as project:
        rated(project, "here", "5151515151")
        told = readiness(project, "here", least=5, least_of_sign=2)
    assert told.ratings + told.held_out == 10
    assert told.good == pytest.approx(told.bad, abs=2)


def test_edits_critiques_and_votes_are_no_signals_that_nothing_reads(folder: Path) -> None:
    with headway.open(folder) as project:
        (decision,) = rated(project, "reply", "5")
        comment(project, decision, "edit", "It is not.")
        comment(project, decision, "critique", "Too short.")
        assert project.unread_names("reply") == []
        project.signal(decision, {"edits": 1.0})
        (warning,) = project.unread_names("reply")
        assert "'edits'" in warning


def test_policies_are_compared_on_the_base_of_their_task_and_as_it_samples(folder: Path, tiny: Path) -> None:
    settings = folder / "headway.toml"
    settings.write_text(
        f'{TOML}\n[tasks.short]\nkind = "reply"\nbase = "./models/tiny"\nmax_tokens = 3\nsystem = "Be."\n'
    )
    with headway.open(folder) as project:
        (written,) = ReplyWriter(project, project.settings.task("here")).replies("base@0", ["What is it?"], seed=1)
        (brief,) = ReplyWriter(project, project.settings.task("short")).replies("base@0", ["What is it?"], seed=1)
    assert written.model == brief.model == tiny.name
    assert len(brief.tokens) <= 3 < len(written.tokens)
    assert len(brief.prompt_tokens) > len(written.prompt_tokens)
