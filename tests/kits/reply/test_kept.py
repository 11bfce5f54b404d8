"""Replies are kept in the details of their decision, and everything that holds for decisions holds for them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import headway
from headway.kits.models.language import Turn
from headway.kits.reply.kept import KIT_NAME, Comment, KeptReply, from_details, kept, kept_reply, redacted, to_details
from headway.nouns.errors import Damaged, UnknownName
from headway.nouns.records import Decision
from headway.project import Project

TURNS = (Turn("system", "Be brief."), Turn("user", "What is 2+2?"))
REPLY = KeptReply(
    text="4.",
    turns=TURNS,
    prompt_tokens=(1, 2, 3),
    tokens=(52, 46, 258),
    logprob_model=(-0.25, -1.5, -0.125),
    temperature=0.7,
    top_p=0.95,
    seed=7,
    max_tokens=32,
    base="a" * 64,
    template="b" * 64,
    model="tiny",
    latency_s=0.5,
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "headway.toml").write_text('[tasks.reply]\nkind = "reply"\n[tasks.code]\nkind = "reply"\n')
    return headway.open(tmp_path)


def stored(project: Project, reply: KeptReply = REPLY, task: str = "reply", **details: str) -> Decision:
    considered = project.consider(task, reply.turns[-1].content, **details)  # type: ignore[arg-type]
    return project.submit([considered._replace(details=to_details(reply))]).result()[0]


def test_a_reply_is_read_back_as_it_was_stored() -> None:
    comments = (Comment("edit", "It is 4.", "ann", 5.0), Comment("critique", "Too short.", "bob", 6.0))
    reply = msgspec.structs.replace(REPLY, comments=comments)
    details = {detail.name: detail.data for detail in to_details(reply)}
    assert from_details(details) == reply
    assert from_details({}) is None
    with pytest.raises(Damaged, match="cannot be read") as error:
        from_details({**details, "reply": b'{"text": 3}'}, "dec_1")
    assert error.value.code == "reply_damaged"


def test_the_last_edit_of_each_rater_counts_and_an_empty_one_withdraws_it() -> None:
    comments = [Comment("edit", "One.", "ann"), Comment("edit", "Two.", "ann"), Comment("edit", "Three.", "bob")]
    reply = msgspec.structs.replace(REPLY, comments=tuple(comments))
    assert [edit.text for edit in reply.edits] == ["Two.", "Three."]
    withdrawn = msgspec.structs.replace(reply, comments=(*comments, Comment("edit", "", "ann")))
    assert [edit.text for edit in withdrawn.edits] == ["Three."]


def test_the_base_answers_with_certainty_until_another_policy_is_promoted(project: Project) -> None:
    decision = stored(project)
    assert (decision.action, decision.propensity, decision.policy) == ("base@0", 1.0, "base@0")
    assert [candidate.name for candidate in decision.candidates] == ["base@0"]
    assert project.replay(decision.id).exact
    assert kept_reply(project, decision.id) == REPLY


def test_only_rated_or_edited_replies_are_learned_from(project: Project) -> None:
    good, edited, unrated = stored(project), stored(project), stored(project)
    stored(project, task="code")
    project.decide("reply", "a decision without a reply")
    project.signal(good.id, stars=5, rater="ann")
    project.store.keep_details(edited.id, KIT_NAME, "comments", b'[{"kind": "edit", "text": "Four."}]')
    project.settle("reply")
    rows = list(kept(project, "reply"))
    assert [(row.decision.id, row.reward, row.status) for row, _ in rows] == [
        (good.id, 1.0, "rewarded"),
        (edited.id, None, "pending"),
    ]
    assert rows[0][0].raters == ("ann",)
    assert [row.decision.id for row, _ in kept(project, "reply", unrated=True)] == [good.id, edited.id, unrated.id]


def test_a_secret_is_removed_with_the_tokens_that_spell_it(project: Project) -> None:
    secret = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2
    turns = (Turn("user", f"My key is {secret}."),)
    clean = redacted(msgspec.structs.replace(REPLY, turns=turns), project.redact)
    assert clean.redacted
    assert not clean.exact
    assert (clean.tokens, clean.prompt_tokens, clean.logprob_model) == ((), (), ())
    assert secret not in repr(to_details(clean))
    same = redacted(REPLY, project.redact)
    assert same == REPLY
    assert same.exact


def test_a_decision_without_a_reply_is_named(project: Project) -> None:
    decision = project.decide("reply", "hello")
    with pytest.raises(UnknownName) as error:
        kept_reply(project, decision.id)
    assert error.value.code == "unknown_reply"
    with pytest.raises(UnknownName) as error:
        kept_reply(project, "dec_" + "0" * len(decision.id.removeprefix("dec_")))
    assert error.value.code == "unknown_decision"


def test_two_named_policies_are_a_comparison_in_an_even_order(project: Project) -> None:
    pair = project.decide("reply", "hello", ["language@4f2a", "base@0"])
    assert pair.probabilities == (0.5, 0.5)


def test_no_other_built_in_policy_can_answer(project: Project) -> None:
    with pytest.raises(UnknownName) as error:
        project.servings.pipeline("reply", {"kind": "reply"}, "uniform@0", "")
    assert error.value.code == "policy_missing"
