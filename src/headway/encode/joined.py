"""Several encoders as one: their vectors side by side.

    encoder("minilm+structure")                       # what a text means, and what it looks like
    JoinedEncoder([HashingEncoder(), StructureEncoder()])

The version names all parts in order, so that a bundle finds the same ones again. Works with every family: the parts
are columns like any others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headway.nouns.errors import InvalidSettings
from headway.nouns.protocols import Encoder, Floats

__all__ = ["JoinedEncoder"]


class JoinedEncoder:
    """The parts' vectors, one after the other."""

    __slots__ = ("parts", "slow", "version", "width")

    def __init__(self, parts: Sequence[Encoder]) -> None:
        versions = [each.version for each in parts]
        if len(parts) < 2 or len(set(versions)) != len(versions):
            raise InvalidSettings(
                f"An encoder cannot be joined from {versions!r}.",
                code="bad_encoder",
                hint='Join two or more different ones, for example "minilm+structure".',
            )
        self.parts = tuple(parts)
        self.version = "+".join(versions)
        self.width = sum(each.width for each in parts)
        self.slow = any(getattr(each, "slow", False) for each in parts)

    def encode(self, texts: Sequence[str]) -> Floats:
        """[text, width]."""
        return np.concatenate([each.encode(texts) for each in self.parts], axis=1)

    def load(self) -> None:
        """Loads what the parts need, now."""
        self._each("load")

    def close(self) -> None:
        self._each("close")

    def _each(self, name: str) -> None:
        for part in self.parts:
            method = getattr(part, name, None)
            if method is not None:
                method()
