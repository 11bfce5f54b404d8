"""`Project`: a folder with one SQLite file, and one method per verb.

    project = headway.open("demo")
    pick = project.decide("route", "Prove that sqrt(2) is irrational", ["small", "large"])
    project.signal(pick.id, reward=1.0)
    policy = project.learn("route")
    proof = project.prove(policy)
    project.promote(policy, because=proof)

`decide` and `signal` may be called from threads and inside an event loop; they return after the commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from headway.nouns.evidence import Reliance, Verdict
from headway.nouns.ids import parse_decision_id
from headway.nouns.protocols import Crew, Progress
from headway.nouns.records import OWNER, Decision, Reader
from headway.project.decide.inputs import Offer
from headway.project.project.folder import ProjectFolder
from headway.promote.ledger import Entry

if TYPE_CHECKING:
    from headway.nouns.alarm import Alarm
    from headway.nouns.evidence import Evidence
    from headway.nouns.experiment import ExperimentState, VerdictCost
    from headway.nouns.explanation import Explanation, Ranked, Replay
    from headway.nouns.status import NextStep, ProjectStatus
    from headway.observe.database import Waiting
    from headway.observe.erase import DeletionFilter
    from headway.project.data.erase import DeletionReport
    from headway.project.data.import_file import ImportOptions, ImportReport
    from headway.project.data.transform import TransformReport
    from headway.project.inspect import JudgedEvidence
    from headway.project.prove.start import Readiness
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
        shadow: bool = False,
        who: str = "",
        **knobs: Any,
    ) -> str:
        """Learn a candidate from settled decisions; returns its reference, `bandit@4f2a`.

        Fields that reveal the outcome (`leaks`) are omitted, except those in `trust`: you know that they
        existed before the outcome. Mined labels count only with `mined`. A candidate replaces the one that is under
        test; a `shadow` waits until that test is over.
        """
        from headway.project.learn import learn

        return learn(
            self,
            task,
            family=family,
            seed=seed,
            progress=progress,
            knobs=knobs,
            trust=trust,
            mined=mined,
            shadow=shadow,
            who=who,
        )

    def next_candidate(self, task: str, *, who: str = "") -> str | None:
        """Make the newest shadow the candidate; its reference, or None if there is none."""
        from headway.project.learn import next_candidate

        return next_candidate(self, task, who=who)

    def due(self, task: str) -> int:
        """The number of newly settled decisions still missing before learning is due; 0: it is due."""
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
        crew: Crew | None = None,
    ) -> Verdict:
        """Is this candidate better than the current policy? The newest candidate unless one is named.

        A verdict that depends on one key's ratings is refused, unless that key is in `trust_keys`. A `crew` plays
        the episodes of a proof by a world side by side; the verdict is the same.
        """
        from headway.project.prove.examine import examine

        return examine(self, policy, against=against, task=task, progress=progress, trust=trust_keys, crew=crew).verdict

    def promote(
        self,
        policy: str | None = None,
        *,
        because: Verdict | None = None,
        task: str | None = None,
        who: str = "",
        trust_keys: Sequence[str] = (),
        trust_claims: bool = False,
        predicts_only: bool = False,
        why: str = "",
    ) -> Entry:
        """Make a candidate current, on evidence; GateRefused if the evidence is not sufficient.

        `trust_keys` may decide it alone; `trust_claims`: it may rest on probabilities that a client sent;
        `predicts_only`: on better predictions. The ledger records these, and your own reason (`why`).
        """
        from headway.project.promote import promote

        accepted: dict[Reliance, bool] = {"claims": trust_claims, "predictions": predicts_only}
        return promote(self, policy, because=because, task=task, who=who, trust=trust_keys, note=why, accepted=accepted)

    def plan(
        self, task: str, *, uplift: float, power: float = 0.8, register: bool = False, policy: str | None = None
    ) -> Planned:
        """The number of decisions needed to prove an uplift of this size; `register` fixes that horizon in advance."""
        from headway.project.prove.plan import plan

        return plan(self, task, uplift=uplift, power=power, register=register, policy=policy)

    def verdict_cost(self, task: str, *, policy: str | None = None, power: float = 0.8) -> VerdictCost:
        """The decisions and days that a verdict on a candidate will take, with the log alone and with a share."""
        from headway.project.prove.cost import verdict_cost

        return verdict_cost(self, task, policy=policy, power=power)

    def readiness(self, standing: Standing) -> Readiness:
        """Whether the test of a candidate that is not under test starts now, and whether it needs an experiment."""
        from headway.project.prove.start import readiness

        assert standing.candidate is not None
        return readiness(self, standing, standing.candidate)

    def start_experiment(
        self, task: str, *, policy: str | None = None, share: float | None = None, who: str = ""
    ) -> Entry:
        """Let a candidate decide on a share of the traffic until its test ends; without `share`, on the cheapest."""
        from headway.project.experiment import start_experiment

        return start_experiment(self, task, policy=policy, share=share, who=who)

    def stop_experiment(self, task: str, *, why: str = "stopped", who: str = "") -> Entry:
        """End the running experiment. `why`: "better", "worse", "no difference", "replaced", or any other reason."""
        from headway.project.experiment import stop_experiment

        return stop_experiment(self, task, why=why, who=who)

    def experiment(self, task: str) -> ExperimentState | None:
        """The running experiment of a task, or else its last one; None if there was none."""
        from headway.project.experiment import experiment

        return experiment(self, task)

    def canary(self, policy: str | None = None, *, share: float, task: str | None = None, who: str = "") -> Entry:
        """Let a candidate decide on a share of the traffic; share 0 ends it."""
        from headway.project.promote import canary

        return canary(self, policy, share=share, task=task, who=who)

    def shadow(self, policy: str | None = None, *, task: str | None = None, who: str = "") -> Entry:
        """Mark a candidate as a shadow: it is compared and never acts."""
        from headway.project.promote import shadow

        return shadow(self, policy, task=task, who=who)

    def retire(self, policy: str, *, task: str | None = None, why: str = "", who: str = "") -> Entry:
        """Retire a candidate; it can still be promoted later."""
        from headway.project.promote import retire

        return retire(self, policy, task=task, why=why, who=who)

    def guard(self, task: str, *, who: str = "") -> Entry | None:
        """Take back what acts and is proven worse: restore the previous policy, or end the canary."""
        from headway.project.guard import guard

        return guard(self, task, who=who)

    def rollback(self, task: str, *, to: str | None = None, why: str = "", who: str = "") -> Entry:
        """Make the previous policy (or `to`) current again."""
        from headway.project.promote import rollback

        return rollback(self, task, to=to, why=why, who=who)

    def check_alarm(self, task: str, *, who: str = "") -> Entry | None:
        """The ledger row of a new alarm if the outcomes of what is served have changed; reads only what is new."""
        from headway.project.alarm import check_alarm

        return check_alarm(self, task, who=who)

    def end_alarm(self, task: str, *, why: str, who: str = "") -> Entry | None:
        """End every open alarm of a task; None if there is none."""
        from headway.project.alarm import end_alarm

        return end_alarm(self, task, why=why, who=who)

    def close_alarm(self, task: str, *, who: str = "") -> Entry | None:
        """End the alarms of a task if no other policy was shown to be better since; None if it is too early."""
        from headway.project.guard import close_alarm

        return close_alarm(self, task, who=who)

    def alarms(self, task: str) -> list[Alarm]:
        """Every alarm of a task, oldest first, with the reason why it ended."""
        from headway.project.alarm import alarms

        return alarms(self, task)

    def fold(self, task: str) -> str | None:
        """Online tasks: fold settled rows into the current policy and publish a snapshot; its reference, if new."""
        from headway.project.learn import fold

        return fold(self, task)

    # -- imported history

    def import_file(self, path: Path | str, **options: Unpack[ImportOptions]) -> ImportReport:
        """Import external history, idempotently; values that the file does not have stay unknown.

        project.import_file("training-buffer.jsonl")                        # the format is recognised
        project.import_file("log.csv", task="route", columns={"action": "model", "reward": "score", "propensity": "p"})
        project.import_file("log.jsonl", dry_run=True)                      # only the report
        """
        from headway.project.data.import_file import import_file

        return import_file(self, Path(path), **options)

    def leaks(self, task: str, *, mined: bool = False) -> Leaks:
        """Fields of the settled decisions that reveal the outcome, and other causes of optimistic results."""
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
        """Write the input of `learn` to a file: one JSON object per row, without leaky fields."""
        from headway.project.data.transform import transform

        return transform(self, task, out, mined=mined, trust=trust, overwrite=overwrite, progress=progress)

    # -- delete

    def erase(
        self,
        wanted: DeletionFilter,
        *,
        dry_run: bool = False,
        rewrite: bool = True,
        waiting: Waiting | None = None,
    ) -> DeletionReport:
        """Delete decisions, or the signals of one rater, permanently.

        project.erase(DeletionFilter(rater="ann"))
        project.erase(DeletionFilter(before=time.time() - 90 * 86_400, task="route"), dry_run=True)
        """
        from headway.project.data.erase import erase

        return erase(self, wanted, dry_run=dry_run, rewrite=rewrite, waiting=waiting)

    def retain(self, *, dry_run: bool = False) -> DeletionReport | None:
        """Delete rows older than `[store] keep_days`; None if that is not set or no row is that old.

        Refuses if no decision would remain: more likely, the clock is wrong.
        """
        from headway.project.data.erase import retain

        return retain(self, dry_run=dry_run)

    # -- read

    def explain(self, decision: str) -> Explanation:
        """How a decision was made: policy, reason, probabilities and outcome."""
        from headway.project.inspect import explain

        return explain(self, parse_decision_id(decision))

    def replay(self, decision: str) -> Replay:
        """Replay a decision with the same policy and seed, and compare; or report what is missing."""
        from headway.project.inspect import replay

        return replay(self, parse_decision_id(decision))

    def rank(
        self, task: str, candidates: Iterable[Offer] | None = None, text: str = "", **situation: Any
    ) -> list[Ranked]:
        """Candidates in order of predicted reward, with the uncertainty of each; nothing is logged."""
        from headway.project.rank import rank

        return rank(self, task, candidates, text, **situation)

    def latest_situation(self, task: str, reader: Reader = OWNER) -> Decision | None:
        """The latest decision of a ranking task, whose state `rank` and `score` assume where none is given."""
        from headway.project.rank import latest_situation

        return latest_situation(self, task, reader)

    def status(self) -> ProjectStatus:
        """Every task: its current policy, candidate, counts and next step."""
        from headway.project.inspect import status

        return status(self)

    def next_step(self, task: str, policy: str | None = None) -> NextStep:
        """The next command for a task, or for one of its policies."""
        from headway.project.inspect import next_step

        return next_step(self, task, policy)

    def standing(self, task: str, candidate: CandidatePolicy | None = None) -> Standing:
        """The state of a task, for `next_step` and the background loop."""
        from headway.project.prove.standing import standing

        return standing(self, task, candidate)

    def current(self, task: str) -> CurrentPolicy:
        """The current policy by the ledger. Loads no bundle: it may be missing."""
        from headway.project.prove.subject import current_policy

        return current_policy(self, self.settings.task(task))

    def evidence(self, identifier: str) -> Evidence:
        """Stored evidence by its id."""
        from headway.project.prove.subject import stored_evidence

        return stored_evidence(self, identifier)

    def verdict(self, evidence: str) -> Verdict:
        """The gate's present verdict on stored evidence."""
        from headway.project.inspect import verdict_on

        return verdict_on(self, evidence)

    def report(self, evidence: str) -> JudgedEvidence:
        """Stored evidence as text, with the next step."""
        from headway.project.inspect import judge_evidence

        return judge_evidence(self, evidence)

    def raters(self, task: str) -> dict[str, Agreed[int]]:
        """For each signal with several raters: their consensus and each rater's habits."""
        from headway.project.inspect import rater_agreement

        return rater_agreement(self, task)

    def questions(self, task: str, *, count: int, signal: str | None = None) -> list[Question]:
        """The latest decisions to ask a rater about, the most informative first."""
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
