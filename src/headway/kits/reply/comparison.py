"""`headway compare` of a reply task: two policies side by side, and blind votes.

    comparison(project, "reply", policy="language@4f2a")            # a table, on held-out questions
    for pair in blind_pairs(project, "reply", …): vote(project, pair, 1.0, rater="ann")

A pair is a decision between two policies that is stored when it is shown: one without a vote counts (`votes.py`).
Whose reply is shown first is drawn once more, and kept from the log until the vote. The log has a digest of the
question (`digest`) and not its text, which is somebody's and deleted where it was asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp
from secrets import randbelow
from statistics import fmean
from typing import TYPE_CHECKING, Any

from headway.kits import models
from headway.kits.models import Completion
from headway.kits.reply.adapters import write_peft
from headway.kits.reply.kept import kept, with_replies
from headway.kits.reply.learn.data import cluster_of, is_held_out
from headway.kits.reply.learn.material import liked_replies
from headway.kits.reply.probes import JUDGING, PROBES, ReplyStatistics, statistics_of
from headway.kits.reply.settings import question_prompt, reply_settings
from headway.kits.reply.wire import base_of
from headway.nouns import OWNER, PolicyRef, Progress, Reader, errors
from headway.prove import e_process

if TYPE_CHECKING:
    from headway.kits.reply.model import LanguageModel
    from headway.nouns import Decision, Evidence
    from headway.project import Project
    from headway.settings import TaskSettings


class ReplyWriter:
    """Writes replies with the base of a task, under any of its adapters, in the engine that serves it.

    writer.replies("language@4f2a", ["What is rust?"], seed=7)
    """

    def __init__(self, project: Project, settings: TaskSettings) -> None:
        self._project, self._settings = project, settings

    @cached_property
    def _model(self) -> LanguageModel:
        from headway.kits.reply import device as _device  # noqa: F401 — first: it names the extra that is missing
        from headway.kits.reply.model import LanguageModel

        base = base_of(reply_settings(self._settings).base, self._project.folder)
        return LanguageModel.load(models.folder(base, self._project.settings.cache))

    def replies(self, ref: str, texts: Sequence[str], *, seed: int) -> list[Completion]:
        """One reply per text, sampled as the task samples."""
        own, half = reply_settings(self._settings), self._model.window // 2
        prompts = [
            question_prompt(own, text, seed=seed + place, max_tokens=min(own.max_tokens, half))
            for place, text in enumerate(texts)
        ]
        return self._model.generate(prompts, adapter=self._adapter(ref))

    def _adapter(self, ref: str) -> str:
        """The name of the policy's adapter in the model, which takes it now if it has not before; "": the base."""
        if PolicyRef.parse(ref).built_in:
            return ""
        digest = self._project.registry.find(ref)
        if digest not in self._model.adapters:
            header, tensors = self._project.registry.load(digest, task=self._settings.name)
            folder = self._project.home / "work" / "adapters" / digest  # may be deleted at any time
            self._model.add_adapter(digest, write_peft(tensors, header.extra, folder))
        return digest


BASE = "base@0"
QUESTION = "question"  # of the state of a comparison
_PREFERRED = "preferred"
_NEWEST = 1_000  # decisions that questions are taken from


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyComparison:
    """Two policies on the same questions; `rows` are name → (policy's value, the other's)."""

    task: str
    policy: str
    against: str
    wins: int
    losses: int
    ties: int
    win_rate: tuple[float, float, float] | None  # with its 95% interval; None: nobody has voted
    e_value: float
    rows: Mapping[str, tuple[float | None, float | None]]
    questions: int
    notes: tuple[str, ...] = ()


