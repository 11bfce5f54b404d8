"""The synthetic mode: which mutation helps depends on the prompt's class, and the best order is known exactly.

    world = synthetic("train", count=64)       # a PromptsWorld; sees embeddings only
    truth = Synthetic()
    truth.optimum("marketing")                 # 0.654: the best order of mutations, by dynamic programming
    truth.fixed()                              # (0.477, order): the best single order for all classes
    truth.value(policy, examples("test", …))   # exact: every branch counts with its probability

A mutation solves the prompt with the probability in CHANCES for its class, and then earns 1; each costs COST, solved or
not. A mutation is tried at most once: a second application changes nothing. So the best policy of a class tries its
mutations in a fixed order until one solves it, and its value is

    V(S) = max over k not in S of  p(k) + (1 - p(k))·V(S ∪ {k}) - c(k),   V(all) = 0

Everything here is synthetic and says nothing about a real model; `outcomes.py` uses one.

Generates prompts for the synthetic mode: seven classes, from the words in phrases.toml.

    examples("train", 700, seed=7)     # Example(text, kind); equal shares of every class
    examples("test", 210, seed=7)      # subjects that training does not use

The words of the pattern show a prompt's class; subjects are shared by all classes and split by a hash into train and
test, so that no test prompt and no test subject occurs in training. Every prompt has some filler
("please", "I was wondering …"), so that all five mutations change something.
"""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import permutations
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headway.kits.prompts.checked_prompts import CLASSES
from headway.kits.prompts.kinds import MUTATIONS
from headway.kits.prompts.world import MOST_STEPS, PromptsWorld, after, may
from headway.nouns import Encoder, Floats, errors

# How likely a mutation is to solve a prompt of a class: try-catch, reduction, expansion, constraints, decomposition.
CHANCES = np.array(
    [
        [0.40, 0.05, 0.10, 0.30, 0.80],  # code generation
        [0.75, 0.05, 0.10, 0.25, 0.35],  # code review
        [0.05, 0.20, 0.80, 0.30, 0.10],  # content
        [0.05, 0.30, 0.20, 0.80, 0.05],  # marketing
        [0.30, 0.05, 0.10, 0.40, 0.75],  # data analysis
        [0.10, 0.75, 0.20, 0.40, 0.05],  # question answering
        [0.05, 0.40, 0.70, 0.10, 0.15],  # creative
    ]
)
COST = np.array([0.21, 0.18, 0.22, 0.21, 0.24])
Chooser = Callable[[Sequence[str], NDArray[np.bool_]], Floats]  # texts, masks [row, 5] → probabilities [row, 5]
Part = Literal["train", "test"]


