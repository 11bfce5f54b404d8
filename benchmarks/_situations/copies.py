"""Rows that are copies of others in all but a number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from _situations.client import Client, Visit, Visits
from _situations.trial import Ending, learn, look, settle_it
from headway.nouns import ids
from headway.nouns.errors import HeadwayError

SETTINGS = 'actions = ["a", "b"]\nrange = [0, 1]\nfallback = "a"\n'


def _word(rng: np.random.Generator) -> str:
    return "".join("abcdefghijklmnop"[place] for place in rng.integers(16, size=6))


def near_copies(seed: int, *, prompts: int = 150, hard: bool = False, new: int = 0) -> Ending:
    """History without probabilities: each prompt comes eight times with another number, and its outcome is its own.

    `hard`: the outcome follows from a word of the prompt instead, which holds for prompts that nobody has seen. `new`:
    so many prompts more, once each.
    """
    ending = Ending()
    with Client(SETTINGS, seed=seed) as client:
        rng, rows = client.rng, []
        for prompt in range(prompts + new):
            difficult = bool(rng.random() < 0.5)
            text = f"{'difficult' if difficult else 'simple'} {_word(rng)} {_word(rng)}"
            worth = float(not difficult) if hard else float(rng.random() < 0.5)
            for _ in range(8 if prompt < prompts else 1):
                action = "ab"[int(rng.integers(2))]
                rows.append({"text": f"{text} {rng.integers(10**6)}", "action": action, "reward": worth})
        rng.shuffle(rows)  # type: ignore[arg-type]
        _proven(client, rows, ending, uplift=1.0 if hard else 0.0, predicts_only=True)
    return ending


def hidden_difficulty(seed: int, settings: str = 'promote = "auto"\n') -> Ending:
    """No probabilities: easy cases went to `b` and hard ones to `a`, which nobody logged. The actions are equal."""
    ending = Ending()
    with Client(f"{SETTINGS}{settings}", seed=seed) as client:
        rng, rows = client.rng, []
        for place in range(1500):
            easy = rng.random() < 0.5
            action = "ba"[int((rng.random() < 0.8) != easy)]
            reward = float(rng.random() < (0.9 if easy else 0.2))
            rows.append({"text": f"{_word(rng)} {_word(rng)} {_word(rng)} {place}", "action": action, "reward": reward})
        _proven(client, rows, ending, uplift=0.0)
    return ending


def _proven(client: Client, rows: Sequence[dict[str, Any]], ending: Ending, uplift: float, **accept: bool) -> None:
    """Import, learn, prove once, and promote what passes."""
    _imported(client, rows)
    candidate = learn(client, ending)
    if candidate is None:
        return
    ending.looks, ending.decisions = 1, len(rows)
    try:
        verdict = client.project.prove(candidate, task=client.task)
    except HeadwayError as error:
        ending.state, ending.reason, ending.said = "error", error.code, error.message
        return
    settle_it(client, candidate, verdict, ending, uplift=uplift, **accept)


def _imported(client: Client, rows: Sequence[dict[str, Any]]) -> None:
    path = client.folder / "history.jsonl"
    path.write_text("".join(json.dumps(row | {"id": place}) + "\n" for place, row in enumerate(rows)), "utf-8")
    client.project.import_file(path, task=client.task, columns={"propensity": "unknown"}, candidates=("a", "b"))


def word_matters(seed: int) -> Ending:
    """The cure: prompts of their own, and an outcome that follows from what they say."""
    return near_copies(seed, hard=True, new=1200)


def retries(seed: int, better: float = 0.0) -> Ending:
    """A client's log in which each decision is stored up to four times; every copy has a request number of its own."""
    ending, request = Ending(), 0
    with Client(SETTINGS, seed=seed) as client:
        for _ in range(12):
            lines = []
            for _ in range(50):
                client.next_id()
                x, action = float(client.rng.random()), "ab"[int(client.rng.integers(2))]
                won = float(client.rng.random() < 0.5 + better * (action == "a"))
                for _ in range(int(client.rng.integers(1, 5)) if client.rng.random() < 0.1 else 1):
                    request += 1
                    lines.append({
                        "id": ids.decision(client.clock.now, client.rng.bytes(8)), "task": client.task,
                        "at": client.clock.now, "state": {"x": x, "request": request}, "candidates": ["a", "b"],
                        "probabilities": [0.5, 0.5], "action": action,
                        "signals": [{"name": "reward", "value": won, "at": client.clock.now + 1.0}],
                    })  # fmt: skip
            path = client.folder / f"log{request}.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
            client.project.import_file(path, format="headway")
            client.wait(3600.0)
            if look(client, "fixed@0", ending, _visits(better), against="uniform@0", trust_claims=True):
                break
    return ending


def _visits(better: float) -> Visits:
    worth = {"a": 0.5 + better, "b": 0.5}

    def visit(_: np.random.Generator, place: int) -> Visit:
        return Visit(worth, lambda _: (), details={"state": {"x": 0.5, "request": place}})

    return visit


def retries_and_better(seed: int) -> Ending:
    """The same log where a is .3 better."""
    return retries(seed, better=0.3)
