"""The arms that a policy knows, and the positions of a decision's candidates among them.

arms = Arms(["large", "small"])
arms.columns(candidates)                 # [candidate]: their positions; an unknown one comes after the last
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.decide.explore import with_unknown
from headway.decide.stored import damaged
from headway.nouns import Candidate, Floats, errors

_REMEMBERED = 256  # candidate sets


class Arms:
    """Names in a fixed order. Thread-safe."""

    __slots__ = ("_columns", "_index", "every", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.every: NDArray[np.int64] = np.arange(len(self.names))
        self._index = {name: place for place, name in enumerate(self.names)}
        self._columns: dict[tuple[str, ...], NDArray[np.int64]] = {}

    @classmethod
    def read(cls, extra: Mapping[str, Any], *, least: int = 1) -> Arms:
        """The arms that a bundle's header names, at least this many."""
        names = extra.get("arms")
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
            raise damaged(f"The bundle's arms are {names!r:.80}", "bad_header")
        if len(names) < least or len(set(names)) != len(names):
            raise damaged(f"The bundle has too few arms, or names one twice: {names!r:.80}", "bad_header")
        return cls(names)

    def __len__(self) -> int:
        return len(self.names)

    def offered(self, logits: Floats, candidates: Sequence[Candidate]) -> Floats:
        """[row, candidate] from [row, arm]: an unknown arm is as likely as the average one."""
        return with_unknown(logits)[:, self.columns(candidates)]

    def columns(self, candidates: Sequence[Candidate]) -> NDArray[np.int64]:
        """[candidate]: `self.every` itself if they are all known arms in order."""
        names = tuple([candidate.name for candidate in candidates])
        columns = self._columns.get(names)
        if columns is None:
            if not names:
                raise errors.InvalidInput(
                    "There is no candidate.", code="no_candidate", hint="Give at least one candidate."
                )
            places = [self._index.get(name, len(self.names)) for name in names]
            columns = self.every if names == self.names else np.array(places, dtype=np.int64)
            if len(self._columns) >= _REMEMBERED:
                self._columns = {}  # a new table, not a cleared one: another thread may be reading the old
            self._columns[names] = columns
        return columns
