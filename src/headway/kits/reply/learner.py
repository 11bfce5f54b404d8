"""The learner of the family language: rated replies into an adapter, with what the gate asks of it.

It reads the kept replies of a task (`learn.material`), divides them into those that train and those that only judge,
trains, measures, and gives tensors with PEFT's names. Withdrawn ratings leave no trace: `kto` starts from the base.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.kits.reply.knobs import LanguageKnobs, knobs_from
from headway.kits.reply.room import no_memory, out_of_memory
from headway.nouns import Encoder, Experience, Learned, Progress, errors, plural

if TYPE_CHECKING:
    from headway.kits.reply.learn.data import RatedReply, Sample
    from headway.kits.reply.learn.material import RatedMaterial
    from headway.kits.reply.learn.tuned import TunedModel


class LanguageLearner:
    """Learns an adapter from rated replies."""

    family = "language"

    def __init__(self, encoder: Encoder | None = None) -> None:
        self.encoder = encoder

    def learn(
        self,
        experience: Experience,  # noqa: ARG002 — replies are in `material`
        knobs: Mapping[str, Any],
        seed: int,
        progress: Progress | None = None,
        *,
        work: Path | None = None,
        material: RatedMaterial | None = None,
    ) -> Learned:
        """Train, measure, and return the adapter. `work`: where an interrupted run continues."""
        chosen = knobs_from(knobs)
        if material is None or not material.rows:
            raise errors.InvalidInput(
                "There are no replies to learn from.",
                code="nothing_to_learn",
                hint="Rate replies first, with stars or thumbs.",
            )
        try:
            return _LanguageRun(chosen, seed, material, progress, work).learned()
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            hint = (
                f"Set a smaller batch than {chosen.batch} or sequence than {chosen.sequence}; a repeated run continues."
            )
            raise no_memory("The training", hint) from error


@dataclass(slots=True)
class _LanguageRun:
    """One learning, from stored replies to a bundle's tensors."""

    knobs: LanguageKnobs
    seed: int
    material: RatedMaterial
    progress: Progress | None
    work: Path | None

    def learned(self) -> Learned:
        """The adapter, and beside it the maximum-likelihood baseline that it is compared with."""
        self._check_counts()
        import headway.kits.reply.device  # noqa: F401 — before torch is needed: it names the extra that is missing

        tuned = self._tuned()
        main = self._learned(tuned)
        if self.knobs.learner == "sft" or not self.knobs.baseline:
            return main
        tuned.start_again(self.seed)
        plain = replace(self.knobs, learner="sft", start="base", ewc=0.0, average=False)
        work = None if self.work is None else self.work / "sft"
        try:
            beside = _LanguageRun(plain, self.seed, self.material, self.progress, work)._learned(tuned)
        except errors.InvalidInput:  # nothing was liked
            return main
        return replace(main, beside={"sft": beside})

    def _learned(self, tuned: TunedModel) -> Learned:
        from headway.kits.reply.learn.data import divided, graded

        rated, left = _rated(tuned, self.material)
        samples = graded(rated, unrated=self.knobs.unrated, sequence=self.knobs.sequence)
        parts = divided(samples)
        train = self._with_replay(parts.train)
        trainer = self._train(tuned, train)
        tensors = self._averaged(tuned)
        from headway.kits.reply.learn.measure import measure

        champions = self.material.champions
        held = {sample.id.partition("/")[0] for sample in parts.held_out}
        prompts = [reply.text for reply in rated if reply.id in held]
        champion = champions[0].tensors if champions else None
        others, detect = self.material.others, self.material.detect
        told = measure(trainer, parts.held_out, prompts, champion, others=others, detect=detect)
        good, bad = _signs(train)
        counts = trainer.counts
        metrics = {"updates": float(counts.updates), "good": float(good), "bad": float(bad), **told}
        metrics |= {name: value for name, value in trainer.last.items() if name in ("policy_loss", "value_loss")}
        return Learned(
            family="language",
            tensors=tensors,
            knobs=asdict(self.knobs),
            metrics=metrics,
            baselines={},
            trained_on={"sources": {"ratings": len(train)}, "held_out": len(parts.held_out), **left},
            extra={
                **tuned.about,
                "base_name": self.material.base,
                "learner": self.knobs.learner,
                "champion": champions[0].ref if champions else "base@0",
                "measured": told,
                "curve": [[update, loss, kl] for update, loss, kl in counts.curve],
                "notes": _notes(counts.stopped, left, bad, good),
            },
        )

    def _check_counts(self) -> None:
        """The start rule, before a model is loaded."""
        from headway.kits.reply.learn.data import cluster_of, is_held_out

        rewards = [
            row.reward
            for row, _ in self.material.rows
            if row.reward is not None and not is_held_out(cluster_of(row.decision.situation.text))
        ]
        mean = sum(rewards) / (len(rewards) + 10.0)
        good, bad = sum(reward > mean for reward in rewards), sum(reward < mean for reward in rewards)
        if len(rewards) < self.knobs.least or min(good, bad) < self.knobs.least_of_sign:
            raise errors.InvalidInput(
                f"{plural(len(rewards), 'rating')} can be trained on, {good} of "
                f"them good and {bad} bad; {self.knobs.least} are needed, and {self.knobs.least_of_sign} of each sign.",
                code="too_few_ratings",
                hint="Rate more replies. Until then, liked replies serve as examples in the prompt.",
            )

    def _tuned(self) -> TunedModel:
        from headway.kits.reply.learn.tuned import TunedModel

        knobs = self.knobs
        tuned = TunedModel.load(
            self.material.folder,
            rank=knobs.rank,
            alpha=knobs.alpha,
            seed=self.seed,
            device=knobs.device,
            dtype=knobs.dtype,
            device_map=knobs.device_map,
        )
        champions = self.material.champions
        if knobs.start == "current" and champions:
            tuned.continue_from(champions[0].tensors)
        return tuned

    def _with_replay(self, train: list[Sample]) -> list[Sample]:
        """When continuing: new samples, and old ones beside them."""
        from headway.kits.reply.learn.forgetting import replayed

        champions = self.material.champions
        if self.knobs.start != "current" or not champions:
            return train
        seen = {row.decision.id for row, _ in self.material.rows if 0 < row.seq <= champions[0].upto}
        new = [sample for sample in train if sample.id.partition("/")[0] not in seen]
        old = [sample for sample in train if sample.id.partition("/")[0] in seen]
        kept = replayed(old, round(self.knobs.replay * len(new)), seed=self.seed)
        return sorted([*new, *kept], key=lambda sample: (sample.at, sample.id)) if new else train

    def _train(self, tuned: TunedModel, train: Sequence[Sample]) -> Any:
        from headway.kits.reply.learn.forgetting import Ewc, fisher
        from headway.kits.reply.learn.kto import Kto
        from headway.kits.reply.learn.objective import Sft
        from headway.kits.reply.learn.ppo import Ppo
        from headway.kits.reply.learn.trainer import Trainer

        knobs = self.knobs
        objective: Any = Sft()
        if knobs.learner == "kto":
            objective = Kto(beta=knobs.beta, likelihood=knobs.likelihood, seed=self.seed)
        elif knobs.learner == "ppo":
            objective = Ppo(knobs)
        trainer = Trainer(tuned, train, objective, knobs, seed=self.seed, work=self.work)
        if not trainer.samples:
            raise errors.InvalidInput(
                f"None of the {len(train)} ratings can be used by {knobs.learner!r}.",
                code="too_few_ratings",
                hint="ppo needs replies with stored log-probabilities, sft needs liked or edited ones.",
            )
        if knobs.ewc and tuned.start:
            places = list(range(min(64, len(trainer.rows))))
            trainer.penalties = (Ewc(fisher(trainer, places), tuned.adapter, knobs.ewc),)
        trainer.run(self._paused(self.progress))
        return trainer

    def _paused(self, progress: Progress | None) -> Progress:
        """Reports each update, and waits before the next one while somebody chats."""
        from headway.kits.reply.learn.material import wait_while

        def tell(stage: str, done: int, total: int | None) -> None:
            def again() -> None:
                if progress is not None:
                    progress(stage, done, total)

            again()
            wait_while(self.material.busy, again)

        return tell

    def _averaged(self, tuned: TunedModel) -> Mapping[str, Any]:
        from headway.kits.reply.learn.forgetting import averaged

        if self.knobs.average and self.material.champions:
            others = [champion.tensors for champion in self.material.champions[:2]]
            tuned.adapter.load(averaged([tuned.adapter.tensors(), *others], rank=self.knobs.rank))
        return tuned.adapter.tensors()


