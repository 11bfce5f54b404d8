"""Learns a ranker: rows into a layout, simple models first, then transformers, and the one that tuning rows prefer.

    learned = RankerLearner(encoder).learn(experience, {"architecture": "auto"}, seed=7)

Every bundle carries the linear model and the mean of every type, so that `prove` can hold the candidate against them.
Of history without probabilities the latest rows are not read (`held_back`): held-out evidence comes after training in
time. With fewer labelled rows than `least` nothing is learned, unless `force` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from headway.kits.next_action.architectures import BestRanker, compared
from headway.kits.next_action.layout import Layout, RankedRows, rows_of
from headway.kits.next_action.shapes import EMBEDDING, RankerKnobs
from headway.learn import RowCounts
from headway.nouns import Encoder, Experience, Learned, Progress, Settled, changed, errors

VERSION = 1


class RankerLearner:
    """The learner of the family `ranker`."""

    def __init__(self, encoder: Encoder | None = None) -> None:
        self.encoder = encoder

    def learn(
        self,
        experience: Experience,
        knobs: Mapping[str, Any],
        seed: int,
        progress: Progress | None = None,
        *,
        work: Path | None = None,
    ) -> Learned:
        """The best architecture; `work`: a folder where interrupted training is kept, and from which it continues."""
        wanted = _wanted(knobs)
        counts = RowCounts()
        train, tune = (_labelled(experience.part(name), counts, wanted["role"]) for name in ("train", "tune"))
        if not tune and len(train) > 1:  # very few rows: some of them must judge the others
            train, tune = train[: -(-4 * len(train) // 5)], train[-(-4 * len(train) // 5) :]
        until, train, tune = _held_back(train, tune, float(wanted["held_back"]))
        _check_enough(train, tune, wanted)
        layout = Layout.fit(
            [row.decision.situation for row in train], [row.decision.candidates[row.decision.index] for row in train],
            self.encoder,
        )  # fmt: skip
        mined = float(wanted["mined_weight"])
        learning = rows_of(train, layout, self.encoder, mined)
        judging = rows_of(tune, layout, self.encoder, mined, units=learning)
        best = compared(learning, judging, wanted, seed, progress, work)
        return _learned(best, learning, judging, layout, wanted, counts, until)


def _wanted(knobs: Mapping[str, Any]) -> dict[str, Any]:
    wanted = asdict(changed("ranker", RankerKnobs(), knobs))
    if wanted["bits"] not in (8, 32):
        raise errors.InvalidSettings(f"The knob bits is {wanted['bits']!r}.", code="bad_knob", hint="Use 32 or 8.")
    return wanted


def _labelled(rows: Iterable[Settled], counts: RowCounts, role: str) -> list[Settled]:
    labelled: list[Settled] = []
    for row in rows:
        if role and row.decision.situation.role != role:
            continue
        counts.row(row)
        if row.reward is not None and row.weight > 0.0:
            if not np.isfinite(row.reward):
                raise errors.InvalidInput(
                    f"The reward of row {row.seq} is {row.reward!r}.", code="not_finite", hint="Rescore it."
                )
            labelled.append(row)
    return labelled


def _held_back(train: list[Settled], tune: list[Settled], share: float) -> tuple[float, list[Settled], list[Settled]]:
    """The last time that is read, and the rows up to it. Decisions with probabilities have evidence of their own."""
    both = [*train, *tune]
    unknown = sum(not row.decision.propensity_known for row in both)
    if not both or share <= 0.0 or unknown <= len(both) / 2:
        return 0.0, train, tune
    until = float(np.quantile([row.decision.at for row in both], 1.0 - share, method="lower"))
    early, judging = ([row for row in rows if row.decision.at <= until] for rows in (train, tune))
    return (until, early, judging) if early and judging else (0.0, train, tune)


def _check_enough(train: list[Settled], tune: list[Settled], wanted: Mapping[str, Any]) -> None:
    count, least = len(train) + len(tune), int(wanted["least"])
    if not train:
        raise errors.InvalidInput(
            "There is no decision with a reward in the train part.",
            code="nothing_to_learn",
            hint="Send signals for the decisions, or wait until they settle.",
        )
    if count < least and not wanted["force"]:
        raise errors.InvalidInput(
            f"{count} labelled rows can be read, besides those kept for the proof; a ranker needs {least:,} to say "
            "anything about new ones.",
            code="too_few_rows",
            hint="Collect more, read weak labels with --mined, or learn anyway with --force.",
        )


def _learned(
    best: BestRanker, learning: RankedRows, judging: RankedRows, layout: Layout, wanted: Mapping[str, Any],
    counts: Mapping[str, Any], until: float,
) -> Learned:  # fmt: skip
    shape, measures = best.shape, best.measures
    accuracy, majority = measures.sign_accuracy, best.simple["majority"].sign_accuracy
    extra = {
        "version": VERSION,
        "architecture": best.architecture,
        "embedding_dim": EMBEDDING if shape else layout.action.text_width,
        "hidden_dim": shape.hidden if shape else 0,
        "num_layers": shape.layers if shape else 0,
        "num_heads": shape.heads if shape else 0,
        "val_accuracy": accuracy,
        "val_accuracy_baseline": majority,
        "tool_to_index": {name: place for place, name in enumerate((*layout.types, "…"))},
        "layout": layout.to_json(),
        "type_means": learning.type_means(),
        "until": until,
        **({"shape": shape.to_json()} if shape else {}),
        "notes": [*_worth(len(learning.reward) + len(judging.reward), wanted), *best.notes],
    }
    baselines = {
        f"error {name}".replace(" ", "_"): value.error for name, value in best.simple.items() if name != "majority"
    }
    return Learned(
        family="ranker",
        tensors=best.tensors,
        knobs={**wanted, "costs": dict(wanted["costs"])},
        metrics={f"tune_{name}": value for name, value in measures.numbers().items()},
        baselines=baselines,
        trained_on={**counts, "rows": len(learning.reward), "tune_rows": len(judging.reward)},
        extra=extra,
    )


def _worth(count: int, wanted: Mapping[str, Any]) -> list[str]:
    """What a forced result is worth, in words."""
    if count >= int(wanted["least"]):
        return []
    return [f"Learned from {count} rows because of --force: its predictions say next to nothing about new actions."]
