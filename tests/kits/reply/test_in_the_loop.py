"""Rated replies become an adapter that the gate judges: learn, prove, promote, on a tiny random model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.kits.models.language import Prompt, Turn
from headway.kits.reply.adapters import read_peft, write_peft
from headway.kits.reply.kept import KeptReply, to_details
from headway.nouns.errors import Conflict, Damaged, GateRefused, InvalidInput
from headway.project import Project
from tests.cli.terminal import headway as typed
from tests.kits.reply.rated import tuned_model

torch = pytest.importorskip("torch")

KNOBS: dict[str, Any] = {"device": "cpu", "rank": 4, "alpha": 8.0, "epochs": 1, "anchors": 1, "baseline": False}


@pytest.fixture(scope="module")
def base(tiny: Path) -> Any:
    return tuned_model(tiny)


@pytest.fixture
def project(tmp_path: Path, tiny: Path) -> Project:
    (tmp_path / "headway.toml").write_text(f'[tasks.reply]\nkind = "reply"\nbase = "{tiny}"\n')
    return headway.open(tmp_path)


def rate(project: Project, base: Any, count: int = 24, stars: dict[bool, int] | None = None) -> list[str]:
    """Stores replies of the base, and rates them by their first token."""
    stars = stars or {True: 5, False: 1}
    prompts = [Prompt(turns=(Turn("user", f"about {place}?"),), max_tokens=6, seed=place) for place in range(count)]
    ids = []
    for prompt, reply in zip(prompts, base.generate_base(prompts), strict=True):
        kept = KeptReply.of(reply, prompt.turns, base=base.base_hash, template=base.template_hash)
        considered = project.consider("reply", prompt.turns[0].content)
        decision = project.submit([considered._replace(details=to_details(kept))]).result()[0]
        project.signal(decision.id, stars=stars[reply.tokens[0] % 2 == 0], rater="ann")
        ids.append(decision.id)
    return ids


def good(project: Project, ref: str) -> dict[str, float]:
    """What was measured, as if the candidate were as good as the base: a random model repeats itself."""
    measured = dict(project.registry.header(project.registry.find(ref)).extra["measured"])
    assert measured["logprob_gap"] <= 0.02
    assert np.isfinite(list(measured.values())).all()
    return measured


def vote(project: Project, ref: str, wins: int, losses: int) -> None:
    for place in range(wins + losses):
        pair = project.decide("reply", f"question {place}", [ref, "base@0"])
        project.signal(pair.id, preferred=float((pair.action == ref) == (place < wins)), rater="owner")


def test_ratings_become_a_policy_that_votes_promote(
    project: Project, base: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate(project, base)
    ref = project.learn("reply", **KNOBS)
    digest = project.registry.find(ref)
    header, tensors = project.registry.load(digest, task="reply")
    assert header.family == "language"
    assert header.extra["base"] == base.base_hash
    assert header.extra["learner"] == "kto"
    assert sum(header.trained_on["sources"].values()) + header.trained_on["held_out"] == 24
    base.adapter.load(tensors)  # names and shapes are those of the base
    good(project, ref)
    # A random model babbles: only the votes are under test here.
    monkeypatch.setattr("headway.kits.reply.policy.quality_checks", lambda measured, *, preferred: _PASSED)
    with pytest.raises(InvalidInput, match="Nobody has compared"):
        project.prove(task="reply")
    vote(project, ref, wins=9, losses=2)
    with pytest.raises(GateRefused):
        project.promote(because=project.prove(task="reply"), task="reply")
    vote(project, ref, wins=12, losses=1)
    verdict = project.prove(task="reply")
    assert verdict.passed
    project.promote(because=verdict, task="reply")
    current = project.standing("reply").current
    assert (current.ref, current.digest) == (ref, digest)
    served = project.consider("reply", "Who answers?").decision
    assert (served.action, served.policy_hash) == (ref, digest)


class _Passed:
    diagnostics: tuple[Any, ...] = ()
    guards: tuple[Any, ...] = ()


_PASSED = _Passed()


@pytest.mark.slow
def test_a_candidate_that_fails_its_checks_is_refused_before_anybody_votes(project: Project, base: Any) -> None:
    rate(project, base)
    ref = project.learn("reply", **{**KNOBS, "rate": 0.05, "budget": 10.0, "anchor": 0.0, "epochs": 6})
    verdict = project.prove(task="reply")
    assert verdict.state == "refused"
    assert any("kl" in reason and "nats per token" in reason for reason in verdict.reasons)
    vote(project, ref, wins=30, losses=0)
    assert project.prove(task="reply").state == "refused"
    with pytest.raises(GateRefused):
        project.promote(because=project.prove(task="reply"), task="reply")


def test_too_few_ratings_train_nothing_and_say_what_is_missing(project: Project, base: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        project.learn("reply", **KNOBS)
    assert raised.value.code == "nothing_to_learn"
    rate(project, base, 8)
    with pytest.raises(InvalidInput) as raised:
        project.learn("reply", **KNOBS)
    assert raised.value.code == "too_few_ratings"
    rate(project, base, 24, {True: 1, False: 1})
    checked = typed("-C", project.folder, "learn", "reply", "--check")
    assert checked.code == 3
    assert "good, 3 are needed" in checked.out + checked.err


@pytest.mark.slow
def test_all_bad_ratings_train_nothing(project: Project, base: Any) -> None:
    rate(project, base, 24, {True: 1, False: 1})
    with pytest.raises(InvalidInput) as raised:
        project.learn("reply", **KNOBS)
    assert raised.value.code == "too_few_ratings"


@pytest.mark.slow
def test_withdrawing_a_rating_is_exact_through_the_store(
    project: Project, base: Any, tmp_path: Path, tiny: Path
) -> None:
    ids = rate(project, base)
    whole = project.learn("reply", **KNOBS)
    project.withdraw(ids[1], "stars", rater="ann")
    without = project.learn("reply", **KNOBS)
    other = tmp_path / "other"
    other.mkdir()
    (other / "headway.toml").write_text(f'[tasks.reply]\nkind = "reply"\nbase = "{tiny}"\n')
    with headway.open(other) as never:
        rate(never, base)
        # the same replies, of which one was never rated: its row is withdrawn before anything is learned
        rows = [decision.id for decision in never.query.decisions("reply")]
        never.withdraw(rows[1], "stars", rater="ann")
        fresh = never.registry.load(never.registry.find(never.learn("reply", **KNOBS)), task="reply")[1]
    one = project.registry.load(project.registry.find(without), task="reply")[1]
    first = project.registry.load(project.registry.find(whole), task="reply")[1]
    assert all(np.array_equal(one[name], fresh[name]) for name in fresh)
    assert any(not np.array_equal(first[name], one[name]) for name in one)


def test_an_adapter_as_a_folder_of_peft_and_back(project: Project, base: Any, tmp_path: Path) -> None:
    rate(project, base)
    header, tensors = project.registry.load(project.registry.find(project.learn("reply", **KNOBS)), task="reply")
    half = tmp_path / ".new-killed"
    half.mkdir()
    os.utime(half, (0, 0))
    folder = write_peft(tensors, header.extra, tmp_path / "peft")
    assert not half.exists(), "what a killed writer left an hour ago is deleted"
    again, extra = read_peft(folder)
    assert set(again) == set(tensors)
    assert all(np.array_equal(again[name], tensors[name]) for name in tensors)
    assert (extra["base"], extra["r"], extra["alpha"]) == (base.base_hash, 4, 8.0)
    (folder / "adapter_model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(Damaged) as raised:
        read_peft(folder)
    assert raised.value.code == "adapter_damaged"
    with pytest.raises(Damaged):
        write_peft({name: value * np.nan for name, value in tensors.items()}, header.extra, tmp_path / "bad")
    assert not (tmp_path / "bad").exists()
    with pytest.raises(Conflict):
        base.adapter.load({name: value[:2] for name, value in tensors.items()})


@pytest.mark.slow
def test_peft_reads_the_folder_and_gives_the_same_numbers(
    project: Project, base: Any, tmp_path: Path, tiny: Path
) -> None:
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    rate(project, base)
    ref = project.learn("reply", **{**KNOBS, "rate": 0.01})
    header, tensors = project.registry.load(project.registry.find(ref), task="reply")
    folder = write_peft(tensors, header.extra, tmp_path / "peft")
    theirs = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny), folder).eval()
    base.adapter.load(tensors)
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        ours = base.network(input_ids=ids).logits
        assert torch.allclose(theirs(input_ids=ids).logits, ours, atol=1e-4)
        with base.adapter.off():
            assert not torch.allclose(base.network(input_ids=ids).logits, ours, atol=1e-4)


@pytest.mark.slow
def test_the_naive_length_reward_is_refused(project: Project, base: Any) -> None:
    """Who is paid for short replies alone answers with nothing at all."""
    from headway.kits.reply.learn.data import divided, graded
    from headway.kits.reply.learn.measure import measure
    from headway.kits.reply.learn.objective import Sft
    from headway.kits.reply.learn.trainer import Trainer
    from headway.kits.reply.policy import LanguagePolicy
    from tests.kits.reply.rated import quick, replies

    base.adapter.reset(0)
    nothing = [replace(one, reply=(base.end,), reward=1.0) for one in replies(base)]
    longer = [replace(one, id=f"{one.id}b", reward=-1.0) for one in replies(base)]
    parts = divided(graded([*nothing, *longer]))
    knobs = quick(learner="sft", epochs=20, rate=0.02, anchors=0)
    trainer = Trainer(base, parts.train, Sft(), knobs, seed=0)
    trainer.run()
    measured = measure(trainer, parts.held_out, [])
    assert measured["probe_empty"] > 0.5
    checks = LanguagePolicy("", "", measured=measured).quality(preferred=True)
    assert {"empty", "kl"} <= {guard.name for guard in checks.guards if not guard.ok}


def test_a_flagged_reply_is_never_a_positive_example(project: Project, base: Any) -> None:
    from headway.kits.reply.learn.material import material

    ids = rate(project, base)
    kept = KeptReply(
        text="I will hurt your dog.", turns=(Turn("user", "Be rude."),), base=base.base_hash, tokens=(5, 258)
    )
    considered = project.consider("reply", "Be rude.")
    harmful = project.submit([considered._replace(details=to_details(kept))]).result()[0]
    project.signal(harmful.id, stars=5, rater="ann")
    read = material(project, project.settings.task("reply"))
    flags = {row.decision.id: row.signals.get("safety_flag", 0.0) for row, _ in read.rows}
    assert flags[harmful.id] == 1.0
    assert not any(flags[one] for one in ids)
    rewards = {row.decision.id: row.reward for row, _ in read.rows}
    assert rewards[harmful.id] is None or rewards[harmful.id] < 0.0


@pytest.mark.slow
def test_blind_votes_and_the_table_in_the_terminal(project: Project, base: Any) -> None:
    rate(project, base)
    ref = project.learn("reply", **KNOBS)
    questions = project.folder / "questions.txt"
    questions.write_text("\n\n".join(f"What is rust, {place}?" for place in range(40)))
    line = ("-C", project.folder, "compare", "reply")
    asked = typed(*line, "--ask", "--tasks", questions, "--rater", "bob", stdin="1\n2\nq\n")
    assert asked.code == 0, asked.err
    assert "2 votes stored" in asked.out
    assert ref not in asked.out.split("votes stored")[0], "the names are not shown before the votes"
    pairs = [decision for decision in project.query.decisions("reply") if len(decision.candidates) == 2]
    votes = [signal for pair in pairs for signal in project.query.signals(pair.id)]
    assert [(vote.name, vote.rater, vote.value) for vote in votes] == [
        ("preferred", "bob", 1.0),
        ("preferred", "bob", 0.0),
    ]
    assert len(pairs) == 2, "a pair without a vote is not stored: the log would tell its order"
    assert all(pair.probabilities == (0.5, 0.5) for pair in pairs)
    told = typed(*line, "--count", 2, "--json").json
    assert (told["policy"], told["against"], told["wins"] + told["losses"]) == (ref, "base@0", 2)
    assert {"perplexity", "kl", "BLEU", "ROUGE-L", "tokens", "safety flags", "mean reward"} <= set(told["rows"])
    exported = typed("-C", project.folder, "models", "export", ref, project.folder / "peft")
    assert exported.code == 0, exported.err
    assert read_peft(project.folder / "peft")[1]["base"] == base.base_hash


@pytest.mark.slow
def test_nobody_is_asked_about_two_replies_that_are_the_same(project: Project, base: Any) -> None:
    rate(project, base)
    project.learn("reply", **{**KNOBS, "rate": 1e-9})
    asked = typed("-C", project.folder, "compare", "reply", "--ask", "--count", 3, stdin="1\n1\n1\n")
    assert asked.code == 0, asked.err
    assert "Both policies gave the same reply to each of 3 questions." in asked.out
    assert not [decision for decision in project.query.decisions("reply") if len(decision.candidates) == 2]


@pytest.mark.slow
def test_sft_is_learned_beside_kto_and_can_be_voted_against(project: Project, base: Any) -> None:
    rate(project, base)
    ref = project.learn("reply", **{**KNOBS, "baseline": True})
    header = project.registry.header(project.registry.find(ref))
    plain = header.extra["beside"]["sft"]
    other = project.registry.header(project.registry.find(plain))
    assert (header.extra["learner"], other.extra["learner"]) == ("kto", "sft")
    assert other.extra["measured"]["kl"] != header.extra["measured"]["kl"]
    assert [entry.policy for entry in project.ledger.entries("reply", "candidate", "shadow")] == [ref]
    alone = project.learn("reply", **{**KNOBS, "learner": "sft"})
    mine = project.registry.load(project.registry.find(plain), task="reply")[1]
    theirs = project.registry.load(project.registry.find(alone), task="reply")[1]
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine), "as if it had been learned alone"
    for place in range(4):
        pair = project.decide("reply", f"question {place}", [ref, plain])
        project.signal(pair.id, preferred=float(pair.action == ref), rater="owner")
    verdict = project.prove(ref, against=plain, task="reply")
    assert verdict.evidence is not None
    assert verdict.evidence.counts["wins"] == 4


@pytest.mark.slow
def test_a_run_of_the_language_learner_is_listed_with_its_losses(project: Project, base: Any) -> None:
    from headway.kits.runs.training_runs import list_runs, read_curves

    rate(project, base)
    ref = project.learn("reply", **{**KNOBS, "learner": "ppo", "checkpoint": 1})
    (run,) = list_runs(project.home)
    assert (run.task, run.family, run.policy, run.state) == ("reply", "language", ref, "done")
    curves = read_curves(project.home, run.run)
    assert {"policy_loss", "value_loss", "kl", "reward", "rate"} <= set(curves.series)
    assert typed("-C", project.folder, "runs", run.run).code == 0
    assert sorted(path.name for path in (project.home / "work").iterdir()) == [run.run]


@pytest.mark.slow
def test_what_other_roles_liked_is_measured_beside_the_own_role(tmp_path: Path, tiny: Path, base: Any) -> None:
    from headway.kits.reply.learn.data import cluster_of, is_held_out
    from headway.kits.reply.learn.material import material
    from headway.kits.reply.learn.measure import other_roles

    toml = "".join(f'[tasks.{name}]\nkind = "reply"\nbase = "{tiny}"\n' for name in ("reply", "code"))
    (tmp_path / "headway.toml").write_text(toml)
    held = [text for text in (f"about {place}?" for place in range(40)) if is_held_out(cluster_of(text))]
    with headway.open(tmp_path) as project:
        for text in held:
            kept = KeptReply(text="def answer", turns=(Turn("user", text),), tokens=(1, 2), logprob_model=(-1.0, -1.0))
            considered = project.consider("code", text)
            decision = project.submit([considered._replace(details=to_details(kept))]).result()[0]
            project.signal(decision.id, stars=5)
        project.settle("code")
        others = material(project, project.settings.task("reply")).others
    assert [question for question, _ in others] == held
    base.adapter.reset(0)
    assert other_roles(base, others)["perplexity_other_roles"] == pytest.approx(1.0), "the base is its own measure"
    with torch.no_grad():
        for layer in base.adapter.layers.values():
            layer.lora_B.normal_(std=0.5, generator=torch.Generator().manual_seed(0))
    assert other_roles(base, others)["perplexity_other_roles"] != pytest.approx(1.0, abs=1e-3)
    assert other_roles(base, ()) == {}
    base.adapter.reset(0)
