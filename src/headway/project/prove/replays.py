"""Asking our own decisions again: the recorded policy, under the configuration of that time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headway.nouns import errors
from headway.observe import loads
from headway.project.decide.serving import drew

if TYPE_CHECKING:
    from headway.decide import Pipeline
    from headway.observe import DrawnRows, TaskFrame
    from headway.project.project.folder import Opened

SAMPLE = 500  # decisions that are asked again, spread over the log
MOST_POLICIES = 40  # policies under one configuration each that are loaded for it


class Replays:
    """A sample of decisions, asked again; `gone` counts by reason those that cannot be."""

    def __init__(self, project: Opened, frame: TaskFrame, decisions: int) -> None:
        self._project, self._frame = project, frame
        # Powers of two, so that the sample stays while the log grows.
        self._stride = 1 << max(0, (decisions // SAMPLE).bit_length() - 1)
        self._pipelines: dict[tuple[str, str, str], Pipeline | str] = {}
        self.elsewhere = 0
        self.gone: Counter[str] = Counter()

    def probabilities(self, drawn: DrawnRows) -> list[Sequence[float] | None]:
        """By row, of its candidates; None where nothing was asked."""
        claimed = self._frame.claimed(drawn.rows)
        self.elsewhere += int(claimed.sum())
        seqs = drawn.rows.seq.tolist()
        asked: list[Sequence[float] | None] = [None] * len(drawn)
        sample = drawn.rows.seq[~claimed & (drawn.rows.seq % self._stride == 0)].tolist()
        query = self._project.query
        decisions = {row.decision.seq: row.decision for row in query.outcomes(sample)}
        groups: dict[tuple[str, str, str], list[int]] = {}
        for place, seq in enumerate(seqs):
            if seq in decisions:
                decision = decisions[seq]
                who = (*drew(loads(query.config(decision.config_hash)), decision), decision.config_hash)
                groups.setdefault(who, []).append(place)
        for who, places in groups.items():
            pipeline = self._pipeline(self._frame.task, who)
            if isinstance(pipeline, str):
                self.gone[pipeline] += len(places)
                continue
            rows = [decisions[seqs[place]] for place in places]
            sets = [row.candidates for row in rows]
            again = pipeline.distributions([row.situation for row in rows], sets, [row.seed for row in rows])
            for place, chances in zip(places, again.tolist(), strict=True):
                asked[place] = chances
        return asked

    def running(self) -> list[Any]:
        """What it knows so far, in plain values: see `go_on`."""
        whom = [[*who, isinstance(known, str)] for who, known in self._pipelines.items()]
        return [self.elsewhere, dict(self.gone), whom, self._stride]

    def go_on(self, running: list[Any]) -> bool:
        """Go on from there; False if another policy can be asked now."""
        self.elsewhere, self.gone = running[0], Counter(running[1])
        return running[3] == self._stride and all(
            isinstance(self._pipeline(self._frame.task, (policy, digest, config)), str) == gone
            for policy, digest, config, gone in running[2]
        )

    def _pipeline(self, task: str, who: tuple[str, str, str]) -> Pipeline | str:
        """What decided, or why it cannot be asked any more."""
        known = self._pipelines.get(who)
        if known is None:
            if len(self._pipelines) >= MOST_POLICIES:
                return f"they are of more than {MOST_POLICIES} policies"
            known = self._pipelines[who] = self._load(task, who)
        return known

    def _load(self, task: str, who: tuple[str, str, str]) -> Pipeline | str:
        policy, digest, config = who
        servings = self._project.servings
        try:
            body: dict[str, Any] = loads(self._project.query.config(config))
            encoder = servings.encoder(body["encoder_spec"]).version
            if encoder != body["encoder"] and body["encoder"]:
                return f"the encoder {body['encoder']!r} was replaced by {encoder!r}"
            return servings.pipeline(task, body, policy, digest)
        except errors.HeadwayError as error:
            return error.message.rstrip(".")
