"""encode — turns text and typed state into numbers, deterministically.

Takes: texts, Situations.   Gives: vectors; `encoder("hashing")` an Encoder, `state.Features` a situation's vector;
`models.folder("smollm2", cache)` the files of a model.
Never: reads a reward, downloads a model by itself, depends on Python's own hash().
May import: nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.encode.build import encoder as encoder
    from headway.encode.state import Features as Features
    from headway.encode.text import uncached as uncached
    from headway.encode.tracker import Tracker as Tracker
else:
    __all__, __getattr__ = door(__name__)
