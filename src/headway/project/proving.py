"""From settled decisions to the arrays that evidence is made of.

Both policies are asked again, as whole pipelines, about every row: what is proven is what would be served. A row may
speak for a candidate only if the candidate was never trained on it: the `prove` part, and everything that settled after
the bundle's mark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headway.decide.acting import Pipeline
from headway.nouns.protocols import Floats
from headway.nouns.records import Settled
from headway.observe.experience import part_of
from headway.prove.log import CENSORED, FAILED, PENDING, REWARDED, Log

if TYPE_CHECKING:
    from headway.encode.state import Features
    from headway.nouns.protocols import Encoder

__all__ = ["chunks", "speaking", "unseen"]

_CHUNK = 2000
_CODES = {"rewarded": REWARDED, "failed": FAILED, "censored": CENSORED, "pending": PENDING}


def unseen(rows: Iterable[Settled], *, upto: int, parts: Sequence[str], after: int = 0) -> Iterator[Settled]:
    """Rows that a policy trained on `parts` up to row `upto` has never read; `after` skips a plan's pilot."""
    for row in rows:
        if row.seq > after and (row.seq > upto or part_of(row.decision) not in parts):
            yield row


def speaking(rows: Iterable[Settled], left: Counter[str]) -> Iterator[Settled]:
    """Rows that evidence can rest on; `left` counts the others by what they lack."""
    for row in rows:
        if row.decision.source == "mined":
            left["with a mined label"] += 1
        elif not row.decision.propensity_known:
            left["with unknown propensity"] += 1
        else:
            yield row


def chunks(
    rows: Iterable[Settled],
    *,
    arms: Sequence[str],
    target: Pipeline,
    baseline: Pipeline,
    features: Features,
    encoder: Encoder | None,
    guards: Sequence[str] = (),
    segments: bool = True,
) -> Iterator[Log]:
    """`Log` chunks with both policies' probabilities, columns in the order of `arms`."""
    column = {name: index for index, name in enumerate(arms)}
    stream = iter(rows)
    first = 0
    while batch := list(islice(stream, _CHUNK)):
        yield _chunk(batch, column, target, baseline, features, encoder, guards, segments, first)
        first += len(batch)


def _chunk(
    batch: Sequence[Settled],
    column: Mapping[str, int],
    target: Pipeline,
    baseline: Pipeline,
    features: Features,
    encoder: Encoder | None,
    guards: Sequence[str],
    segments: bool,
    first_row: int,
) -> Log:
    decisions = [row.decision for row in batch]
    situations = [each.situation for each in decisions]
    sets = [each.candidates for each in decisions]
    seeds = [each.seed for each in decisions]
    # Where each row's candidates stand among all arms: [row, candidate], −1 past the end of a shorter set.
    width = max(len(each) for each in sets)
    places = np.full((len(batch), width), -1)
    for row, candidates in enumerate(sets):
        places[row, : len(candidates)] = [column[each.name] for each in candidates]
    logged = np.zeros((len(batch), width))
    for row, each in enumerate(decisions):
        logged[row, : len(each.probabilities)] = each.probabilities
    roles = np.array([each.role or "none" for each in situations], dtype=np.str_)
    return Log.of(
        reward=[np.nan if row.reward is None else row.reward for row in batch],
        action=[column[each.action] for each in decisions],
        logged=_spread(logged, places, len(column)),
        target=_spread(target.distributions(situations, sets, seeds), places, len(column)),
        baseline=_spread(baseline.distributions(situations, sets, seeds), places, len(column)),
        features=features.vectors(situations, encoder),
        status=[_CODES[row.status] for row in batch],
        settled_seq=[row.seq for row in batch],
        arms=tuple(column),
        segments={"role": roles} if segments and any(each.role for each in situations) else {},
        keys=np.array([each.key or "local" for each in decisions], dtype=np.str_),
        guards={name: [row.signals.get(name, np.nan) for row in batch] for name in guards},
        sources=np.array([each.source for each in decisions], dtype=np.str_),
        first_row=first_row,
    )


def _spread(values: Floats, places: NDArray[np.int64], width: int) -> Floats:
    """[row, candidate] → [row, arm]."""
    spread = np.zeros((len(values), width + 1))
    np.put_along_axis(spread, np.where(places < 0, width, places), values[:, : places.shape[1]], axis=1)
    return spread[:, :width]
