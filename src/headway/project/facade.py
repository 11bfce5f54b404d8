"""`Project`: a folder with one SQLite file, and one method per verb.

    project = headway.open("demo")
    pick = project.decide("route", "Prove that sqrt(2) is irrational", ["small", "large"])
    project.signal(pick.id, reward=1.0)
    policy = project.learn("route")
    proof = project.prove(policy)
    project.promote(policy, because=proof)

`decide` and `signal` may be called from threads and inside an event loop; what they return from is durable.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from headway.nouns.evidence import Verdict
from headway.nouns.ids import parse_decision_id
from headway.nouns.protocols import Progress
from headway.project.deciding import Deciding
from headway.project.inputs import Offer
from headway.promote.ledger import Entry

if TYPE_CHECKING:
    from headway.observe.erase import Doomed
    from headway.project.erasing import Erased
    from headway.project.importing import Imported, Importing
    from headway.prove.leaks import Leaks
    from headway.prove.power import Planned

__all__ = ["Project"]


class Project(Deciding):
    """One folder of experience, policies and evidence. Opened by `headway.open()`."""

    _folded_at = 0.0

    # -- learn, prove, promote

    def learn(
        self,
        task: str,
        *,
        family: str | None = None,
        seed: int | None = None,
        progress: Progress | None = None,
        trust: Sequence[str] = (),
        mined: bool = False,
        **knobs: Any,
    ) -> str:
        """Learn a candidate from what has settled; returns its reference, `bandit@4f2a`.

        Fields that give the outcome away are left out of it (`leaks`), but for those in `trust`: you know that they
        were there before the outcome. Mined labels count only if asked for (`mined`).
        """
        from headway.project import learning

        return learning.learn(
            self, task, family=family, seed=seed, progress=progress, knobs=knobs, trust=trust, mined=mined
        )

    def due(self, task: str) -> int:
        """Newly settled decisions that are still missing before a retraining is due; 0: it is due."""
        from headway.project import learning

        return learning.due(self, task)

    def prove(
        self,
        policy: str | None = None,
        *,
        against: str = "current",
        task: str | None = None,
        progress: Progress | None = None,
        trust_keys: Sequence[str] = (),
    ) -> Verdict:
        """Is this candidate better than the current policy? The newest candidate unless one is named.

        A verdict that one key's ratings decide is refused, but for the keys in `trust_keys`.
        """
        from headway.project import judging

        return judging.prove(self, policy, against=against, task=task, progress=progress, trust=trust_keys)

    def promote(
        self,
        policy: str | None = None,
        *,
        because: Verdict | None = None,
        task: str | None = None,
        who: str = "",
        trust_keys: Sequence[str] = (),
    ) -> Entry:
        """Make a candidate current, on evidence; GateRefused if the evidence does not carry it.

        `trust_keys` names keys that may decide that alone; the ledger keeps them.
        """
        from headway.project import changing

        return changing.promote(self, policy, because=because, task=task, who=who, trust=trust_keys)

    def plan(
        self,
        task: str,
        *,
        uplift: float,
        power: float = 0.8,
        register: bool = False,
        policy: str | None = None,
    ) -> Planned:
        """How many more decisions show an uplift of this size; `register` fixes that horizon before it is looked at."""
        from headway.project import judging

        return judging.plan(self, task, uplift=uplift, power=power, register=register, policy=policy)

    def canary(self, policy: str | None = None, *, share: float, task: str | None = None, who: str = "") -> Entry:
        """Let a candidate decide on a share of the traffic; share 0 ends it."""
        from headway.project import changing

        return changing.canary(self, policy, share=share, task=task, who=who)

    def shadow(self, policy: str | None = None, *, task: str | None = None, who: str = "") -> Entry:
        """Note that a candidate is being compared; it never acts."""
        from headway.project import changing

        return changing.shadow(self, policy, task=task, who=who)

    def retire(self, policy: str, *, task: str | None = None, why: str = "", who: str = "") -> Entry:
        """Set a candidate aside; it can still be promoted later."""
        from headway.project import changing

        return changing.retire(self, policy, task=task, why=why, who=who)

    def guard(self, task: str, *, who: str = "") -> Entry | None:
        """Roll back what is proven worse: a canary ends, a current policy makes way for the one before it."""
        from headway.project import changing

        return changing.guard(self, task, who=who)

    def rollback(self, task: str, *, to: str | None = None, why: str = "", who: str = "") -> Entry:
        """Make the previous policy (or `to`) current again."""
        from headway.project import changing

        return changing.rollback(self, task, to=to, why=why, who=who)

    def fold(self, task: str) -> str | None:
        """Online tasks: fold what has settled into the current policy and publish a snapshot; its reference, if new."""
        from headway.project import learning

        return learning.fold(self, task)

    # -- history from elsewhere

    def import_file(self, path: Path | str, **options: Unpack[Importing]) -> Imported:
        """Bring in somebody else's history, idempotently; what the file does not say stays unknown.

        project.import_file("training-buffer.jsonl")                        # the format by its looks
        project.import_file("log.csv", task="route", columns={"action": "model", "reward": "score", "propensity": "p"})
        project.import_file("log.jsonl", dry_run=True)                      # only the report
        """
        from headway.project import importing

        return importing.import_file(self, Path(path), **options)

    def leaks(self, task: str, *, mined: bool = False) -> Leaks:
        """Which fields of the settled decisions give the outcome away, and what else would flatter a policy."""
        from headway.project import leaking

        self.settle(task)
        return leaking.check(self, task, mined=mined)

    # -- delete

    def erase(self, wanted: Doomed, *, dry_run: bool = False, rewrite: bool = True) -> Erased:
        """Delete decisions, or what one rater said, for good: it cannot be undone.

        project.erase(Doomed(rater="ann"))
        project.erase(Doomed(before=time.time() - 90 * 86_400, task="route"), dry_run=True)
        """
        from headway.project import erasing

        return erasing.erase(self, wanted, dry_run=dry_run, rewrite=rewrite)

    # -- look

    def explain(self, decision: str) -> dict[str, Any]:
        """Who decided, why, with which probabilities, and how it went."""
        from headway.project import looking

        return looking.explain(self, parse_decision_id(decision))

    def replay(self, decision: str) -> dict[str, Any]:
        """Ask the same policy the same question with the same seed, and compare; or say what of it is gone."""
        from headway.project import looking

        return looking.replay(self, parse_decision_id(decision))

    def rank(
        self, task: str, candidates: Iterable[Offer] | None = None, text: str = "", **situation: Any
    ) -> list[dict[str, Any]]:
        """Candidates in order of predicted reward, each with its uncertainty; nothing is logged."""
        from headway.project import looking

        return looking.rank(self, task, candidates, text, **situation)

    def status(self) -> dict[str, Any]:
        """Every task: who is current, what waits, how much there is."""
        from headway.project import looking

        return looking.status(self)

    def tasks(self) -> list[str]:
        """Declared tasks and those that have decisions."""
        return sorted({*self.settings.tasks, *self.query.names("task")})

    def _signalled(self, task: str) -> None:
        """In-process online learning: at most one snapshot a second."""
        if self.settings.task(task).online == "live" and time.monotonic() - self._folded_at >= 1.0:
            self._folded_at = time.monotonic()
            self.fold(task)
