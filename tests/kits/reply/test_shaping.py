"""Computed rewards, safety detectors and knobs of a reply task, from headway.toml to what learning reads."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import headway
from headway.kits.models.language import Turn
from headway.kits.reply.kept import kept
from headway.kits.reply.learn.material import flag_replies, wait_while
from headway.kits.reply.rewards import shape
from headway.kits.reply.safety import LinearDetector, detector_of
from headway.nouns.errors import InvalidInput, InvalidSettings
from headway.nouns.records import Decision
from headway.project import Project
from tests.cli.terminal import headway as typed
from tests.kits.reply.test_kept import REPLY, stored

TOML = """
[tasks.reply]
kind = "reply"
reward = { stars = "stars", thumb = "thumbs", relevance = 0.25, style = 0.25, length = 0.125 }
range = [-2, 2]
reply_length = [2, 4]
detectors = ["rules", "./rude"]

"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "headway.toml").write_text(TOML)
    rude = ["you are a fool", "what a fool you are", "a fool asks that"]
    kind = ["you are kind", "what a day", "a friend asks that"]
    detector = LinearDetector.learn([*rude, *kind], [True] * 3 + [False] * 3, epochs=200)
    detector.write(tmp_path / "rude")
    return headway.open(tmp_path)


def said(project: Project, question: str, text: str, tokens: int = 3) -> Decision:
    reply = msgspec.structs.replace(
        REPLY, text=text, turns=(Turn("user", question),), tokens=tuple(range(tokens)), logprob_model=(-1.0,) * tokens
    )
    return stored(project, reply)


def signals(project: Project, decision: str) -> dict[str, float]:
    return {row.decision.id: dict(row.signals) for row, _ in kept(project, "reply", unrated=True)}[decision]


def test_a_rated_reply_gets_relevance_style_and_length_and_an_unrated_one_nothing(project: Project) -> None:
    near = said(project, "what is rust", "rust is what iron becomes", tokens=3)
    far = said(project, "what is rust", "no idea", tokens=8)
    unrated = said(project, "what is rust", "rust", tokens=3)
    project.signal(near.id, stars=4, rater="ann")
    project.signal(far.id, thumb=-1, rater="bob")
    assert shape(project, "reply") > 0
    one, other = signals(project, near.id), signals(project, far.id)
    assert one["relevance"] > other["relevance"]
    assert (one["length"], other["length"]) == (1.0, -1.0)
    assert one["style"] == other["style"] == 0.0, "nobody has rated enough to have a style"
    assert signals(project, unrated.id) == {}
    rewards = {row.decision.id: row.reward for row, _ in kept(project, "reply", unrated=True)}
    assert rewards[near.id] == pytest.approx(0.5 + 0.25 * one["relevance"] + 0.125, abs=1e-3)
    assert rewards[unrated.id] is None, "what is computed does not replace a rating"
    assert shape(project, "reply") == 0, "what has not changed is not stored again"


def test_a_style_is_learned_per_rater_from_other_replies(project: Project) -> None:
    for place in range(12):
        polite = said(project, f"question {place}", f"certainly dear friend number {place}")
        blunt = said(project, f"question {place}", f"whatever go away number {place}")
        project.signal(polite.id, stars=5, rater="ann")
        project.signal(blunt.id, stars=1, rater="ann")
    shape(project, "reply")
    rows = list(kept(project, "reply"))
    liked = [row.signals["style"] for row, reply in rows if reply.text.startswith("certainly")]
    others = [row.signals["style"] for row, reply in rows if reply.text.startswith("whatever")]
    assert min(liked) > 0.2
    assert max(others) < -0.2


