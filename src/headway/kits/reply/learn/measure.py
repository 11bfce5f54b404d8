"""What the gate asks of an adapter, measured while its model is loaded: distance, perplexity, ranking, probes.

    measured = measure(trainer, held_out, champion=None)     # a flat dict of numbers, stored with the bundle

Everything is deterministic: fixed texts, fixed seeds, greedy or seeded replies.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from math import exp
from typing import Any

import numpy as np
import torch

from headway.kits.models import Completion, Prompt, Turn
from headway.kits.reply.learn.data import Sample
from headway.kits.reply.learn.losses import anchor_kl
from headway.kits.reply.learn.scorer import TokenRow
from headway.kits.reply.learn.trainer import Trainer
from headway.kits.reply.learn.tuned import TunedModel
from headway.kits.reply.probes import JUDGING, PROBES, ReplyStatistics, statistics_of

_BOOTSTRAPS = 1_000
_PROBE_TOKENS = 64


@torch.no_grad()
def distance(tuned: TunedModel) -> dict[str, float]:
    """KL to the base in nats per token, and the ratio of perplexities, on texts that never train."""
    divergence = own = base = 0.0
    tokens = 0
    for row in tuned.anchor_rows(JUDGING):
        now = tuned.scorer.logits([row]).log_softmax(-1)
        with tuned.adapter.off():
            before = tuned.scorer.logits([row]).log_softmax(-1)
        words = torch.tensor(row.reply, device=now.device)[:, None]
        divergence += float(anchor_kl(now, before)) * len(row.reply)
        own, base = own + float(now.gather(1, words).sum()), base + float(before.gather(1, words).sum())
        tokens += len(row.reply)
    return {"kl": divergence / tokens, "perplexity_ratio": exp(min(50.0, (base - own) / tokens))}


def auc_interval(good: Sequence[float], bad: Sequence[float], *, seed: int = 0) -> tuple[float, float, float]:
    """How often a good reply moved up more than a bad one, with a 90% bootstrap interval."""

    def area(above: Any, below: Any) -> float:
        return float((above[:, None] > below[None]).mean() + 0.5 * (above[:, None] == below[None]).mean())

    above, below = np.array(good), np.array(bad)
    draws = np.random.default_rng(seed)
    drawn = [
        area(draws.choice(above, len(above)), draws.choice(below, len(below))) for _ in range(_BOOTSTRAPS)
    ]  # fmt: skip
    low, high = np.quantile(drawn, (0.05, 0.95))
    return area(above, below), float(low), float(high)


def ranking(trainer: Trainer, held_out: Sequence[Sample]) -> dict[str, float]:
    """Whether held-out good replies moved up more than held-out bad ones, and the perplexity of the good ones."""
    told = {"held_out_good": 0.0, "held_out_bad": 0.0}
    rows = [TokenRow(sample.prompt, sample.reply) for sample in held_out]
    if not rows:
        return told
    now = trainer.scores(rows)
    with trainer.tuned.adapter.off():
        before = trainer.scores(rows)
    moved: dict[bool, list[float]] = {True: [], False: []}
    own = base = tokens = 0.0
    for sample, mine, theirs in zip(held_out, now, before, strict=True):
        moved[sample.desirable].append(float((mine - theirs).sum()) * (trainer.mean_length / len(mine)) ** 0.5)
        if sample.liked:
            own, base, tokens = own + float(mine.sum()), base + float(theirs.sum()), tokens + len(mine)
    told |= {"held_out_good": float(len(moved[True])), "held_out_bad": float(len(moved[False]))}
    if tokens:
        told["perplexity_liked"] = exp(min(50.0, (base - own) / tokens))
    if moved[True] and moved[False]:
        told["auc"], told["auc_low"], told["auc_high"] = auc_interval(moved[True], moved[False])
    return told


@torch.no_grad()
def other_roles(tuned: TunedModel, others: Sequence[tuple[str, str]]) -> dict[str, float]:
    """The perplexity of what was liked in other roles, as a multiple of the base's: what a role costs the others."""
    rows = [tuned.row(question, answer) for question, answer in others if answer.strip()]
    own = base = tokens = 0.0
    for row in rows:
        now = float(tuned.scorer.rows([row]).logprobs.sum())
        with tuned.adapter.off():
            before = float(tuned.scorer.rows([row]).logprobs.sum())
        own, base, tokens = own + now, base + before, tokens + len(row.reply)
    return (
        {"perplexity_other_roles": exp(min(50.0, (base - own) / tokens)), "other_roles": float(len(rows))}
        if rows
        else {}
    )


def measure(
    trainer: Trainer,
    held_out: Sequence[Sample],
    prompts: Sequence[str],
    champion: Mapping[str, Any] | None = None,
    *,
    others: Sequence[tuple[str, str]] = (),
    detect: Callable[[str], bool] | None = None,
) -> dict[str, float]:
    """All numbers of the gate but the votes. `prompts` are held-out questions of the user, beside the fixed probes."""
    tuned = trainer.tuned
    told = {**distance(tuned), **ranking(trainer, held_out), **other_roles(tuned, others)}
    asked = [*(probe.text for probe in PROBES), *list(dict.fromkeys(prompts))[:16]]
    mine = tuned.served_replies(_asked(asked), tuned.adapter.tensors())
    told["logprob_gap"] = _gap(tuned, mine)
    for name, value in statistics_of(_read(mine, asked, detect)).numbers().items():
        told[f"probe_{name}"] = value
    theirs = tuned.served_replies(_asked(asked), champion)
    for name, value in statistics_of(_read(theirs, asked, detect)).numbers().items():
        told[f"champion_{name}"] = value
    return told


def _asked(texts: Sequence[str]) -> list[Prompt]:
    draws = random.Random("probes")
    return [
        Prompt(turns=(Turn("user", text),), max_tokens=_PROBE_TOKENS, temperature=0.7, seed=draws.randrange(2**31))
        for text in texts
    ]


def _read(
    replies: Sequence[Completion], asked: Sequence[str], detect: Callable[[str], bool] | None
) -> list[ReplyStatistics]:
    probes = [*PROBES, *([None] * (len(asked) - len(PROBES)))]
    return [
        ReplyStatistics.of(
            reply.text, tokens=len(reply.tokens), ended=reply.finish == "stop", probe=probe, detect=detect
        )
        for reply, probe in zip(replies, probes, strict=True)
    ]


@torch.no_grad()
def _gap(tuned: TunedModel, replies: Sequence[Completion]) -> float:
    """The largest difference between the log-probabilities of the serving engine and those of training."""
    worst = 0.0
    for reply in replies[:4]:
        scored = tuned.scorer.rows([TokenRow(reply.prompt_tokens, reply.tokens)]).logprobs[0]
        written = torch.tensor(reply.logprob_model, device=scored.device)
        worst = max(worst, float((scored[: len(written)] - written).abs().max())) if len(written) else worst
    return worst
