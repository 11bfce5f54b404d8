"""Generates prompts for the synthetic mode: seven classes, from patterns, subjects and polite phrases.

    examples("train", 700, seed=7)     # Example(text, kind); equal shares of every class
    examples("test", 210, seed=7)      # subjects that training does not use

The words of the pattern show a prompt's class; subjects are shared by all classes and split by a hash into train and
test, so that no test prompt and no test subject occurs in training. Every prompt has some filler
("please", "I was wondering …"), so that all five mutations change something.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from random import Random
from typing import Literal

from headway.kits.prompts.corpus import CLASSES
from headway.nouns.errors import InvalidInput

Part = Literal["train", "test"]


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt and its class, which is hidden from policies."""

    text: str
    kind: str

    @property
    def place(self) -> int:
        return CLASSES.index(self.kind)


_SUBJECTS = (
    "a bicycle shop", "the weekly timetable", "a choir", "train delays", "a garden calendar", "the town museum",
    "a chess club", "hotel bookings", "a lighthouse", "bread prices", "the school library", "a rain gauge",
    "ferry tickets", "a flower market", "old maps", "a swimming course", "the harbour", "a puppet theatre",
    "mountain huts", "parcel deliveries", "a film archive", "night buses", "a honey farm", "concert seats",
    "a pottery class", "the fire brigade", "solar panels", "a stamp collection", "winter boots", "a repair café",
    "river levels", "a street fair", "the post office", "a ski lift", "garden snails", "an orchestra",
    "bus drivers", "a cheese counter", "the observatory", "a language course", "wind turbines", "a dog shelter",
    "moving boxes", "a wedding list", "tax forms", "the ice rink", "a bird feeder", "coffee beans",
)  # fmt: skip
_DETAILS = (
    "It should work for small groups.", "There are about forty of them.", "The deadline is Friday.",
    "My colleague will read it first.", "We tried once before.", "Most of them are new.", "It is for a friend.",
    "The last version was too long.", "Keep the tone friendly.", "It happens every spring.",
)  # fmt: skip
_MANNERS = (
    "Please {}.", "Could you please {}?", "I was wondering if you could {}.", "I would like you to please {}.",
    "Hello! Please {}. Thank you very much!", "I want you to {}, please.", "Would you mind to {}, really?",
)  # fmt: skip
_PATTERNS: dict[str, tuple[str, ...]] = {
    "code generation": (
        "write a function that stores {}", "implement a class for {}", "write a script that sorts {} by date",
        "write a program that reads a file about {}", "implement an endpoint that returns {}",
        "write a function that validates the input for {}",
    ),
    "code review": (
        "review the code that handles {}", "find the bug in the module about {}",
        "review this pull request about {}", "check the function that loads {} for errors",
        "say what is wrong with the code for {}", "review the diff that changes {}",
    ),
    "content": (
        "write an article about {}", "write a blog post about {}", "draft an e-mail about {}",
        "write a summary of the report on {}", "write a newsletter paragraph about {}", "draft a letter about {}",
    ),
    "marketing": (
        "write a slogan for {}", "write an advertisement for {}", "create a campaign that sells {}",
        "write a product description of {} for customers", "suggest a brand name for {}",
        "write a sales pitch for {} for customers",
    ),
    "data analysis": (
        "compute the average of the figures on {}", "analyse the table of numbers about {}",
        "find the trend in the data on {}", "compare the figures for {} by month",
        "calculate the median from the data on {}", "analyse the numbers in the survey about {}",
    ),
    "question answering": (
        "tell me who founded {}", "answer this: what is the history of {}", "explain what {} means",
        "tell me when people first had {}", "answer this: why is there {}", "explain how {} came about",
    ),
    "creative": (
        "write a poem about {}", "write a short story about {}", "invent a fairy tale about {}",
        "write a song about {}", "write a dialogue in a story about {}", "invent a riddle about {}",
    ),
}  # fmt: skip
_TESTED = 4  # every fourth subject, by its hash, is for testing


def examples(part: Part, n: int, seed: int) -> list[Example]:
    """n prompts in equal shares of the classes; the same for the same seed."""
    if n < len(CLASSES):
        raise InvalidInput(
            f"{n!r} prompts for {len(CLASSES)} classes.", code="bad_count", hint="Ask for at least one of each."
        )
    rng = Random(f"{part}:{seed}")
    subjects = [subject for subject in _SUBJECTS if (zlib.crc32(subject.encode()) % _TESTED == 0) == (part == "test")]
    examples_: list[Example] = []
    for number in range(n):
        kind = CLASSES[number % len(CLASSES)]
        asked = rng.choice(_PATTERNS[kind]).format(rng.choice(subjects))
        text = rng.choice(_MANNERS).format(asked)
        details = rng.sample(_DETAILS, k=rng.randrange(3))
        examples_.append(Example(" ".join([text, *details]), kind))
    rng.shuffle(examples_)
    return examples_
