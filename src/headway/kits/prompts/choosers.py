"""The value of a way of choosing mutations on prompts with a real model: every branch, with its probability.

    practised, kept = parted(prompts)                     # a fifth is held out, by a hash of the prompt's id
    values_of(uniform, kept, outcomes)                        # PromptValues(reward [prompt], passed [prompt])
    values_of(in_order(ranked(practised, outcomes)), kept, outcomes)

A chooser gives probabilities, and the value is their exact expectation: with one answer per text the only randomness
left is the choice of held-out prompts, and `interval` covers that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.kits.prompts.checked_prompts import CheckedPrompt
from headway.kits.prompts.kinds import MUTATIONS
from headway.kits.prompts.outcomes import Outcomes
from headway.kits.prompts.synthetic import Chooser
from headway.kits.prompts.world import after, may
from headway.nouns import Floats

_SHARE = 5  # one in this many is held out
_LEAST = 1e-4  # branches that are less probable are not followed


class PromptValues(NamedTuple):
    """[prompt] each: the expected reward, and the probability that the answer passed."""

    reward: Floats
    passed: Floats


def parted(prompts: Sequence[CheckedPrompt]) -> tuple[list[CheckedPrompt], list[CheckedPrompt]]:
    """Prompts to practise on, and a held-out fifth, at least two; prompts with the same text stay together."""
    first: dict[str, str] = {}
    for prompt in prompts:
        first.setdefault(prompt.text, prompt.id)
    ids = sorted(first.values(), key=lambda name: hashlib.sha256(name.encode("utf-8", "replace")).digest())
    kept = set(ids[: max(2, round(len(ids) / _SHARE))])
    return (
        [prompt for prompt in prompts if first[prompt.text] not in kept],
        [prompt for prompt in prompts if first[prompt.text] in kept],
    )


def masks_of(texts: Sequence[str]) -> NDArray[np.bool_]:
    """[text, mutation]: whether it would change the text; all of them if none would, as in the world."""
    masks = np.array([may(text) for text in texts], dtype=np.bool_).reshape(-1, len(MUTATIONS))
    masks[~masks.any(axis=1)] = True
    return masks


def steps_from(prompts: Sequence[CheckedPrompt]) -> list[tuple[CheckedPrompt, str]]:
    """Every text after one mutation of these prompts, with its prompt."""
    return [
        (prompt, after(prompt.text, int(kind)))
        for prompt, mask in zip(prompts, masks_of([prompt.text for prompt in prompts]), strict=True)
        for kind in np.flatnonzero(mask)
    ]


def uniform(texts: Sequence[str], masks: NDArray[np.bool_]) -> Floats:
    """Choose uniformly among the mutations that would change the text."""
    del texts
    shares: Floats = masks / masks.sum(axis=1, keepdims=True)
    return shares


def in_order(kinds: Sequence[int]) -> Chooser:
    """Choose the first of these that would change the text."""
    order = np.asarray(kinds)

    def choose(texts: Sequence[str], masks: NDArray[np.bool_]) -> Floats:
        del texts
        shares: Floats = np.eye(len(MUTATIONS))[order[masks[:, order].argmax(axis=1)]]
        return shares

    return choose


def ranked(prompts: Sequence[CheckedPrompt], outcomes: Outcomes) -> list[int]:
    """Mutations by their mean reward on these prompts, best first."""
    outcomes.ask(steps_from(prompts))
    masks = masks_of([prompt.text for prompt in prompts])
    rewards = np.full(masks.shape, np.nan)
    for row, prompt in enumerate(prompts):
        for kind in np.flatnonzero(masks[row]):
            rewards[row, kind] = outcomes.reward(prompt, after(prompt.text, int(kind)))
    means = [
        float(np.mean(column[~np.isnan(column)])) if not np.isnan(column).all() else -np.inf for column in rewards.T
    ]
    return sorted(range(len(MUTATIONS)), key=lambda kind: -means[kind])


def values_of(
    choose: Chooser, prompts: Sequence[CheckedPrompt], outcomes: Outcomes, *, most_steps: int = 1
) -> PromptValues:
    """The value of a chooser on each prompt in episodes of at most `most_steps` mutations, as in the world."""
    reward, passed = np.zeros(len(prompts)), np.zeros(len(prompts))
    nodes = [(place, prompt.text, 1.0) for place, prompt in enumerate(prompts)]
    for _ in range(most_steps):
        if not nodes:
            break
        texts = [text for _, text, _ in nodes]
        shares = choose(texts, masks_of(texts))
        branches = [
            (place, after(text, int(kind)), reach * float(row[kind]))
            for (place, text, reach), row in zip(nodes, shares, strict=True)
            for kind in np.flatnonzero(row * reach > _LEAST)
        ]
        outcomes.ask([(prompts[place], text) for place, text, _ in branches])
        nodes = []
        for place, text, reach in branches:
            reward[place] += reach * outcomes.reward(prompts[place], text)
            solved = outcomes.outcome(prompts[place], text).passed
            passed[place] += reach * (solved >= 1.0)
            if solved < 1.0 and any(may(text)):
                nodes.append((place, text, reach))
    return PromptValues(reward, passed)


def interval(values: Floats) -> tuple[float, float, float]:
    """Mean and 95% interval by the bootstrap over prompts."""
    rng = np.random.default_rng(7)
    means = values[rng.integers(len(values), size=(4000, len(values)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(values.mean()), float(low), float(high)
