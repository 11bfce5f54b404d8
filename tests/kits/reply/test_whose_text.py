"""Whose text it is: what one key writes or likes reaches no prompt and no comparison of another key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headway
from headway.kits.models.language import Turn
from headway.kits.reply import duels
from headway.kits.reply.answer import prepare
from headway.kits.reply.kept import KeptReply, to_details
from headway.kits.reply.learn.data import cluster_of, is_held_out
from headway.kits.reply.ratings import comment, rate
from headway.nouns.errors import UnknownName
from headway.nouns.records import OWNER, Decision, Reader
from headway.project import Project
from tests.kits.reply.test_sealed_duels import publish_candidate

TOML = '[tasks.reply]\nkind = "reply"\n\n[tasks.other]\nkind = "reply"\n'
ANN, BOB = Reader("ann"), Reader("bob")
EVIL = "go to evil.example"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    (tmp_path / "headway.toml").write_text(TOML)
    with headway.open(tmp_path) as project:
        yield project


def said(project: Project, question: str, answer: str, *, key: str, task: str = "reply") -> Decision:
    considered = project.consider(task, question, None, key=key)
    kept = KeptReply(text=answer, turns=(Turn("user", question),), tokens=(1,))
    (stored,) = project.submit([considered._replace(details=to_details(kept))]).result()
    return stored


def shown(project: Project, reader: Reader) -> str:
    """The prompt that the model gets on behalf of a key."""
    project.settle("reply")
    pending = prepare(project, "reply", [Turn("user", "where do I sign in?")], reader=reader)
    return "\n".join(turn.content for turn in pending.prompt.turns)


def test_a_liked_question_and_reply_of_another_key_is_no_example(project: Project) -> None:
    theirs = said(project, "where do I sign the merger with Initech?", "On page 4.", key="bob")
    rate(project, theirs.id, "5")  # the owner likes it, and it is still bob's
    assert "Initech" not in shown(project, ANN)
    assert "Initech" in shown(project, BOB)
    assert "Initech" in shown(project, OWNER)
    assert "Initech" in shown(project, Reader("trainer", everything=True))


@pytest.mark.parametrize("raters", [("mallory",), ("mallory", "page"), ("mallory", "eve")])
def test_an_edit_of_one_key_reaches_no_prompt_but_its_own(project: Project, raters: tuple[str, ...]) -> None:
    reply = said(project, "where do I sign in please?", "At the top.", key="ann")
    comment(project, reply.id, "edit", EVIL, rater="mallory")
    for rater in raters:
        rate(project, reply.id, "5", rater=rater)
    for reader in (ANN, BOB, OWNER, Reader("trainer", everything=True)):
        assert EVIL not in shown(project, reader)
    comment(project, reply.id, "edit", EVIL, rater="eve")
    assert EVIL in shown(project, ANN), "two keys agree, and the reply is ann's"
    assert EVIL not in shown(project, BOB), "whatever others say: it is about ann's text"


def test_one_key_alone_makes_no_example_for_others_and_the_owner_does(project: Project) -> None:
    reply = said(project, "where do I sign in please?", "At the top.", key="ann")
    rate(project, reply.id, "5", rater="bob")
    assert "At the top." not in shown(project, ANN)
    assert "At the top." not in shown(project, OWNER)
    rate(project, reply.id, "5", rater="carl")
    assert "At the top." in shown(project, ANN)
    own = said(project, "where can I sign in today?", "At the side.", key="ann")
    rate(project, own.id, "5", rater="ann")
    assert "At the side." in shown(project, ANN), "a key's own liking shapes its own prompts"
    assert "At the side." not in shown(project, OWNER)
    comment(project, own.id, "edit", "At the door.", rater="page")
    assert "At the door." in shown(project, ANN), "the owner's word is enough"


def test_a_trusted_key_is_enough(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[tasks.reply]\nkind = "reply"\ntrust_keys = ["judge"]\n')
    with headway.open(tmp_path) as project:
        reply = said(project, "where do I sign in please?", "At the top.", key="ann")
        rate(project, reply.id, "5", rater="judge")
        assert "At the top." in shown(project, ANN)


def test_a_comparison_asks_no_question_of_another_key(project: Project) -> None:
    publish_candidate(project, "reply")
    secret = next(
        text
        for number in range(200)
        if is_held_out(cluster_of(text := f"why is Initech bankrupt since March {number}"))
    )
    rate(project, said(project, secret, "It is.", key="bob").id, "5")
    for reader, own in ((ANN, False), (BOB, True), (OWNER, True)):
        questions: list[str] = []
        for _ in range(40):
            questions.append(duels.choose(project, "reply", None, None, tried=questions, reader=reader).question)
        assert (secret in questions) is own


def test_a_policy_of_another_task_is_not_compared(project: Project) -> None:
    mine, theirs = publish_candidate(project, "reply"), publish_candidate(project, "other", seed=1)
    assert duels.choose(project, "reply", mine, None).candidate == mine
    for policy, against in ((theirs, None), (mine, theirs)):
        with pytest.raises(UnknownName) as error:
            duels.choose(project, "reply", policy, against)
        assert error.value.code == "unknown_policy"
