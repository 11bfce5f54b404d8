"""The words of the world `projects`, from words.toml: three vocabularies that share almost no word.

Rows that are trained on, rows that models are picked on and rows that are held out are described with different
vocabularies, so that a model has to know what words mean, and not which of them it has seen.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

DIMENSIONS = ("correctness", "speed", "coverage", "readability", "security", "docs")
TYPES = ("fix", "refactor", "feature", "test", "config", "experiment")
SCOPES = ("small", "medium", "large")
AGENTS = ("ada", "bo", "cyd", "dan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """How one part of the rows speaks: verbs per type, subjects per dimension, and how bold a change is."""

    templates: Sequence[str]  # with {verb}, {subject} and {manner}
    verbs: Mapping[str, Sequence[str]]
    subjects: Mapping[str, Sequence[str]]
    components: Sequence[str]
    careful: Sequence[str]
    bold: Sequence[str]
    goals: Mapping[str, Sequence[str]]  # what the project wants next, the text of a state


_WORDS = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))

# By the part of the split that a row falls into.
VOCABULARIES: Mapping[str, Vocabulary] = {part: Vocabulary(**words) for part, words in _WORDS.items()}
