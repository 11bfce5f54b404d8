"""A stored policy: its reference and its header."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.nouns.errors import InvalidInput

_REF = re.compile(r"([a-z][a-z0-9_]{0,31})@(0|[0-9a-f]{4,64})\Z")


@dataclass(frozen=True, slots=True)
class PolicyRef:
    """`family@hash`: the reference of a policy. `@0` marks a built-in that needs no file: `rules@0`, `uniform@0`.

    PolicyRef.parse("bandit@4f2a")    # a prefix of the content hash, at least four digits
    """

    family: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> PolicyRef:
        match = _REF.match(text)
        if match is None:
            raise InvalidInput(
                f"{text!r} is not a policy reference.",
                code="bad_reference",
                hint="Write family@hash, for example bandit@4f2a; `headway status` lists them.",
            )
        return cls(match[1], match[2])

    @staticmethod
    def matches(text: str) -> bool:
        """Whether a text has the form of a reference."""
        return _REF.match(text) is not None

    @property
    def built_in(self) -> bool:
        return self.digest == "0"

    def __str__(self) -> str:
        return f"{self.family}@{self.digest}"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """header.json of a bundle: its family, training data and baselines."""

    task: str
    family: str
    kind: str
    encoder: str
    knobs: Mapping[str, Any]
    tensors: Sequence[TensorSpec]
    parameters: int
    trained_on: Mapping[str, Any]  # counts by source, first and last settled_seq, rows per split, data hash
    split: Mapping[str, Any]  # how train, tune and prove were cut
    metrics: Mapping[str, float]
    baselines: Mapping[str, float]
    seed: int
    versions: Mapping[str, str]
    parent: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    format: int = 1