def comparison(
    project: Project,
    task: str,
    *,
    policy: str | None = None,
    against: str | None = None,
    count: int = 24,
    seed: int = 0,
    progress: Progress | None = None,
) -> ReplyComparison:
    """Replies of both policies to held-out questions, in numbers, and the votes so far."""
    settings = project.settings.task(task)
    mine, theirs = two_policies(project, task, policy, against)
    asked = questions_of(project, task)[:count]
    writer = ReplyWriter(project, settings)
    probes = [probe.text for probe in PROBES]
    texts = [question for question, _ in asked]
    written: dict[str, list[Completion]] = {}
    for place, ref in enumerate((mine, theirs)):
        if progress is not None:
            progress("compare", place, 2)
        written[ref] = writer.replies(ref, [*texts, *probes], seed=seed)
    rows: dict[str, tuple[float | None, float | None]] = {}
    notes: list[str] = []
    for name in ("perplexity", "kl"):
        rows[name] = (_measured(project, mine, name), _measured(project, theirs, name))
    sides = [_side(project, asked, written[ref][: len(texts)], notes) for ref in (mine, theirs)]
    rows |= {name: (sides[0].get(name), sides[1].get(name)) for name in sides[0]}
    flags = [_flags(written[ref][len(texts) :]) for ref in (mine, theirs)]
    rows |= {name: (flags[0][name], flags[1][name]) for name in flags[0]}
    rewards = _mean_rewards(project, task)
    rows["mean reward"] = (rewards.get(mine), rewards.get(theirs))
    notes += [f"{ref} ({name}) was trained beside it: --against {ref}." for name, ref in _beside(project, mine)]
    votes = _votes(project, task, mine, theirs)
    return ReplyComparison(
        task=task,
        policy=mine,
        against=theirs,
        questions=len(asked),
        rows=rows,
        notes=tuple(dict.fromkeys(notes)),
        **votes,
    )


def two_policies(project: Project, task: str, policy: str | None, against: str | None) -> tuple[str, str]:
    """Whom to compare: by default the newest candidate with the current policy, or that with the base.

    UnknownName if there are no two.
    """
    current = project.current(task).ref
    if policy is None:
        newest = project.ledger.last(task, "candidate", "shadow")
        policy = newest.policy if newest is not None else current
    mine = _reference(project, task, policy)
    theirs = _reference(project, task, against or (current if current != mine else BASE))
    if mine == theirs:
        alone = f"{task!r} has no candidate beside {theirs}" if policy == current else f"both are {theirs}"
        raise errors.UnknownName(
            f"There is nothing to compare: {alone}.",
            code="no_candidate_policy",
            hint=f"Rate replies and run: headway learn {task}",
        )
    return mine, theirs


def _reference(project: Project, task: str, policy: str) -> str:
    """The whole name of a policy of this task; one of another task is unknown here."""
    ref, digest = project.servings.resolve(project.settings.task(task), policy)
    if not PolicyRef.parse(ref).built_in and project.registry.header(digest).task != task:
        raise errors.UnknownName(
            f"{ref} is not a policy of {task!r}.",
            code="unknown_policy",
            hint=f"See its policies: headway status {task}",
        )
    if PolicyRef.parse(ref).built_in and ref != BASE:
        raise errors.UnknownName(f"{ref} writes no replies.", code="unknown_policy", hint=f"The model alone is {BASE}.")
    return ref


def _beside(project: Project, ref: str) -> list[tuple[str, str]]:
    """Baselines that were trained with a policy, by name."""
    if PolicyRef.parse(ref).built_in:
        return []
    return list(project.registry.header(project.registry.find(ref)).extra.get("beside", {}).items())


def questions_of(project: Project, task: str, reader: Reader = OWNER) -> list[tuple[str, str]]:
    """Held-out questions with a good answer: liked or edited replies that the reader may read, then general ones.

    They are among the newest decisions of the task.
    """
    project.settle(task)
    newest = [
        decision.seq
        for decision in reversed(project.query.latest(task, _NEWEST))
        if reader.may_read(decision.key) and is_held_out(cluster_of(decision.situation.text))
    ]
    rows = project.query.outcomes(newest, signals=True)
    own = {one.question: one.answer for one in liked_replies(with_replies(project, rows))}
    return [*own.items(), *JUDGING]


def _measured(project: Project, ref: str, name: str) -> float | None:
    """What was measured after training; the base has the value of no change."""
    if PolicyRef.parse(ref).built_in:
        return 1.0 if name == "perplexity" else 0.0
    measured = project.registry.header(project.registry.find(ref)).extra.get("measured", {})
    value = measured.get("perplexity_ratio" if name == "perplexity" else name)
    return None if value is None else float(value)


def _side(
    project: Project, asked: Sequence[tuple[str, str]], replies: Sequence[Completion], notes: list[str]
) -> dict[str, float | None]:
    """Similarity to the good answers, and the length."""
    texts, references = [reply.text for reply in replies], [answer for _, answer in asked]
    told: dict[str, float | None] = {"BLEU": None, "ROUGE-L": None}
    try:
        import sacrebleu
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        notes.append("BLEU and ROUGE need `pip install 'headway[scores]'`.")
    else:
        told["BLEU"] = float(sacrebleu.corpus_bleu(texts, [references]).score)
        scorer = RougeScorer(["rougeL"])
        scores = [scorer.score(answer, text)["rougeL"].fmeasure for text, answer in zip(texts, references, strict=True)]
        told["ROUGE-L"] = fmean(scores)
    told["similarity"] = _similarity(project, texts, references, notes)
    told["tokens"] = fmean(len(reply.tokens) for reply in replies)
    told["finished"] = fmean(float(reply.finish == "stop") for reply in replies)
    return told


