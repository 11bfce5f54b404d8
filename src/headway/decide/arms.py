"""The arms that a policy knows, and where a decision's candidates stand among them.

arms = Arms(["large", "small"])
arms.columns(candidates)                 # [candidate]: their places; one that nobody has met stands after the last
read(extra, encoder)                     # (Arms, Features) of a bundle; what does not fit is Damaged
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.encode.state import Features
from headway.nouns.errors import Damaged, InvalidInput
from headway.nouns.protocols import Encoder
from headway.nouns.records import Candidate

__all__ = ["Arms", "damaged", "read"]

_REMEMBERED = 256  # candidate sets


class Arms:
    """Names in a fixed order. Safe from threads."""

    __slots__ = ("_columns", "_index", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._index = {name: place for place, name in enumerate(self.names)}
        self._columns: dict[tuple[str, ...], NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self.names)

    def columns(self, candidates: Sequence[Candidate]) -> NDArray[np.int64]:
        names = tuple([each.name for each in candidates])
        known = self._columns.get(names)
        if known is None:
            if not names:
                raise InvalidInput("There is no candidate.", code="no_candidate", hint="Give at least one candidate.")
            known = np.array([self._index.get(name, len(self.names)) for name in names], dtype=np.int64)
            if len(self._columns) >= _REMEMBERED:
                self._columns = {}  # a new table, never a cleared one: another thread may be reading the old
            self._columns[names] = known
        return known


def read(extra: Mapping[str, Any], encoder: Encoder | None) -> tuple[Arms, Features]:
    """What a bundle's header says about arms and features. The input is untrusted."""
    arms = extra.get("arms")
    if not isinstance(arms, list | tuple) or not arms or not all(isinstance(each, str) and each for each in arms):
        raise damaged(f"The bundle's arms are {arms!r:.80}", "bad_header")
    if len(set(arms)) != len(arms):
        raise damaged("The bundle names an arm twice", "bad_header")
    stored = extra.get("features")
    if not isinstance(stored, Mapping):
        raise damaged("The bundle has no features", "bad_header")
    features = Features.from_json(stored)
    if features.encoder and (encoder is None or encoder.version != features.encoder):
        raise Damaged(
            f"The policy needs the encoder {features.encoder!r}, not {getattr(encoder, 'version', None)!r}.",
            code="encoder_mismatch",
            hint="Set `encoder` of the task to the one that it was learned with, or learn again.",
        )
    return Arms(arms), features


def damaged(what: str, code: str) -> Damaged:
    return Damaged(f"{what}.", code=code, hint="The file was changed or cut short: restore it, or roll back.")
