"""What a deletion reaches beside the rows of the store: open comparisons, comments, prompts with examples."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.kits.models.language import Prompt, Turn
from headway.kits.reply import duels
from headway.kits.reply.kept import KeptReply, kept_reply, to_details
from headway.kits.reply.ratings import comment, rate
from headway.nouns.errors import UnknownName
from headway.nouns.protocols import Learned
from headway.observe.erase import DeletionFilter
from headway.project import Project

QUESTION = "Why did Zebulon leave?"


def publish(project: Project) -> None:
    """A candidate beside the base. Nobody loads it."""
    learned = Learned(
        family="language", tensors={"lora": np.ones(4, np.float32)}, knobs={}, metrics={}, baselines={}, trained_on={}
    )
    project.publish(learned, task="reply", kind="reply", encoder="", seed=0, why="test")


@pytest.fixture
def project(tmp_path: Path, environ: dict[str, str]) -> Iterator[Project]:
    (tmp_path / "headway.toml").write_text('[tasks.reply]\nkind = "reply"\n[tasks.code]\nkind = "reply"\n')
    with headway.open(tmp_path, environ=environ) as opened:
        publish(opened)
        yield opened


def files(project: Project) -> list[Path]:
    return sorted((project.home / "work" / "duels").glob("*"))


def seal(project: Project, question: str = QUESTION, key: str = "") -> duels.Duel:
    candidate, against = duels.opponents(project, "reply", None, None)
    asked = duels.DuelQuestion("reply", candidate, against, question, Prompt(turns=(Turn("user", question),)))
    return duels.seal(project, asked, ("One", "Two"), key=key)


def reply(project: Project, text: str = QUESTION, *, task: str = "reply", **kept: object) -> str:
    considered = project.consider(task, text)
    given = KeptReply(text="Because.", turns=(Turn("user", text),), **kept)  # type: ignore[arg-type]
    return project.submit([considered._replace(details=to_details(given))]).result()[0].id


def anywhere(project: Project, text: str) -> list[str]:
    """Files of the project that hold these bytes."""
    found = [path for path in project.home.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
    return [str(path.relative_to(project.home)) for path in found]


def test_an_open_comparison_goes_with_the_decision_whose_question_it_asks(project: Project) -> None:
    decision = reply(project)
    seal(project)
    seal(project, "Another question?")
    planned = project.erase(DeletionFilter(decision=decision), dry_run=True)
    assert (planned.copies, len(files(project))) == (1, 2), "a dry run counts, and leaves it"
    assert project.erase(DeletionFilter(decision=decision)).copies == 1
    assert len(files(project)) == 1
    assert not anywhere(project, "Zebulon")


def test_comparisons_go_by_age_and_by_whom_they_were_made_for(project: Project) -> None:
    seal(project, key="ann")
    rate(project, reply(project, "Other?"), "5", rater="ann")
    project.erase(DeletionFilter(rater="ann", task="reply"))
    assert not files(project)
    seal(project)
    later = time.time() + 60
    reply(project, "Other?", task="code")
    project.erase(DeletionFilter(before=later, task="code"))
    assert len(files(project)) == 1, "a comparison of another task"
    assert project.erase(DeletionFilter(before=later, task="reply")).copies == 1
    assert not files(project)


def test_the_file_of_a_comparison_with_a_vote_goes_with_its_decision(project: Project) -> None:
    sealed = seal(project)
    voted = duels.vote(project, "reply", sealed.id, 1.0)
    assert len(files(project)) == 2
    project.erase(DeletionFilter(decision=voted.decision))
    assert not files(project)
    assert not anywhere(project, "Zebulon")


def test_retention_reaches_the_files_of_comparisons(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[store]\nkeep_days = 0.5\n[tasks.reply]\nkind = "reply"\n')
    now = [time.time() - 80_000.0]
    with Project(tmp_path, clock=lambda: now[0]) as opened:
        publish(opened)
        seal(opened)
        now[0] += 80_000.0
        reply(opened, "Today?")
        assert opened.retain(dry_run=True) is not None
        assert len(files(opened)) == 1
        done = opened.retain()
        assert done is not None
        assert (done.decisions, done.copies) == (1, 1)
        assert not files(opened)
        assert opened.retain() is None


def test_a_comparison_that_is_a_day_old_takes_no_vote(project: Project) -> None:
    sealed = seal(project)
    for path in files(project):
        os.utime(path, (time.time() - 90_000,) * 2)
    with pytest.raises(UnknownName):
        duels.vote(project, "reply", sealed.id, 1.0)


def test_the_comments_of_a_rater_go_with_the_rater(project: Project) -> None:
    decision = reply(project, foreign=True)
    comment(project, decision, "edit", "Zebulon was tired.", rater="ann")
    comment(project, decision, "critique", "Too short.", rater="ann")
    comment(project, decision, "critique", "Rude.", rater="bob")
    assert project.erase(DeletionFilter(rater="ann"), dry_run=True).copies == 2
    assert len(kept_reply(project, decision).comments) == 3
    assert project.erase(DeletionFilter(rater="ann")).copies == 2
    assert [(one.rater, one.text) for one in kept_reply(project, decision).comments] == [("bob", "Rude.")]
    assert not anywhere(project, "Zebulon was tired")
    assert not anywhere(project, '"ann"')


def test_a_prompt_that_had_a_deleted_reply_as_an_example_loses_its_tokens(project: Project) -> None:
    example, other = reply(project), reply(project, "Other?")
    tokens = {"prompt_tokens": (1, 2), "tokens": (3,), "logprob_model": (-0.5,)}
    shown = reply(project, "Later?", examples=(example, other), **tokens)
    beside = reply(project, "Much later?", examples=(other,), **tokens)
    assert project.erase(DeletionFilter(decision=example)).copies == 1
    read = kept_reply(project, shown)
    assert (read.prompt_tokens, read.tokens, read.logprob_model, read.examples) == ((), (3,), (), ())
    assert kept_reply(project, beside).prompt_tokens == (1, 2)


def test_a_prompt_that_had_an_edit_of_a_deleted_rater_as_an_example_loses_its_tokens(project: Project) -> None:
    example = reply(project, foreign=True)
    comment(project, example, "edit", "It was late.", rater="ann")
    shown = reply(project, "Later?", examples=(example,), prompt_tokens=(1, 2), tokens=(3,))
    assert project.erase(DeletionFilter(rater="ann")).copies == 2
    assert kept_reply(project, shown).prompt_tokens == ()