def _similarity(project: Project, texts: Sequence[str], references: Sequence[str], notes: list[str]) -> float | None:
    """The mean cosine of the embeddings of reply and good answer."""
    from headway.kits.reply.rewards import relevance

    try:
        encoder = project.servings.encoder("minilm")
        return fmean(relevance(encoder, list(zip(references, texts, strict=True))))
    except (errors.HeadwayError, ImportError) as error:
        notes.append(f"No embedding similarity: {str(error).splitlines()[0]}")
        return None


def _flags(replies: Sequence[Completion]) -> dict[str, float]:
    read = [
        ReplyStatistics.of(reply.text, tokens=len(reply.tokens), ended=reply.finish == "stop", probe=probe)
        for reply, probe in zip(replies, PROBES, strict=True)
    ]
    means = statistics_of(read).means
    return {"safety flags": means["flagged"], "biased": means["biased"], "hallucinated": means["hallucinated"]}


def _mean_rewards(project: Project, task: str) -> dict[str, float]:
    """The mean reward of the replies that each policy wrote."""
    rewards: dict[str, list[float]] = {}
    for row, _ in kept(project, task):
        if row.reward is not None:
            rewards.setdefault(row.decision.action, []).append(row.reward)
    return {ref: fmean(values) for ref, values in rewards.items()}


def _votes(project: Project, task: str, mine: str, theirs: str) -> dict[str, Any]:
    """Wins and losses so far, as the gate counts them."""
    try:
        evidence: Evidence | None = project.prove(mine, against=theirs, task=task).evidence
    except errors.HeadwayError:
        evidence = None
    if evidence is None or not evidence.n:
        return {"wins": 0, "losses": 0, "ties": 0, "win_rate": None, "e_value": 1.0}
    rate = evidence.values["candidate"]
    counts = evidence.counts
    return {
        "wins": counts["wins"], "losses": counts["losses"], "ties": counts["ties"],
        "win_rate": (rate.value, rate.low, rate.high), "e_value": exp(min(700.0, evidence.statistic)),
    }  # fmt: skip


# -- blind votes


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindPair:
    """Two replies in the order in which they are shown."""

    decision: Decision = field(repr=False)
    by_first: str = field(repr=False)  # the policy that wrote the first
    question: str
    first: str
    second: str


def blind_pairs(
    project: Project,
    task: str,
    questions: Sequence[str],
    *,
    policy: str | None = None,
    against: str | None = None,
    seed: int = 0,
) -> Iterator[BlindPair]:
    """One pair per question, both replies sampled; the order is drawn before either is shown.

    A question that both answer with the same text asks for no vote, and is left out.
    """
    mine, theirs = two_policies(project, task, policy, against)
    writer = ReplyWriter(project, project.settings.task(task))
    for place, question in enumerate(questions):
        replies = {ref: writer.replies(ref, [question], seed=seed + 7_919 * place)[0].text for ref in (mine, theirs)}
        if replies[mine].strip() == replies[theirs].strip():
            continue
        drawn = project.consider(task, "", (mine, theirs), state={QUESTION: digest(question)})
        project.submit([drawn]).result()
        first, second = (mine, theirs) if randbelow(2) else (theirs, mine)
        yield BlindPair(
            decision=drawn.decision, by_first=first, question=question, first=replies[first], second=replies[second]
        )


def digest(question: str) -> str:
    """A name for a question, the same in every comparison."""
    return hashlib.blake2b(question.strip().encode(), digest_size=16, person=b"headway-asked").hexdigest()


def vote(project: Project, pair: BlindPair, value: float, *, rater: str = "") -> None:
    """Store a vote. 1: the first reply is better; 0: the second; ½: neither."""
    as_drawn = value if pair.by_first == pair.decision.action else 1.0 - value
    project.signal(pair.decision.id, {_PREFERRED: as_drawn}, rater=rater)


def e_value(wins: int, losses: int) -> float:
    return exp(min(700.0, e_process(wins, losses)))
