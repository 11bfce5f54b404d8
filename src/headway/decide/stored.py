"""Reads and checks the content of a bundle.

    arms, features = Arms.read(extra), Features.read(extra, encoder)
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

from headway.nouns import Floats, errors


def damaged(what: str, code: str) -> errors.Damaged:
    return errors.Damaged(f"{what}.", code=code, hint="The file was changed or cut short: restore it, or roll back.")


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
