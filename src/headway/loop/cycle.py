"""One turn of the loop for one task: settle → guard → learn → start a test → prove → act, or wait.

One candidate is tested at a time. It is held until it is better, worse, or no difference is likely to be shown; what is
learned meanwhile is a shadow, and the newest shadow is the next candidate.

Every step reads what it needs from ledger and store and is safe to repeat: learning from the same rows gives the same
bundle, proving the same evidence, and a promotion names the policy that it expects to be current. A cycle that was
killed is run again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headway.loop.due import Due, Marks, question, window_of
from headway.nouns import Progress, conclusion, errors
from headway.promote import next_step

if TYPE_CHECKING:
    from headway.nouns import ExperimentEnding, NextStep, Verdict
    from headway.project import Project
    from headway.promote import CandidatePolicy, Standing


WHO = "loop"  # the name in the ledger rows of the loop
_ENDINGS: Mapping[str, ExperimentEnding] = {
    "pass": "better", "worse": "worse", "no difference": "no difference", "refused": "stopped",
}  # fmt: skip
_CURED = frozenset({"speaking_rows", "ess", "row_share", "weight_share"})  # overlap checks that a canary can fix


@dataclass(slots=True, kw_only=True)
class CycleResult:
    """The result of one cycle."""

    task: str
    settled: int = 0
    rolled_back: str = ""  # which policy was replaced, and why
    learned: str = ""
    proved: str = ""
    promoted: str = ""
    canary: str = ""
    experiment: str = ""  # what started or ended
    next: NextStep | None = None  # what waits for the user: a promotion, or an experiment to start
    verdict: Verdict | None = None
    notes: list[str] = field(default_factory=list)
    synthetic: int = 0

    @property
    def waits(self) -> bool:
        return self.next is not None

    @property
    def summary(self) -> str:
        """What happened, in sentences."""
        promoted = f"{self.promoted} is now current (undo: headway rollback {self.task})" if self.promoted else ""
        parts = [
            self.rolled_back,
            f"learned {self.learned}" if self.learned else "",
            "" if self.verdict is None else conclusion(self.verdict),
            promoted,
            self.canary,
            self.experiment,
            "" if self.next is None else f"waiting for you: {self.next.command}",
            *self.notes,
        ]
        return " ".join(_sentence(part) for part in parts if part) or "nothing changed"

    def body(self) -> dict[str, Any]:
        """The job's result, as JSON."""
        verdict = self.verdict
        return {
            "task": self.task,
            "summary": self.summary,
            "settled": self.settled,
            "rolled_back": self.rolled_back,
            "learned": self.learned,
            "proved": self.proved,
            "verdict": None if verdict is None else verdict.state,
            "reasons": [] if verdict is None else list(verdict.reasons),
            "evidence": None if verdict is None or verdict.evidence is None else verdict.evidence.id,
            "promoted": self.promoted,
            "canary": self.canary,
            "experiment": self.experiment,
            "waits": self.waits,
            "notes": self.notes,
            "synthetic": self.synthetic,
        }


def _sentence(text: str) -> str:
    """With a full stop, and a capital unless it begins with the name of a policy."""
    first = text[:1] if "@" in text.partition(" ")[0] else text[:1].upper()
    return f"{first}{text[1:].rstrip('.')}."


def cycle(project: Project, task: str, work: Due, marks: Marks, progress: Progress | None = None) -> CycleResult:
    """Do what is due for a task, in the order of the loop."""
    done = CycleResult(task=task, settled=project.settle(task), synthetic=project.query.count_source(task, "synthetic"))
    standing = project.standing(task)
    if work.guard:
        _guard(project, standing, marks, done, progress)
        standing = project.standing(task)
    if work.turn and standing.turn:
        done.notes.append(f"{project.next_candidate(task, who=WHO)} is the candidate now")
        standing = project.standing(task)
    if work.learn and not standing.proven:  # the guard may just have judged the candidate
        shadow, more = standing.under_test, _carry_on(project, task)
        done.learned = project.learn(task, progress=progress, shadow=shadow, who=WHO, **more)
        standing = project.standing(task)
    if work.prove and standing.candidate is not None:
        _test(project, standing, marks, done, progress)
        standing = project.standing(task)
    _act(project, standing, done)
    return done


def _carry_on(project: Project, task: str) -> dict[str, Any]:
    """A training that was killed goes on, if it was of the same rows; its family sees to that."""
    interruptible = project.catalogue.family(project.settings.task(task).family).interruptible
    return {"resume": True} if interruptible else {}


def _guard(project: Project, standing: Standing, marks: Marks, done: CycleResult, progress: Progress | None) -> None:
    if progress is not None:
        progress("guard", 0, None)
    entry = project.guard(done.task, who=WHO)
    if marks.window != window_of(standing):
        marks.window, marks.window_start = window_of(standing), standing.settled
    marks.guarded = standing.settled
    share = standing.canary or standing.experiment
    if share is not None:
        marks.proved[f"{share.policy_hash} {standing.current.digest}"] = standing.judged
    if entry is None:
        ended = project.close_alarm(done.task, who=WHO)
        if ended is not None:
            done.notes.append(f"the alarm ended: {ended.why}")
        disputed = project.standing(done.task)
        if disputed.disputed is not None:
            done.notes.append(f"asks you: {next_step(disputed)}")
        return
    if entry.kind in ("canary", "promote"):
        done.canary = f"{entry.policy} {entry.why}" if entry.kind == "canary" else ""
        done.promoted = entry.policy if entry.kind == "promote" else ""
        return
    if entry.kind == "retire":
        what = "experiment with" if standing.canary is None else "canary" if standing.ramp is None else "promotion of"
        done.rolled_back = f"the {what} {entry.policy} ended, {entry.why}"
    else:
        done.rolled_back = f"rolled back to {entry.policy}, {entry.why}"
    assert entry.evidence_id is not None, "a guard acts on evidence that it has stored"
    done.verdict = project.verdict(entry.evidence_id)
    done.proved = entry.policy if entry.kind == "retire" else standing.current.ref


