"""The vocabulary of the sample world, from words.toml. A model can learn the grade of a prompt from its text."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of work: its openings, its tasks per grade, its difficulty, and the shares of the grades."""

    name: str
    role: str
    openings: Sequence[str]  # {work} is the graded blank, the others come from SETTING
    work: Sequence[Sequence[str]]  # easy, moderate, hard
    difficulty: float  # added to the grade's
    share: float  # of all prompts
    grades: Sequence[float]  # sums to one


_WORDS = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))
SETTING: Mapping[str, Sequence[str]] = _WORDS["setting"]
REQUIREMENTS: Sequence[Sequence[str]] = _WORDS["requirements"]
KINDS: Sequence[Work] = [Work(**kind) for kind in _WORDS["kinds"]]