def _signs(samples: Sequence[Sample]) -> tuple[int, int]:
    good = sum(sample.desirable for sample in samples)
    return good, len(samples) - good


def _rated(tuned: TunedModel, material: RatedMaterial) -> tuple[list[RatedReply], dict[str, int]]:
    """Replies with tokens of this base; and how many could not be used, by reason."""
    from headway.kits.reply.learn.material import rated_reply

    left: Counter[str] = Counter()
    rated = []
    for row, reply in material.rows:
        if reply.exact and reply.base and reply.base != tuned.base_hash:
            left["of another base"] += 1
            continue
        if not reply.exact and not (reply.foreign or reply.edits):
            left["without tokens"] += 1
            continue
        prompt = reply.prompt_tokens or tuned.prompt_tokens(reply.turns)
        tokens = reply.tokens if reply.exact else (*tuned.reply_tokens(reply.text), tuned.end)
        edits = reply.edits
        edited = (*tuned.reply_tokens(edits[-1].text), tuned.end) if edits else ()
        if not reply.exact and not reply.foreign:
            tokens = ()  # redacted: only its edit is used
        rated.append(rated_reply(row, reply, prompt=tuple(prompt), tokens=tuple(tokens), edited=edited))
    return rated, dict(left)


def _notes(stopped: str, left: Mapping[str, int], bad: int, good: int) -> list[str]:
    notes = [f"Left out: {plural(count, 'reply', 'replies')} {reason}." for reason, count in left.items()]
    if stopped:
        notes.append(f"Training ended early: {stopped}.")
    if not good or bad > 9 * good:
        notes.append("Nearly all ratings are bad: vote on replies yourself before you promote.")
    return notes