@dataclass(frozen=True)
class Synthetic:
    """The truth of the synthetic mode, and its judge."""

    # An episode solves at best with the cheapest mutation, and at worst tries the dearest one every time.
    returns = (-MOST_STEPS * float(COST.max()), 1.0 - float(COST.min()))

    def judge(
        self,
        subjects: Sequence[Example],
        kinds: NDArray[np.int64],
        texts: Sequence[str],
        changed: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """One draw per row; a mutation that changed nothing solves nothing."""
        del texts
        chance = CHANCES[[subject.place for subject in subjects], kinds] * changed
        solved = rng.random(len(kinds)) < chance
        return solved - COST[kinds], solved

    def optimum(self, kind: str = "") -> float:
        """The exact value of the best order for a class; without one, the mean over classes."""
        if not kind:
            return float(np.mean([self.optimum(each) for each in CLASSES]))
        if kind not in CLASSES:
            raise errors.UnknownName(
                f"There is no class {kind!r}.", code="unknown_class", hint=errors.did_you_mean(kind, CLASSES)
            )
        return _best(CLASSES.index(kind), frozenset())[0]

    def order(self, kind: str) -> tuple[str, ...]:
        """The best order of mutations for a class."""
        places: list[int] = []
        while len(places) < len(MUTATIONS):
            places.append(_best(CLASSES.index(kind), frozenset(places))[1])
        return tuple(MUTATIONS[place] for place in places)

    def fixed(self) -> tuple[float, tuple[str, ...]]:
        """The best of the 120 fixed orders: its value over all classes, and the order."""
        best = max(permutations(range(len(MUTATIONS))), key=lambda order: float(_followed(order).mean()))
        return float(_followed(best).mean()), tuple(MUTATIONS[value] for value in best)

    def action(self) -> tuple[float, str]:
        """The best single mutation: its value over all classes, and its name."""
        once = (CHANCES - COST).mean(axis=0)
        return float(once.max()), MUTATIONS[int(once.argmax())]

    def fixed_values(self, prompts: Sequence[Example], order: Sequence[str]) -> Floats:
        """[prompt]: the value of an order on each prompt."""
        values = _followed([MUTATIONS.index(name) for name in order])
        return values[[prompt.place for prompt in prompts]]

    def best_values(self, prompts: Sequence[Example]) -> Floats:
        """[prompt]: the value of the best order for its class."""
        return np.array([self.optimum(prompt.kind) for prompt in prompts])

    def value(self, policy: Chooser, prompts: Sequence[Example], *, least: float = 1e-4) -> Floats:
        """[prompt]: the exact value of a policy on each prompt, over every branch of at least this probability.

        A skipped branch counts as 0, so the error is below its probability.
        """
        total = np.zeros(len(prompts))
        place = np.arange(len(prompts))
        texts = [prompt.text for prompt in prompts]
        reach = np.ones(len(prompts))
        classes = np.array([prompt.place for prompt in prompts])
        for _ in range(MOST_STEPS):
            masks = np.array([may(text) for text in texts], dtype=np.bool_)
            open_ = np.flatnonzero(masks.any(axis=1))
            place, reach, masks = place[open_], reach[open_], masks[open_]
            texts = [texts[node] for node in open_]
            if not len(place):
                break
            chosen = reach[:, None] * policy(texts, masks)  # [node, 5]
            chance = CHANCES[classes[place]]
            np.add.at(total, place, (chosen * (chance - COST)).sum(axis=1))
            going = chosen * (1.0 - chance)
            nodes, kinds = np.nonzero((going > least) & masks)
            texts = [after(texts[node], int(kind)) for node, kind in zip(nodes, kinds, strict=True)]
            place, reach = place[nodes], going[nodes, kinds]
        return total


@lru_cache
def _best(place: int, tried: frozenset[int]) -> tuple[float, int]:
    left = [kind for kind in range(len(MUTATIONS)) if kind not in tried]
    if not left:
        return 0.0, -1
    return max((_tried(place, kind, _best(place, tried | {kind})[0]), kind) for kind in left)


def _tried(place: int, kind: int, rest: float) -> float:
    chance = float(CHANCES[place, kind])
    return chance + (1.0 - chance) * rest - float(COST[kind])


def _followed(order: Sequence[int]) -> Floats:
    """[class]: the value of an order."""
    values = np.zeros(len(CLASSES))
    for kind in reversed(list(order)):
        values = CHANCES[:, kind] + (1.0 - CHANCES[:, kind]) * values - COST[kind]
    return values


def synthetic(
    part: Part = "train", *, count: int = 64, prompts: int = 700, seed: int = 0, encoder: Encoder | None = None
) -> PromptsWorld[Example]:
    """The world of the synthetic mode; `hashing` embeds its prompts unless another encoder is given."""
    if encoder is None:
        from headway.encode import encoder as encoder_of

        encoder = encoder_of("hashing-1-w256", cached=False)
    return PromptsWorld(count, examples(part, prompts, seed), encoder, Synthetic())


synthetic.fresh = {"part": "test"}  # type: ignore[attr-defined]  # a proof plays on held-out prompts


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt and its class, which is hidden from policies."""

    text: str
    kind: str

    @property
    def place(self) -> int:
        return CLASSES.index(self.kind)


_WORDS = tomllib.loads(files(__package__).joinpath("phrases.toml").read_text("utf-8"))
_TESTED = 4  # every fourth subject, by its hash, is for testing


def examples(part: Part, n: int, seed: int) -> list[Example]:
    """n prompts in equal shares of the classes; the same for the same seed."""
    if n < len(CLASSES):
        raise errors.InvalidInput(
            f"{n!r} prompts for {len(CLASSES)} classes.", code="bad_count", hint="Ask for at least one of each."
        )
    rng = Random(f"{part}:{seed}")
    subjects = [
        subject for subject in _WORDS["subjects"] if (zlib.crc32(subject.encode()) % _TESTED == 0) == (part == "test")
    ]
    made: list[Example] = []
    for number in range(n):
        kind = CLASSES[number % len(CLASSES)]
        asked = rng.choice(_WORDS["patterns"][kind]).format(rng.choice(subjects))
        text = rng.choice(_WORDS["manners"]).format(asked)
        details = rng.sample(_WORDS["details"], k=rng.randrange(3))
        made.append(Example(" ".join([text, *details]), kind))
    rng.shuffle(made)
    return made
