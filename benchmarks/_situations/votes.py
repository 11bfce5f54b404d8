"""Blind comparisons of two policies that write replies: who answers them, and for whom."""

from __future__ import annotations

import numpy as np

from _situations.client import Client
from _situations.trial import Ending, settle_it
from headway.kits.reply import duels
from headway.nouns.errors import HeadwayError
from headway.nouns.protocols import Learned

SETTINGS = 'kind = "reply"\n'
HONEST = ("ann", "bob", "cem", "dan")
COLLUDERS = ("mallory", "trent")
MUTE = "mute"
EVERY = 5
MEASURED = {  # an adapter with which nothing else is wrong
    "logprob_gap": 0.0, "kl": 0.0, "perplexity_ratio": 1.0, "probe_length": 20.0, "champion_length": 20.0,
    "probe_flagged": 0.0, "champion_flagged": 0.0, "probe_count": 40.0,
    **{f"{who}_{name}": 0.0 for who in ("probe", "champion") for name in ("empty", "repetition", "refusal", "ended")},
    **{f"champion_{name}_sd": 0.1 for name in ("empty", "repetition", "refusal", "ended")},
}  # fmt: skip


def compared(
    seed: int,
    *,
    preferred: float,
    losers_answer: float = 1.0,
    colluders: float = 0.0,
    mute: float = 0.0,
    most: int = 200,
) -> Ending:
    """Up to so many comparisons, and a look after every fifth.

    The candidate is truly preferred in a share `preferred` of them. Who prefers the other reply answers with
    probability `losers_answer`; a share `colluders` goes to two keys that always vote for the candidate, and
    a share `mute` to one that never answers.
    """
    ending = Ending()
    with Client(SETTINGS, seed=seed, task="reply") as client:
        project, rng = client.project, client.rng
        learned = Learned(
            family="language", tensors={"lora": np.ones(4, np.float32)}, knobs={}, metrics={}, baselines={},
            trained_on={}, extra={"measured": MEASURED},
        )  # fmt: skip
        candidate = project.publish(learned, task="reply", kind="reply", encoder="", seed=0, why="compared").ref
        for place in range(most):
            client.next_id()
            colluding = rng.random() < colluders
            rater = (COLLUDERS if colluding else HONEST)[int(rng.integers(2 if colluding else len(HONEST)))]
            silent = mute > 0.0 and rng.random() < mute
            rater = MUTE if silent else rater
            asked = duels.choose(project, "reply", candidate, "base@0")
            duel = duels.seal(project, asked, ("the candidate's", "the other's"), key=rater)
            wins = colluding or rng.random() < preferred
            if not silent and (wins or rng.random() < losers_answer):
                duels.vote(project, "reply", duel.id, float((duel.left == "the candidate's") == wins), rater=rater)
            if place % EVERY != EVERY - 1:
                continue
            ending.looks += 1
            ending.decisions = client.made
            try:
                verdict = project.prove(candidate, against="base@0", task="reply")
            except HeadwayError as error:
                ending.state, ending.reason, ending.said = "error", error.code, error.message
                continue
            if settle_it(client, candidate, verdict, ending, uplift=preferred - 0.5):
                break
    return ending


def losers_silent(seed: int) -> Ending:
    """Replies are equally good; of those who like the other one better, three in four leave without an answer."""
    return compared(seed, preferred=0.5, losers_answer=0.25)


def losers_answer(seed: int) -> Ending:
    """The cure: everybody answers, and the candidate is better."""
    return compared(seed, preferred=0.75)


def some_silent_and_better(seed: int) -> Ending:
    """One in four who dislike the candidate's reply leaves; it is better by more than that."""
    return compared(seed, preferred=0.75, losers_answer=0.75)


def mute_key(seed: int) -> Ending:
    """Replies are equally good, losers leave in silence, and one key asks for a third of all and never answers."""
    return compared(seed, preferred=0.5, losers_answer=0.25, mute=1 / 3)


def mute_key_on_a_better_one(seed: int) -> Ending:
    """The same key, and a candidate that the others prefer and say so: it takes more votes."""
    return compared(seed, preferred=0.8, mute=1 / 3, most=600)


def two_collude(seed: int) -> Ending:
    """Replies are equally good; two of six keys always vote for the candidate."""
    return compared(seed, preferred=0.5, colluders=1 / 3)


def two_collude_on_a_better_one(seed: int) -> Ending:
    """The same keys, and a candidate that the others prefer too."""
    return compared(seed, preferred=0.75, colluders=1 / 3)
