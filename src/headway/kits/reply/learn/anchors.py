"""General questions with plain answers, from anchors.toml: they tell how far a trained model is from its base."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib.resources import files

_ANCHORS = tomllib.loads(files(__package__).joinpath("anchors.toml").read_text("utf-8"))


def _pairs(name: str) -> Sequence[tuple[str, str]]:
    return tuple((pair["question"], pair["answer"]) for pair in _ANCHORS[name])


TRAINING, CHECKING, JUDGING = _pairs("training"), _pairs("checking"), _pairs("judging")
