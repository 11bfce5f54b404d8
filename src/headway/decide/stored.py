"""Reads and checks the content of a bundle: arms, features, costs, explorer, tensors.

    arms, features = read_arms(extra), read_features(extra, encoder)
    weights = tensor(tensors, "weights", len(arms) + 1, features.width)

The input is untrusted: shapes, types, finiteness and every name are checked before anything is computed with them.
Anything else is `Damaged`. A family's reader is `(knobs, tensors, extra, encoder) → Policy` and gives the same
policy for the same input, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.decide.acting import Explorer, explorer
from headway.decide.arms import Arms
from headway.encode import Features
from headway.nouns import Damaged, Encoder, Floats, InvalidSettings


def damaged(what: str, code: str) -> Damaged:
    return Damaged(f"{what}.", code=code, hint="The file was changed or cut short: restore it, or roll back.")


def tensor(
    tensors: Mapping[str, Any], name: str, *shape: int, limit: float = math.inf, float32: bool = False
) -> Floats:
    """The tensor of this name: float64, of exactly this shape (-1: any length), finite and within ±limit.

    With `float32` that type is accepted too, and kept.
    """
    values = tensors.get(name)
    if values is None:
        raise damaged(f"The bundle has no tensor {name!r}", "missing_tensor")
    types = (np.float64, np.float32) if float32 else (np.float64,)
    if not isinstance(values, np.ndarray) or values.dtype not in types:
        wanted = " or ".join(np.dtype(kind).name for kind in types)
        raise damaged(
            f"The tensor {name!r} is {getattr(values, 'dtype', type(values).__name__)}, not {wanted}", "bad_tensor"
        )
    if values.ndim != len(shape) or any(want not in (-1, have) for want, have in zip(shape, values.shape, strict=True)):
        raise damaged(f"The tensor {name!r} has shape {values.shape}, not {shape}", "bad_tensor")
    if not np.isfinite(values).all():
        raise damaged(f"The tensor {name!r} holds a number that is not finite", "bad_tensor")
    if limit < math.inf and float(np.abs(values).max(initial=0.0)) > limit:
        raise damaged(f"The tensor {name!r} holds a number too large to compute with", "bad_tensor")
    return np.ascontiguousarray(values)


def frozen(values: Floats) -> Floats:
    """A read-only copy."""
    kept = np.array(values)
    kept.flags.writeable = False
    return kept


def read_arms(extra: Mapping[str, Any], *, least: int = 1) -> Arms:
    """The arms that a bundle's header names, at least this many."""
    names = extra.get("arms")
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise damaged(f"The bundle's arms are {names!r:.80}", "bad_header")
    if len(names) < least or len(set(names)) != len(names):
        raise damaged(f"The bundle has too few arms, or names one twice: {names!r:.80}", "bad_header")
    return Arms(names)


def read_features(extra: Mapping[str, Any], encoder: Encoder | None) -> Features:
    """How situations become vectors; the encoder must be the one that the policy was learned with."""
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
    return features


def check_costs(knobs: Mapping[str, Any], *others: str) -> None:
    """`cost_weight`, `costs` and the knobs in `others` must be finite numbers if they are set."""
    costs = knobs.get("costs") or {}
    numbers = [knobs.get(name, 0.0) for name in ("cost_weight", *others)]
    numbers += costs.values() if isinstance(costs, Mapping) else [None]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        raise damaged(f"The bundle's costs are {costs!r:.80}", "bad_header")


def read_explorer(knobs: Mapping[str, Any]) -> Explorer:
    try:
        return explorer(knobs.get("explore", "greedy"))
    except (InvalidSettings, TypeError, ValueError) as error:
        raise damaged(f"The bundle's explorer cannot be used ({error})", "bad_header") from error
