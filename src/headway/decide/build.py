"""A policy out of tensors and JSON; what does not fit is refused as damaged.

    bandit(knobs, tensors, extra, encoder)
    baseline("uniform@0")

The input is untrusted: shapes, types, finiteness and every name are checked before anything is computed with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.decide.acting import Explorer, explorer
from headway.decide.bandit import Bandit, Clusters, Linear, Model, rounded
from headway.decide.baselines import baseline
from headway.encode.state import Features
from headway.nouns.errors import Damaged, InvalidSettings
from headway.nouns.protocols import Encoder, Floats

__all__ = ["bandit", "baseline", "tensor"]


def tensor(tensors: Mapping[str, Any], name: str, *shape: int) -> Floats:
    """The tensor of this name as float64, of exactly this shape (-1: any length) and finite; else `Damaged`."""
    found = tensors.get(name)
    if found is None:
        raise _damaged(f"The bundle has no tensor {name!r}", "missing_tensor")
    if not isinstance(found, np.ndarray) or found.dtype != np.float64:
        raise _damaged(
            f"The tensor {name!r} is {getattr(found, 'dtype', type(found).__name__)}, not float64", "bad_tensor"
        )
    if found.ndim != len(shape) or any(want not in (-1, have) for want, have in zip(shape, found.shape, strict=True)):
        raise _damaged(f"The tensor {name!r} has shape {found.shape}, not {shape}", "bad_tensor")
    if not np.isfinite(found).all():
        raise _damaged(f"The tensor {name!r} holds a number that is not finite", "bad_tensor")
    return np.ascontiguousarray(found)


def _damaged(what: str, code: str) -> Damaged:
    return Damaged(f"{what}.", code=code, hint="The file was changed or cut short: restore it, or roll back.")


def bandit(
    knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Encoder | None
) -> Bandit:
    """The bandit that a learner described; the same input gives the same policy, bit for bit."""
    arms = extra.get("arms")
    if not isinstance(arms, list | tuple) or not all(isinstance(each, str) and each for each in arms):
        raise _damaged(f"The bundle's arms are {arms!r:.80}", "bad_header")
    if len(set(arms)) != len(arms):
        raise _damaged("The bundle names an arm twice", "bad_header")
    stored = extra.get("features")
    if not isinstance(stored, Mapping):
        raise _damaged("The bundle has no features", "bad_header")
    features = Features.from_json(stored)
    if features.encoder and (encoder is None or encoder.version != features.encoder):
        raise Damaged(
            f"The policy needs the encoder {features.encoder!r}, not {getattr(encoder, 'version', None)!r}.",
            code="encoder_mismatch",
            hint="Set `encoder` of the task to the one that it was learned with, or learn again.",
        )
    width, count = features.width, len(arms)
    model: Model
    match knobs.get("model"):
        case "linear":
            totals = tensor(tensors, "totals", count, 3)
            tensor(tensors, "moments", count, width, width)
            tensor(tensors, "targets", count, width)
            covariance = tensor(tensors, "covariance", count + 1, width, width)
            noise = tensor(tensors, "noise", 1)
            if (np.diagonal(covariance, axis1=1, axis2=2) < 0.0).any() or noise[0] < 0.0:
                raise _damaged("The bundle has a negative variance", "bad_tensor")
            # Rounding twice changes nothing; a tensor from elsewhere is rounded here.
            weights = rounded(tensor(tensors, "weights", count + 1, width))
            model = Linear(_frozen(weights), _frozen(rounded(covariance)), _frozen(noise))
        case "clusters":
            centroids = tensor(tensors, "centroids", -1, width)
            clusters = len(centroids)
            totals = tensor(tensors, "totals", clusters, count, 3)
            stds = tensor(tensors, "stds", clusters, count + 1)
            if not clusters or (stds < 0.0).any():
                raise _damaged("The bundle has no cluster, or a negative deviation", "bad_tensor")
            means = tensor(tensors, "means", clusters, count + 1)
            model = Clusters(_frozen(rounded(centroids)), _frozen(means), _frozen(stds))
        case other:
            raise _damaged(f"The bundle's bandit model is {other!r}, not linear or clusters", "bad_header")
    return Bandit(
        arms=arms,
        features=features,
        encoder=encoder,
        model=model,
        knobs=_checked(knobs),
        explorer=_explorer(knobs),
        seen=_frozen(np.array([totals[..., 0].sum()])),
        tensors=tensors,
    )


def _frozen(values: Floats) -> Floats:
    kept = np.array(values)
    kept.flags.writeable = False
    return kept


def _checked(knobs: Mapping[str, Any]) -> Mapping[str, Any]:
    costs = knobs.get("costs") or {}
    numbers = [knobs.get("cost_weight", 0.0), *(costs.values() if isinstance(costs, Mapping) else [None])]
    if not all(isinstance(each, int | float) and np.isfinite(each) for each in numbers):
        raise _damaged(f"The bundle's costs are {costs!r:.80}", "bad_header")
    return knobs


def _explorer(knobs: Mapping[str, Any]) -> Explorer:
    try:
        return explorer(knobs.get("explore", "greedy"))
    except (InvalidSettings, TypeError) as error:
        raise _damaged(f"The bundle's explorer cannot be used ({error})", "bad_header") from error