def _test(project: Project, standing: Standing, marks: Marks, done: CycleResult, progress: Progress | None) -> None:
    """Look at the candidate under test, or start its test if it is worth one."""
    candidate = standing.candidate
    assert candidate is not None
    if standing.unprovable is not None:
        done.notes.append(f"{candidate.ref} cannot be proven yet: {standing.unprovable.message}")
        return
    guarded = marks.proved.get(question(standing)) == standing.judged and standing.verdict is not None
    marks.proved[question(standing)] = standing.judged
    if guarded:  # the guard has just judged the same rows
        done.verdict, done.proved = standing.verdict, candidate.ref
        return
    if not standing.tested and not _starts(project, standing, candidate, done):
        return
    try:
        done.verdict = project.prove(candidate.ref, task=done.task, progress=progress, who=WHO)
    except errors.InvalidInput as error:  # an experiment or an alarm has only begun
        if error.code not in errors.NOTHING_TO_READ:
            raise
        done.notes.append(f"{candidate.ref} cannot be proven yet: {error.message}")
        return
    done.proved = candidate.ref


def _starts(project: Project, standing: Standing, candidate: CandidatePolicy, done: CycleResult) -> bool:
    """Whether the test of a candidate starts now; with an experiment if the log alone does not decide in time."""
    ready = project.readiness(standing)
    if not ready.now:
        done.notes.append(f"not tested: {ready.why}")
        return False
    if ready.experiment and standing.canary is None:
        if project.settings.task(done.task).experiments == "ask":
            done.next = project.next_step(done.task)
            return False  # a test by the log alone would spend its error budget and not decide in time
        _experiment(project, candidate, done)
    return True


def _can_draw(project: Project, standing: Standing) -> bool:
    """Whether decisions that Headway draws can replace a client's claims: it draws some already."""
    settings, claims = project.settings.task(standing.task), standing.evidence and standing.evidence.claims
    free = standing.experiment is None and standing.canary is None and not settings.canary
    return free and settings.experiments == "auto" and settings.kind == "choice" and bool(claims and claims.drawn)


def _experiment(project: Project, candidate: CandidatePolicy, done: CycleResult) -> None:
    entry = project.start_experiment(done.task, policy=candidate.ref, who=WHO)
    done.experiment = f"{candidate.ref} decides on {entry.share:.0%} of the traffic until its test ends"


def _act(project: Project, standing: Standing, done: CycleResult) -> None:
    """Act on the verdict: promote, end the experiment, start a canary, or wait."""
    candidate = standing.candidate
    if candidate is None or standing.ramp is not None:
        return
    if standing.acts:
        try:
            entry = project.promote(candidate.ref, because=standing.verdict, task=done.task, who=WHO)
        except (errors.Conflict, errors.GateRefused) as error:  # the ledger changed meanwhile: the next cycle sees it
            done.notes.append(f"not promoted: {error.message}")
            return
        done.verdict, done.proved = standing.verdict, candidate.ref
        done.promoted = entry.policy if entry.kind == "promote" else ""
        done.canary = f"{entry.policy} {entry.why}" if entry.kind == "canary" else ""
        return
    if standing.waits:
        done.next, done.verdict, done.proved = next_step(standing), standing.verdict, candidate.ref
    if standing.promote == "auto" and standing.asks and _can_draw(project, standing):
        _experiment(project, candidate, done)
        return
    running = standing.experiment is not None and standing.experiment.policy_hash == candidate.digest
    if standing.decided and standing.verdict is not None and running:
        ended = _ENDINGS[standing.verdict.state]
        project.stop_experiment(done.task, why=ended, who=WHO)
        done.experiment = f"the experiment with {candidate.ref} ended: {ended}"
    elif standing.canary_share and standing.verdict is not None and promising(standing.verdict):
        _start_canary(project, standing, done)


def promising(verdict: Verdict) -> bool:
    """Whether a canary makes sense: the candidate seems better, and only a lack of overlap prevents a proof."""
    evidence = verdict.evidence
    if evidence is None or evidence.difference.value <= evidence.margin or verdict.state in ("worse", "no difference"):
        return False
    if verdict.state == "refused":
        blocked = {diagnostic.name for diagnostic in evidence.diagnostics if diagnostic.refuses}
        return bool(blocked) and blocked <= _CURED and all(guard.ok or guard.undecided for guard in evidence.guards)
    return True


def _start_canary(project: Project, standing: Standing, done: CycleResult) -> None:
    candidate, canary = standing.candidate, standing.canary
    assert candidate is not None
    if canary is not None:
        if canary.policy_hash == candidate.digest:
            return
        project.retire(canary.policy, task=done.task, why=f"{candidate.ref} takes its place", who=WHO)
    share = standing.canary_share
    project.canary(candidate.ref, share=share, task=done.task, who=WHO)
    done.canary = f"{candidate.ref} decides on {share:.0%} of the traffic (canary)"