def test_a_task_without_such_rewards_computes_nothing(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[tasks.reply]\nkind = "reply"\n')
    with headway.open(tmp_path) as project:
        project.signal(said(project, "a", "b").id, stars=5)
        assert shape(project, "reply") == 0


def test_detectors_are_rules_and_folders_and_an_unknown_one_is_named(project: Project) -> None:
    detect = detector_of(["rules", "./rude"], project.folder)
    assert detect("I will hurt your dog.")
    assert detect("you are a fool")
    assert not detect("what a day")
    assert not detector_of([], project.folder)("I will hurt your dog.")
    with pytest.raises(InvalidInput) as raised:
        detector_of(["./none"], project.folder)
    assert raised.value.code == "unknown_detector"


def test_an_unknown_detector_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    from headway.kits.reply.answer import prepare

    (tmp_path / "headway.toml").write_text('[tasks.reply]\nkind = "reply"\ndetectors = ["./none"]\n')
    with headway.open(tmp_path) as project, pytest.raises(InvalidInput, match="no safety detector"):
        prepare(project, "reply", [Turn("user", "Hello")])


def test_a_classifier_that_needs_torch_is_left_to_the_loop(tmp_path: Path) -> None:
    (tmp_path / "classifier").mkdir()
    (tmp_path / "classifier" / "config.json").write_text("{}")
    assert not detector_of(["classifier"], tmp_path, light=True)("anything")


def test_a_detector_of_the_task_flags_what_was_rated_good(project: Project) -> None:
    rude = said(project, "who am I?", "you are a fool")
    project.signal(rude.id, stars=5, rater="ann")
    settings = project.settings.task("reply")
    assert flag_replies(project, "reply", detector_of(settings.own.detectors, project.folder)) == 1
    assert signals(project, rude.id)["safety_flag"] == 1.0
    (row,) = [row for row, _ in kept(project, "reply") if row.decision.id == rude.id]
    assert row.reward == -2.0


@pytest.mark.slow
def test_a_text_classification_folder_is_a_detector(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import transformers

    from headway.kits.reply.safety import TextClassifier
    from headway.nouns.errors import Damaged
    from tests.kits.reply.tiny import tokenizer

    config = transformers.LlamaConfig(
        vocab_size=260, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        pad_token_id=259, id2label={0: "safe", 1: "toxic"}, label2id={"safe": 0, "toxic": 1},
    )  # fmt: skip
    torch.manual_seed(0)
    network = transformers.AutoModelForSequenceClassification.from_config(config)
    network.save_pretrained(tmp_path / "toxic")
    tokenizer().save_pretrained(tmp_path / "toxic")
    encoded = tokenizer()(["Hello"], return_tensors="pt")
    with torch.inference_mode():
        share = float(network.eval()(**encoded).logits.softmax(-1)[0, 1])
    assert TextClassifier(tmp_path / "toxic").score("Hello") == pytest.approx(share, abs=1e-5)
    assert detector_of(["toxic"], tmp_path)("Hello") is (share >= 0.5)
    (tmp_path / "toxic" / "model.safetensors").write_bytes(b"x" * 64)
    with pytest.raises(Damaged) as raised:
        TextClassifier(tmp_path / "toxic")
    assert raised.value.code == "detector_damaged"


def test_knobs_of_headway_toml_reach_the_learner_and_the_check(tmp_path: Path, tiny: Path) -> None:
    (tmp_path / "headway.toml").write_text(f'[tasks.reply]\nkind = "reply"\nbase = "{tiny}"\nlearn.least = 77\n')
    project = headway.open(tmp_path)
    for place in range(12):
        project.signal(said(project, f"question {place}", "text").id, stars=5 if place % 2 else 1)
    with pytest.raises(InvalidInput, match="77 are needed"):
        project.learn("reply")
    checked = typed("-C", project.folder, "learn", "reply", "--check")
    assert checked.code == 3
    assert "77 are needed" in checked.out + checked.err
    with pytest.raises(InvalidSettings) as raised:
        project.learn("reply", lerner="sft")
    assert raised.value.code == "unknown_key"


def test_training_waits_while_somebody_chats_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([True, True, False])
    told: list[int] = []
    monkeypatch.setattr("headway.kits.reply.learn.material._LOOK_S", 0.0)
    wait_while(lambda: next(looks), lambda: told.append(1))
    assert len(told) == 2, "it can be stopped meanwhile"
    monkeypatch.setattr("headway.kits.reply.learn.material._LONGEST_WAIT_S", 0.01)
    wait_while(lambda: True)


def test_liked_and_edited_replies_are_examples_until_there_are_enough_of_both_signs(tmp_path: Path) -> None:
    from headway.kits.reply.answer import prepare
    from headway.kits.reply.ratings import comment

    (tmp_path / "headway.toml").write_text('[tasks.reply]\nkind = "reply"\n')
    with headway.open(tmp_path) as project:

        def shown() -> list[str]:
            project.settle("reply")
            prompt = prepare(project, "reply", [Turn("user", "what is rust?")]).prompt
            return [turn.content for turn in prompt.turns]

        assert shown() == ["what is rust?"]
        for place in range(11):
            project.signal(said(project, f"what is number {place}?", f"It is {place}.").id, stars=5)
        edited = said(project, "what is rust, really?", "No idea.")
        project.signal(edited.id, stars=1)
        comment(project, edited.id, "edit", "Rust is iron oxide.")
        turns = shown()
        assert turns[-1] == "what is rust?"
        assert "Rust is iron oxide." in turns, "what it should have said, not what it said"
        assert len(turns) == 5, "eleven good ratings and one bad train nothing: examples stay"
        for place in range(2):
            project.signal(said(project, f"why {place}?", "Because.").id, stars=1)
        assert shown() == ["what is rust?"], "from here on an adapter can be trained"
