"""Comments of several raters on one reply: nobody's is dropped, and nobody fills the room of the others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import headway
from headway.kits.reply.kept import KeptReply, kept_reply, to_details
from headway.kits.reply.ratings import comment
from headway.project import Project


@pytest.fixture
def project(tmp_path: Path, environ: dict[str, str]) -> Iterator[Project]:
    (tmp_path / "headway.toml").write_text('[tasks.reply]\nkind = "reply"\n')
    with headway.open(tmp_path, environ=environ) as opened:
        yield opened


@pytest.fixture
def reply(project: Project) -> str:
    decision = project.decide("reply", "question", ["base@0", "language@1"]).id
    for detail in to_details(KeptReply(text="answer", foreign=True)):
        project.store.keep_details(decision, detail.kit, detail.name, detail.data)
    return decision


def test_a_rater_who_comments_without_end_leaves_room_for_the_others(project: Project, reply: str) -> None:
    for number in range(30):
        comment(project, reply, "critique", f"{number} " + "x" * 90_000, rater="mallory")
    comment(project, reply, "critique", "Too long.", rater="ann")
    assert [one.text[:9] for one in kept_reply(project, reply).critiques] == ["29 xxxxxx", "Too long."]


def test_comments_at_the_same_moment_are_all_kept(project: Project, reply: str) -> None:
    raters = [f"rater{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda rater: comment(project, reply, "edit", "Better.", rater=rater), raters))
    assert {one.rater for one in kept_reply(project, reply).edits} == set(raters)


def test_comments_of_two_processes_at_the_same_moment_are_all_kept(
    project: Project, reply: str, tmp_path: Path, environ: dict[str, str]
) -> None:
    with headway.open(tmp_path, environ=environ) as other, ThreadPoolExecutor(8) as threads:
        list(
            threads.map(
                lambda at: comment((project, other)[at % 2], reply, "edit", "Better.", rater=f"rater{at}"), range(24)
            )
        )
    assert {one.rater for one in kept_reply(project, reply).edits} == {f"rater{at}" for at in range(24)}
