"""Several encoders as one: concatenates their vectors.

    encoder("minilm+structure")                       # meaning and structure of a text
    JoinedEncoder([HashingEncoder(), StructureEncoder()])

The version names all parts in order, so that a bundle can load the same ones. Works with every family, because the
parts are ordinary columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headway.nouns.errors import InvalidSettings
from headway.nouns.protocols import Encoder, Floats


class JoinedEncoder:
    """The concatenated vectors of its parts."""

    __slots__ = ("parts", "slow", "version", "width")

    def __init__(self, parts: Sequence[Encoder]) -> None:
        versions = [part.version for part in parts]
        if len(parts) < 2 or len(set(versions)) != len(versions):
            raise InvalidSettings(
                f"The encoders {versions!r} cannot be joined.",
                code="bad_encoder",
                hint='Join two or more different encoders, for example "minilm+structure".',
            )
        self.parts = tuple(parts)
        self.version = "+".join(versions)
        self.width = sum(part.width for part in parts)
        self.slow = any(getattr(part, "slow", False) for part in parts)

    def encode(self, texts: Sequence[str]) -> Floats:
        """[text, width]."""
        return np.concatenate([part.encode(texts) for part in self.parts], axis=1)

    def load(self) -> None:
        """Load the models of all parts now."""
        self._call("load")

    def close(self) -> None:
        self._call("close")

    def _call(self, name: str) -> None:
        for part in self.parts:
            method = getattr(part, name, None)
            if method is not None:
                method()
