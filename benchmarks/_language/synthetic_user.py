"""A synthetic user: a finished sentence of 7 to 24 tokens is good, and shorter is better."""

from __future__ import annotations

import random
from collections.abc import Sequence

FEWEST, MOST = 7, 24
FORMS = (
    "In one sentence, what is {}?",
    "Explain {} in one sentence.",
    "Tell me about {} in one sentence.",
    "Describe {} in a single sentence.",
)
TRAINED = (
    "a volcano", "photosynthesis", "gravity", "the moon", "a glacier", "electricity", "a magnet", "the heart", "sleep",
    "a vaccine", "an atom", "a comet", "friction", "a rainbow", "an earthquake", "the ozone layer", "a virus", "DNA",
    "a black hole", "the water cycle", "a battery", "sound", "a lens", "oxygen", "the tide", "a fossil", "a cell",
    "a laser", "rust", "fog", "a tornado", "the brain", "a satellite", "coral", "an ecosystem", "plastic", "steel",
    "a telescope", "radar", "evaporation", "the spine", "pollen", "a neuron", "an enzyme", "lightning", "a desert",
    "the equator", "a delta", "a peninsula", "erosion", "a geyser", "a solar panel", "an engine", "a pulley", "a lever",
    "a transistor", "an antibiotic", "insulin", "a tsunami", "permafrost",
)  # fmt: skip
OTHER = (
    "democracy", "inflation", "a novel", "jazz", "chess", "a mortgage", "the Renaissance", "a sonnet", "ballet",
    "tax", "a museum", "the Olympic Games", "opera", "a contract", "marketing", "a budget", "friendship",
    "courage", "patience", "a holiday", "tourism", "a recipe", "bread", "coffee", "tea", "chocolate", "a market",
    "a bank", "insurance", "a vote", "a constitution", "a monarchy", "an empire", "a treaty", "the printing press",
    "a castle", "a pyramid", "a cathedral", "a bridge", "a harbour", "a railway", "a bicycle", "football",
    "tennis", "swimming", "yoga", "a marathon", "a guitar", "a violin", "a drum", "a choir", "a painting",
    "a sculpture", "photography", "cinema", "a newspaper", "radio", "television", "a podcast", "a library",
    "a school", "a university", "homework", "an exam", "a teacher", "a lawyer", "a judge", "a doctor", "a nurse",
    "a farmer", "a baker", "a carpenter", "an architect", "a pilot", "a translator", "an interview", "a salary",
    "a pension", "a strike", "a union", "charity", "a wedding", "a festival", "a proverb", "a myth",
    "a fairy tale", "irony", "a metaphor", "grammar", "an alphabet", "a dictionary", "a map", "a calendar",
    "a clock", "a coin", "gold", "trade", "a factory", "a strategy", "leadership",
)  # fmt: skip


def prompts(topics: Sequence[str], seed: int, count: int) -> list[str]:
    """Questions about different topics."""
    draws = random.Random(seed)
    return [draws.choice(FORMS).format(topic) for topic in draws.sample(topics, count)]


def utility(tokens: int, *, finished: bool) -> float:
    """0 for a reply that the user dislikes; 1 to 2 for one that it likes."""
    if not finished or not FEWEST <= tokens <= MOST:
        return 0.0
    return 1.0 + (MOST - tokens) / (MOST - FEWEST)


def rating(tokens: int, *, finished: bool) -> int:
    """1 to 5 stars."""
    liked = utility(tokens, finished=finished)
    if liked:
        return 5 if liked >= 1.4 else 4
    return 2 if finished and tokens <= 2 * MOST else 1


def vote(first: float, second: float) -> float:
    """1 if the first reply is better, 0 if the second is, ½ if neither."""
    return 0.5 if first == second else float(first > second)
