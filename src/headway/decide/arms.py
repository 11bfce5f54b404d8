"""The arms that a policy knows, and the positions of a decision's candidates among them.

arms = Arms(["large", "small"])
arms.columns(candidates)                 # [candidate]: their positions; an unknown one comes after the last
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headway.nouns import Candidate, InvalidInput

_REMEMBERED = 256  # candidate sets


class Arms:
    """Names in a fixed order. Thread-safe."""

    __slots__ = ("_columns", "_index", "every", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.every: NDArray[np.int64] = np.arange(len(self.names))
        self._index = {name: place for place, name in enumerate(self.names)}
        self._columns: dict[tuple[str, ...], NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self.names)

    def columns(self, candidates: Sequence[Candidate]) -> NDArray[np.int64]:
        """[candidate]: `self.every` itself if they are all known arms in order."""
        names = tuple([candidate.name for candidate in candidates])
        columns = self._columns.get(names)
        if columns is None:
            if not names:
                raise InvalidInput("There is no candidate.", code="no_candidate", hint="Give at least one candidate.")
            places = [self._index.get(name, len(self.names)) for name in names]
            columns = self.every if names == self.names else np.array(places, dtype=np.int64)
            if len(self._columns) >= _REMEMBERED:
                self._columns = {}  # a new table, not a cleared one: another thread may be reading the old
            self._columns[names] = columns
        return columns
