"""Generates prompts for the synthetic mode: seven classes, from the words in phrases.toml.

    examples("train", 700, seed=7)     # Example(text, kind); equal shares of every class
    examples("test", 210, seed=7)      # subjects that training does not use

The words of the pattern show a prompt's class; subjects are shared by all classes and split by a hash into train and
test, so that no test prompt and no test subject occurs in training. Every prompt has some filler
("please", "I was wondering …"), so that all five mutations change something.
"""

from __future__ import annotations

import tomllib
import zlib
from dataclasses import dataclass
from importlib.resources import files
from random import Random
from typing import Literal

from headway.kits.prompts.checked_prompts import CLASSES
from headway.nouns import InvalidInput

Part = Literal["train", "test"]


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
        raise InvalidInput(
            f"{n!r} prompts for {len(CLASSES)} classes.", code="bad_count", hint="Ask for at least one of each."
        )
    rng = Random(f"{part}:{seed}")
    subjects = [
        subject for subject in _WORDS["subjects"] if (zlib.crc32(subject.encode()) % _TESTED == 0) == (part == "test")
    ]
    examples_: list[Example] = []
    for number in range(n):
        kind = CLASSES[number % len(CLASSES)]
        asked = rng.choice(_WORDS["patterns"][kind]).format(rng.choice(subjects))
        text = rng.choice(_WORDS["manners"]).format(asked)
        details = rng.sample(_WORDS["details"], k=rng.randrange(3))
        examples_.append(Example(" ".join([text, *details]), kind))
    rng.shuffle(examples_)
    return examples_
