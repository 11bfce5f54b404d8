"""Generates checkable prompts: one simple task per class, with random numbers and words.

    tasks(84, seed=7)          # CheckedPrompt(id, kind, text, check, good, bad): equal shares of the seven classes

The corpus has variety but few prompts of a kind; these have little variety and any number of prompts, which is needed
to see a small effect of a mutation on a real model.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from random import Random
from typing import Any

from headway.kits.prompts.corpus import CLASSES, CheckedPrompt

__all__ = ["tasks"]

_TOPICS = ("rain", "bread", "trains", "bees", "snow", "maps", "boats", "clocks", "apples", "music", "rivers", "tea")
_WORDS = ("golden", "morning", "quiet", "home", "early", "warm", "bright", "slow", "fresh", "little", "blue", "kind")
_SHOPS = ("a bakery", "a bookshop", "a bicycle shop", "a café", "a florist", "a toy shop", "a hotel", "a tailor")
_CAPITALS = (
    ("France", "Paris"), ("Italy", "Rome"), ("Spain", "Madrid"), ("Germany", "Berlin"), ("Japan", "Tokyo"),
    ("England", "London"), ("Russia", "Moscow"), ("China", "Beijing"), ("Egypt", "Cairo"), ("Greece", "Athens"),
    ("Austria", "Vienna"), ("Norway", "Oslo"), ("Portugal", "Lisbon"), ("Ireland", "Dublin"), ("Peru", "Lima"),
    ("Cuba", "Havana"), ("Sweden", "Stockholm"), ("Finland", "Helsinki"), ("Poland", "Warsaw"), ("Kenya", "Nairobi"),
)  # fmt: skip
Made = tuple[str, dict[str, Any], str, str]  # text, check, good, bad


def _code(rng: Random) -> Made:
    number = rng.randrange(2, 30)
    word, sign = rng.choice((("plus", "+"), ("minus", "-"), ("times", "*")))
    value = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
    cases = [[[start], value(start, number)] for start in (0, 5, 12)]
    text = f"Please write a Python function `f(x)` that returns x {word} {number}."
    code = f"def f(x):\n    return x {sign} {number}"
    return text, {"kind": "code", "function": "f", "cases": cases}, code, code.replace("return", "yield")


def _review(rng: Random) -> Made:
    first, second = rng.randrange(2, 60), rng.randrange(2, 40)
    text = f"Please say what this code prints:\n```\nx = {first}\nprint(x + {second})\n```"
    return text, {"kind": "numeric", "value": first + second, "anywhere": True}, f"It prints {first + second}.", "10000"


def _content(rng: Random) -> Made:
    topic, word = rng.choice(_TOPICS), rng.choice(_WORDS)
    text = f"Please write one sentence about {topic} that contains the word '{word}'."
    wanted = {"kind": "includes", "all": [word]}
    return text, wanted, f"A {word} sentence about {topic}.", "Nothing of the kind."


def _marketing(rng: Random) -> Made:
    shop, word = rng.choice(_SHOPS), rng.choice(_WORDS)
    text = f"Please write a slogan for {shop}. It must contain the word '{word}'. Use at most twelve words."
    checks = [{"kind": "includes", "all": [word]}, {"kind": "words", "least": 1, "most": 12}]
    return text, {"kind": "all", "checks": checks}, f"Your {word} place in town", "Come in and see what we have for you"


def _analysis(rng: Random) -> Made:
    numbers = [rng.randrange(2, 50) for _ in range(3)]
    text = f"Please compute the total of {numbers[0]}, {numbers[1]} and {numbers[2]}."
    return text, {"kind": "numeric", "value": sum(numbers)}, f"The total is {sum(numbers)}.", "The total is 0."


def _question(rng: Random) -> Made:
    country, city = rng.choice(_CAPITALS)
    return f"What is the capital of {country}? Please name it.", {"kind": "includes", "all": [city]}, city, "I forgot."


def _creative(rng: Random) -> Made:
    topic, word = rng.choice(_TOPICS), rng.choice(_WORDS)
    text = f"Please write a poem of two lines about {topic}. Use the word '{word}'."
    return text, {"kind": "includes", "all": [word]}, f"So {word} is the day,\n{topic} on its way.", "La la la."


_MAKERS: dict[str, Callable[[Random], Made]] = {
    "code generation": _code,
    "code review": _review,
    "content": _content,
    "marketing": _marketing,
    "data analysis": _analysis,
    "question answering": _question,
    "creative": _creative,
}


def tasks(n: int, seed: int) -> list[CheckedPrompt]:
    """n different prompts, the classes in turn; the same for the same seed."""
    rng, texts, seen = Random(f"tasks:{seed}"), list[CheckedPrompt](), set[str]()
    while len(texts) < n:
        kind = CLASSES[len(texts) % len(CLASSES)]
        for _ in range(1000):
            text, wanted, good, bad = _MAKERS[kind](rng)
            if text not in seen:
                break
        seen.add(text)
        number = sum(text.kind == kind for text in texts) + 1
        texts.append(CheckedPrompt(id=f"{kind}-{number}", kind=kind, text=text, check=wanted, good=good, bad=bad))
    return texts
