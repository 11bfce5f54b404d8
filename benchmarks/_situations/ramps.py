"""A promotion on its way: arms that get worse with their share of the traffic, that stay good, or turn out equal.

A candidate that takes `b` is proven by a log in which `b` gets a tenth of the traffic, and promoted. What `b` earns
may depend on its share among the latest 100 decisions, as with a rate limit. The project is looked at after every 25
outcomes, as the loop does it.

`alone` plays the same steps on arrays, without a store and a learner: the tests of the steps, the rule that ends them,
and the same looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np

from _situations.client import Client, Report, Visit
from _situations.trial import Ending
from headway.promote import Ramp, gate
from headway.prove.about import About
from headway.prove.evidence import evidence_of, log_proof
from headway.prove.log import Log

SETTINGS = (
    'actions = ["a", "b"]\nrange = [0, 1]\nreward = { reward = 1.0 }\nencoder = "structure"\nfallback = "a"\n'
    'explore = { kind = "epsilon", value = 0.2 }\nrules = [{ when = "text_length > 5000", use = "b" }]\n'
    'final_after_s = 0\nexperiment = "off"\nramp = "on"\n'
)
_A, _B, _SATURATED = 0.6, 0.85, 0.3
_FULL = 0.25  # the share of the traffic above which `b` is saturated
_WINDOW = 100
_LEARN, _LOOK, _STEP, _MOST = 400, 100, 25, 4000

Worth = Callable[[float], float]  # what b earns from the promotion on, by its share


def ramp(seed: int, worth: Worth) -> Ending:
    """`promoted`: it reached the whole traffic; `notes`: decisions to the proof, to the last step, to the end."""
    ending, latest, promoting = Ending(), deque[bool](maxlen=_WINDOW), False
    notes = ending.notes

    def visits(rng: np.random.Generator, made: int) -> Visit:
        def report(action: str) -> list[Report]:
            latest.append(action == "b")
            p = _A if action == "a" else worth(sum(latest) / len(latest)) if promoting else _B
            return [Report({"reward": float(rng.random() < p)})]

        return Visit({}, report, f"ask {made % 7}")

    with Client(SETTINGS, seed=seed) as client:
        client.serve(visits, _LEARN)
        candidate, verdict = client.project.learn(client.task), None
        while client.made < _MOST and (verdict is None or not verdict.passed):
            client.serve(visits, _LOOK)
            verdict = client.project.prove(candidate, task=client.task)
        if verdict is None or not verdict.passed:
            ending.reason, ending.decisions = "not proven", client.made
            return ending
        notes["proof"] = client.made
        entry = client.project.promote(candidate, because=verdict, task=client.task)
        promoting, began = True, client.made
        while entry.kind == "canary" and client.made < notes["proof"] + _MOST:
            client.serve(visits, _STEP)
            followed = client.project.guard(client.task)
            if followed is None:
                continue
            if followed.kind == "retire":
                assert entry.ramp is not None
                notes |= {"stopped": client.made, "step": entry.ramp.target, "in_step": client.made - began}
            entry, began = followed, client.made
            if entry.ramp is not None:
                notes[f"at {entry.ramp.target:g}"] = client.made
        ending.state, ending.said, ending.decisions = entry.kind, entry.why, client.made
        ending.promoted = entry.kind == "promote"
        ending.uplift = worth(1.0) - _A
    return ending


saturating = partial(ramp, worth=lambda share: _SATURATED if share > _FULL else _B)
good = partial(ramp, worth=lambda _: _B)
equal = partial(ramp, worth=lambda _: _A)


CURRENT, CANDIDATE = np.array([0.891, 0.109]), np.array([0.109, 0.891])  # either action, with 20% exploration and floor


def alone(seed: int, worth: Worth, rows: int = 400) -> Ending:
    """A promotion after a proof of so many rows, which may reach its end or be stopped."""
    rng, ending, latest = np.random.default_rng([seed, 3]), Ending(), deque[bool](maxlen=_WINDOW)
    step: Ramp | None = Ramp.begin(proven=0.0, rows=rows)
    ending.notes["proof"] = rows
    while step is not None:
        if step.step > 1:
            ending.notes[f"at {step.target:g}"] = rows + ending.decisions
        mixed = (1.0 - step.share) * CURRENT + step.share * CANDIDATE
        about = About(task="route", candidate="b@1", against="a@1", alpha_worse=step.alpha, guard=True,
                      reward_range=(0.0, 1.0))  # fmt: skip
        proof, made = log_proof(about, hashing=False), 0
        while True:
            action = (rng.random(_STEP) < mixed[1]).astype(np.int64)
            reward = np.zeros(_STEP)
            for place, took in enumerate(action.tolist()):
                latest.append(bool(took))
                reward[place] = rng.random() < (worth(sum(latest) / len(latest)) if took else _A)
            proof.update(
                Log.of(
                    reward=reward,
                    action=action,
                    logged=np.tile(mixed, (_STEP, 1)),
                    target=np.tile(CANDIDATE, (_STEP, 1)),
                    baseline=np.tile(CURRENT, (_STEP, 1)),
                    order=np.arange(made, made + _STEP),
                    arms=("a", "b"),
                )
            )
            made, ending.decisions = made + _STEP, ending.decisions + _STEP
            evidence = evidence_of(proof, about)
            if gate.worse(evidence):
                ending.state = "retire"
                ending.notes |= {"stopped": rows + ending.decisions, "step": step.target, "in_step": made}
                return ending
            if not step.holds(evidence) or made >= _MOST:
                break
        step = step.next
    ending.state, ending.promoted = "promote", True
    return ending


equal_alone = partial(alone, worth=lambda _: _A)
saturating_alone = partial(alone, worth=lambda share: _SATURATED if share > _FULL else _B)
