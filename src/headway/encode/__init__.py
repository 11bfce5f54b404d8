"""encode — turns text and typed state into numbers, deterministically.

Takes: texts, Situations.   Gives: vectors; `encoder("hashing")` an Encoder, `state.Features` a situation's vector;
`models.folder("smollm2", cache)` the files of a model.
Never: reads a reward, downloads a model by itself, depends on Python's own hash().
May import: nouns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.nouns.protocols import Encoder

__all__ = ["encoder"]


def encoder(spec: Any = "hashing", **settings: Any) -> Encoder:
    """The encoder that `spec` names; see `headway.encode.build.encoder`. numpy is imported on the first call only."""
    from headway.encode import build

    return build.encoder(spec, **settings)
