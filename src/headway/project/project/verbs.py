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
from headway.project.decide.inputs import Offer
from headway.project.project.folder import ProjectFolder
from headway.promote.ledger import Entry

if TYPE_CHECKING:
    from headway.nouns.evidence import Evidence
    from headway.nouns.explanation import Explanation, Ranked, Replay
    from headway.nouns.status import NextStep, ProjectStatus
    from headway.observe.erase import DeletionFilter
    from headway.project.data.erase import DeletionReport
    from headway.project.data.import_file import ImportOptions, ImportReport
    from headway.project.data.transform import TransformReport
    from headway.project.inspect import JudgedEvidence
    from headway.promote.standing import CandidatePolicy, CurrentPolicy, Standing
    from headway.prove.leaks import Leaks
    from headway.prove.power import Planned
    from headway.reward.agree import Question
    from headway.reward.raters import Agreed

__all__ = ["Project"]


class Project(ProjectFolder):
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
        from headway.project.learn import learn

        return learn(self, task, family=family, seed=seed, progress=progress, knobs=knobs, trust=trust, mined=mined)

    def due(self, task: str) -> int:
        """Newly settled decisions that are still missing before a retraining is due; 0: it is due."""
        from headway.project.learn import due

        return due(self, task)

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
        from headway.project.prove.examine import examine

        return examine(self, policy, against=against, task=task, progress=progress, trust=trust_keys).verdict

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
        from headway.project.promote import promote

        return promote(self, policy, because=because, task=task, who=who, trust=trust_keys)

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
        from headway.project.prove.plan import plan

        return plan(self, task, uplift=uplift, power=power, register=register, policy=policy)

    def canary(self, policy: str | None = None, *, share: float, task: str | None = None, who: str = "") -> Entry:
        """Let a candidate decide on a share of the traffic; share 0 ends it."""
        from headway.project.promote import canary

        return canary(self, policy, share=share, task=task, who=who)

    def shadow(self, policy: str | None = None, *, task: str | None = None, who: str = "") -> Entry:
        """Note that a candidate is being compared; it never acts."""
        from headway.project.promote import shadow

        return shadow(self, policy, task=task, who=who)

    def retire(self, policy: str, *, task: str | None = None, why: str = "", who: str = "") -> Entry:
        """Set a candidate aside; it can still be promoted later."""
        from headway.project.promote import retire

        return retire(self, policy, task=task, why=why, who=who)

    def guard(self, task: str, *, who: str = "") -> Entry | None:
        """Roll back what is proven worse: a canary ends, a current policy makes way for the one before it."""
        from headway.project.promote import guard

        return guard(self, task, who=who)

    def rollback(self, task: str, *, to: str | None = None, why: str = "", who: str = "") -> Entry:
        """Make the previous policy (or `to`) current again."""
        from headway.project.promote import rollback

        return rollback(self, task, to=to, why=why, who=who)

    def fold(self, task: str) -> str | None:
        """Online tasks: fold what has settled into the current policy and publish a snapshot; its reference, if new."""
        from headway.project.learn import fold

        return fold(self, task)

    # -- history from elsewhere

    def import_file(self, path: Path | str, **options: Unpack[ImportOptions]) -> ImportReport:
        """Bring in somebody else's history, idempotently; what the file does not say stays unknown.

        project.import_file("training-buffer.jsonl")                        # the format is recognised
        project.import_file("log.csv", task="route", columns={"action": "model", "reward": "score", "propensity": "p"})
        project.import_file("log.jsonl", dry_run=True)                      # only the report
        """
        from headway.project.data.import_file import import_file

        return import_file(self, Path(path), **options)

    def leaks(self, task: str, *, mined: bool = False) -> Leaks:
        """Which fields of the settled decisions give the outcome away, and what else would flatter a policy."""
        from headway.project.data.leaks import check_leaks

        self.settle(task)
        return check_leaks(self, task, mined=mined)

    def transform(
        self,
        task: str,
        out: Path,
        *,
        mined: bool = False,
        trust: Sequence[str] = (),
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> TransformReport:
        """Write what `learn` reads to a file: one JSON object per row, leaky fields left out."""
        from headway.project.data.transform import transform

        return transform(self, task, out, mined=mined, trust=trust, overwrite=overwrite, progress=progress)

    # -- delete

    def erase(self, wanted: DeletionFilter, *, dry_run: bool = False, rewrite: bool = True) -> DeletionReport:
        """Delete decisions, or what one rater said, for good: it cannot be undone.

        project.erase(DeletionFilter(rater="ann"))
        project.erase(DeletionFilter(before=time.time() - 90 * 86_400, task="route"), dry_run=True)
        """
        from headway.project.data.erase import erase

        return erase(self, wanted, dry_run=dry_run, rewrite=rewrite)

    def retain(self, *, dry_run: bool = False) -> DeletionReport | None:
        """Delete what is older than `[store] keep_days`; None where that is not set or nothing is that old."""
        from headway.project.data.erase import retain

        return retain(self, dry_run=dry_run)

    # -- look

    def explain(self, decision: str) -> Explanation:
        """Who decided, why, with which probabilities, and how it went."""
        from headway.project.inspect import explain

        return explain(self, parse_decision_id(decision))

    def replay(self, decision: str) -> Replay:
        """Ask the same policy the same question with the same seed, and compare; or say what of it is gone."""
        from headway.project.inspect import replay

        return replay(self, parse_decision_id(decision))

    def rank(
        self, task: str, candidates: Iterable[Offer] | None = None, text: str = "", **situation: Any
    ) -> list[Ranked]:
        """Candidates in order of predicted reward, with the uncertainty of each; nothing is logged."""
        from headway.project.inspect import rank

        return rank(self, task, candidates, text, **situation)

    def status(self) -> ProjectStatus:
        """Every task: who is current, what waits, how much there is, what to do next."""
        from headway.project.inspect import status

        return status(self)

    def next_step(self, task: str, policy: str | None = None) -> NextStep:
        """The command that brings a task forward, or one policy of it."""
        from headway.project.inspect import next_step

        return next_step(self, task, policy)

    def standing(self, task: str, candidate: CandidatePolicy | None = None) -> Standing:
        """Where a task stands: what `next_step` and the background loop decide by."""
        from headway.project.inspect import standing

        return standing(self, task, candidate)

    def current(self, task: str) -> CurrentPolicy:
        """Who is current by the ledger. Loads no bundle: it may be gone."""
        from headway.project.prove.subject import current_policy

        return current_policy(self, self.settings.task(task))

    def evidence(self, identifier: str) -> Evidence:
        """A stored evidence."""
        from headway.project.prove.subject import stored_evidence

        return stored_evidence(self, identifier)

    def verdict(self, evidence: str) -> Verdict:
        """What the gate says today about a stored evidence."""
        from headway.project.inspect import verdict_on

        return verdict_on(self, evidence)

    def report(self, evidence: str) -> JudgedEvidence:
        """A stored evidence in words, and what to do about it."""
        from headway.project.inspect import judge_evidence

        return judge_evidence(self, evidence)

    def raters(self, task: str) -> dict[str, Agreed[int]]:
        """By signal that several people give: what they agree on, and how each of them rates."""
        from headway.project.inspect import rater_agreement

        return rater_agreement(self, task)

    def questions(self, task: str, *, count: int, signal: str | None = None) -> list[Question]:
        """Which of the latest decisions to ask a rater about next, the most informative first."""
        from headway.project.inspect import questions_to_ask

        return questions_to_ask(self, task, count=count, signal=signal)

    def tasks(self) -> list[str]:
        """Declared tasks and those that have decisions."""
        return sorted({*self.settings.tasks, *self.query.names("task")})

    def signalled(self, task: str) -> None:
        """In-process online learning: at most one snapshot a second."""
        if self.settings.task(task).online == "live" and time.monotonic() - self._folded_at >= 1.0:
            self._folded_at = time.monotonic()
            self.fold(task)
