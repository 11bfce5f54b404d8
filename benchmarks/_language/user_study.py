"""The synthetic user on a real model: ratings, training, and a blind comparison on topics that were never rated.

    study(folder, "kto", seed=11)          # a dict: wins, losses, e_value, kl, perplexity_ratio, cpu_s, …

60 replies of the base are rated; a fifth of their prompts is held out. The trained model and the base answer 90
questions about other topics once each, sampled, without examples; the user prefers the better of each pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

from _language.synthetic_user import OTHER, TRAINED, prompts, rating, utility

RATINGS, QUESTIONS, TOKENS, TOGETHER = 60, 90, 64, 20


def answers(write: Callable[[list[Any]], list[Any]], questions: Sequence[str], seed: int) -> list[Any]:
    from headway.kits.models.language import Prompt, Turn

    asked = [
        Prompt(turns=(Turn("user", text),), max_tokens=TOKENS, temperature=1.0, seed=seed * 1000 + place)
        for place, text in enumerate(questions)
    ]
    return [
        reply for start in range(0, len(asked), TOGETHER) for reply in write(asked[start : start + TOGETHER])
    ]  # fmt: skip


def shape(reply: Any) -> tuple[int, bool]:
    """Tokens without the one that ends it, and whether it ended."""
    finished = reply.finish == "stop"
    return len(reply.tokens) - finished, finished


def study(
    folder: Path, learner: str, *, seed: int, ratings: int = RATINGS, questions: int = QUESTIONS
) -> dict[str, Any]:
    """One run."""
    from headway.kits.reply.knobs import knobs_from
    from headway.kits.reply.learn.data import RatedReply, divided, graded
    from headway.kits.reply.learn.kto import Kto
    from headway.kits.reply.learn.measure import distance, ranking
    from headway.kits.reply.learn.objective import Sft
    from headway.kits.reply.learn.ppo import Ppo
    from headway.kits.reply.learn.trainer import Trainer
    from headway.kits.reply.learn.tuned import TunedModel
    from headway.prove.sequential import e_process

    tuned = TunedModel.load(folder, seed=seed)
    asked, others = prompts(TRAINED, seed, ratings), prompts(OTHER, seed, questions)
    written = answers(tuned.generate_base, asked, seed)
    before = answers(tuned.generate_base, others, seed + 500)
    rated = [
        RatedReply(
            id=f"d{place:03}", text=text, prompt=reply.prompt_tokens, reply=reply.tokens, logged=reply.logprob_model,
            reward=(rating(shape(reply)[0], finished=shape(reply)[1]) - 3) / 2, at=float(place),
        )
        for place, (text, reply) in enumerate(zip(asked, written, strict=True))
    ]  # fmt: skip
    parts, knobs = divided(graded(rated)), knobs_from({"learner": learner})
    objective: Any = {"kto": lambda: Kto(seed=seed), "ppo": lambda: Ppo(knobs), "sft": Sft}[learner]()
    trainer = Trainer(tuned, parts.train, objective, knobs, seed=seed)
    began = time.process_time()
    trainer.run()
    cpu = time.process_time() - began
    told = {**distance(tuned), **ranking(trainer, parts.held_out)}
    after = answers(tuned.generate, others, seed + 900)
    worth = [[utility(shape(reply)[0], finished=shape(reply)[1]) for reply in replies] for replies in (after, before)]
    wins = sum(mine > theirs for mine, theirs in zip(*worth, strict=True))
    losses = sum(mine < theirs for mine, theirs in zip(*worth, strict=True))
    return {
        "learner": learner, "seed": seed, "wins": wins, "losses": losses, "ties": questions - wins - losses,
        "e_value": exp(min(700.0, e_process(wins, losses))), "train_cpu_s": cpu, **told,
        "liked": fmean(value > 0 for value in worth[0]), "liked_before": fmean(value > 0 for value in worth[1]),
        "tokens": fmean(shape(reply)[0] for reply in after),
        "tokens_before": fmean(shape(reply)[0] for reply in before),
        "empty": sum(not reply.text.strip() for reply in after), "updates": trainer.counts.updates,
    }  # fmt: skip
