"""Learns which mutation a prompt needs in the synthetic prompts world, and judges it on held-out prompts.

run = learn_mutations(seed=7)
run.value, run.optimum, run.fixed            # on held-out prompts, exact expectations
store(project, run)                          # a candidate of the task `mutate`, acting on text
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.kits.practice import publish_practised
from headway.kits.prompts.checked_prompts import CLASSES
from headway.kits.prompts.choosers import interval
from headway.kits.prompts.kinds import MUTATIONS
from headway.kits.prompts.synthetic import Chooser, Synthetic, examples, synthetic
from headway.nouns import Candidate, Learned, Progress, Situation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headway.kits.practice import ActorCritic, Fitted, Practice
    from headway.nouns import Encoder, Floats
    from headway.project import Project

TASK = "mutate"
WIDTH = 128  # of the hashing encoder: its default, so that the policy can serve a task as it is
TRAIN, TEST = 1400, 210  # prompts
PROOF = 2100  # prompts that a proof plays on, none of which the figures above were computed on
STEPS = 200_000
_CANDIDATES = tuple(Candidate(name) for name in MUTATIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationRun:
    """The result of practice on held-out prompts. Values are per prompt; the policy acts greedily."""

    learned: Learned
    encoder: str
    seed: int
    steps: int
    seconds: float
    value: float
    sampled: float  # the same policy, sampled
    optimum: float
    fixed: float  # the best order of mutations, the same for all prompts
    fixed_order: tuple[str, ...]
    action: float  # the best single mutation, once
    best_action: str
    uniform: float
    gain: tuple[float, float, float]  # over the best fixed order: mean and its 95% interval, over prompts
    shares: dict[str, dict[str, float]]  # class → mutation → how often it is tried first
    curve: tuple[tuple[int, float], ...]  # steps, mean training return

    @property
    def share(self) -> float:
        """The share of the optimum."""
        return self.value / self.optimum


def learn_mutations(*, seed: int, steps: int = STEPS, progress: Progress | None = None) -> MutationRun:
    """Practise on prompts of the train part, and judge on the test part; the class label is hidden."""
    from headway.encode import encoder as encoder_of
    from headway.kits.practice import on_text, one_thread, practise_in, read

    begun = time.perf_counter()
    encoder, curve = encoder_of(f"hashing-1-w{WIDTH}", cached=False), list[tuple[int, float]]()

    def watch(fitted: Fitted) -> None:
        curve.append((fitted.steps, float(np.mean(fitted.returns[-1000:]))))

    with one_thread():
        fitted = practise_in(
            lambda count: synthetic("train", count=count, prompts=TRAIN, seed=seed, encoder=encoder),
            _practice(steps),
            seed,
            progress=progress,
            watch=watch,
        )
        result = on_text(fitted, encoder, arms=MUTATIONS)
        learned = replace(result, trained_on={**result.trained_on, "prompts": TRAIN, "source": "synthetic"})
        policy = read(learned.knobs, learned.tensors, learned.extra, encoder)
        judged = _judged(policy, encoder, seed)
    return MutationRun(
        learned=learned,
        encoder=encoder.version,
        seed=seed,
        steps=fitted.steps,
        seconds=time.perf_counter() - begun,
        curve=tuple(curve),
        **judged,
    )


def _practice(steps: int) -> Practice:
    from headway.kits.practice import Practice

    # Observations stay unit vectors, so that the network can act on a text's features unchanged.
    return Practice(
        steps=steps, envs=64, horizon=32, epochs=4, minibatch=256, rate=1.5e-3, schedule="linear", gamma=1.0, lam=0.95,
        entropy=0.005, hidden=(64, 64), activation="relu", normalise_observations=False, normalise_rewards=False,
    )  # fmt: skip


def choosers(policy: ActorCritic, encoder: Encoder) -> tuple[Chooser, Chooser]:
    """Two choosers: the policy's distribution over the applicable mutations, and its first choice."""

    def drawn(texts: Sequence[str], masks: NDArray[np.bool_]) -> Floats:
        situations = [Situation(task=TASK, text=text) for text in texts]
        own = policy.judge(policy.features.vectors(situations, encoder), _CANDIDATES).probabilities * masks
        shares: Floats = own / own.sum(axis=1, keepdims=True)
        return shares

    def greedy(texts: Sequence[str], masks: NDArray[np.bool_]) -> Floats:
        first: Floats = np.eye(len(MUTATIONS))[drawn(texts, masks).argmax(axis=1)]
        return first

    return drawn, greedy


def _judged(policy: ActorCritic, encoder: Encoder, seed: int) -> dict[str, Any]:
    truth, prompts = Synthetic(), examples("test", TEST, seed)
    share, greedy = choosers(policy, encoder)
    values, best = truth.value(greedy, prompts), truth.best_values(prompts)
    fixed, order = truth.fixed()
    action, name = truth.action()
    gain = values - truth.fixed_values(prompts, order)
    first = share([prompt.text for prompt in prompts], np.ones((len(prompts), len(MUTATIONS)), dtype=np.bool_))
    kinds = np.array([prompt.place for prompt in prompts])
    return {
        "value": float(values.mean()),
        "sampled": float(truth.value(share, prompts[: TEST // 3], least=1e-3).mean()),
        "optimum": float(best.mean()),
        "fixed": fixed,
        "fixed_order": order,
        "action": action,
        "best_action": name,
        "uniform": _uniform(truth),
        "gain": interval(gain),
        "shares": {
            kind: dict(zip(MUTATIONS, first[kinds == place].mean(axis=0).round(4).tolist(), strict=True))
            for place, kind in enumerate(CLASSES)
        },
    }


def _uniform(truth: Synthetic) -> float:
    one_of_each = {example.kind: example for example in examples("test", 7, 0)}
    return float(truth.value(lambda _, masks: masks / masks.sum(axis=1, keepdims=True), [*one_of_each.values()]).mean())


def store(project: Project, run: MutationRun, task: str = TASK) -> str:
    """Publish the run as a candidate of the task; it must be proven before it decides."""
    learned = replace(
        run.learned,
        metrics={**run.learned.metrics, "mean_return": run.value, "optimum": run.optimum},
        baselines={"uniform": run.uniform, "fixed": run.fixed},
    )
    published = publish_practised(
        project,
        learned,
        task=task,
        kind="choice",
        encoder=run.encoder,
        world="prompts",
        seed=run.seed,
        fresh={"part": "test", "prompts": PROOF, "seed": run.seed + PROOF},
    )
    return published.ref
