"""Guard what acts: a policy that is shown to be worse than the one it replaced is taken back, automatically.

Both are looked at in every step: the current policy against the one before it, and what acts on a share of the traffic
(a canary, an experiment, a promotion on its way) against the current policy. The current policy is judged by the
decisions since it became current, or since outcomes changed if that is later, with an error budget of its own
(`ALPHA`): so many of the policies that are no worse are ever taken back. Bets are placed again after 256, 512, 1,024, …
decisions, so that harm which begins late is found as well.

While an alarm is open, exploration is wider, and two tests look for something better: this one, and the proof of a new
candidate. If neither has shown a difference after 2,000 decisions, the alarm ends, with the reason in the ledger. It
ends sooner if the current policy is shown to be still the better one and no candidate is being tested.

Nothing happens if only one key's ratings or probabilities that a client sent show it (`gate.contested`):
`Standing.disputed` then asks a person.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

from headway.nouns import Verdict, errors
from headway.observe import draws_of
from headway.project.alarm import alarms, end_alarm
from headway.project.experiment import stop_experiment
from headway.project.promote import retire, rollback as roll_back
from headway.project.prove.change import BEFORE_CHANGE, change_row, last_change
from headway.project.prove.examine import RollbackTest, examine
from headway.project.prove.subject import current_policy, gate_rules, previous_policy, stored_evidence
from headway.project.ramp import step_ramp
from headway.promote import gate
from headway.prove import moved_by

if TYPE_CHECKING:
    from headway.nouns import Alarm
    from headway.project.project.folder import Opened
    from headway.promote import Entry

ALPHA = 0.03  # of the policies that are no worse than the one before, how many are ever taken back
ALPHA_AFTER_ALARM = 0.05  # the same after an alarm: at most one in twenty tasks has a false one in 100,000 decisions
MOST_DECISIONS = 2_000  # after an alarm without a verdict
LEAST_DECISIONS = 400  # after an alarm, before the current policy can be called still better
_ALIKE = 2.5  # standard errors by which two actions may have changed differently
_LEAST = 30  # rows of an action before and after the change, to say how it changed
_TRIES = 5  # a policy that learns as it decides may publish a snapshot between the look and the rollback


def guard(project: Opened, task: str, *, who: str = "") -> Entry | None:
    """Take back what acts and is proven worse: restore the previous policy, or end the canary or experiment.

    A promotion on its way takes its next step here, or is complete.

    Actions of several heads are proven in a world: their log has no probabilities of the actions that were not drawn.
    Replies are judged by votes: another policy would have written another text.
    """
    if project.settings.task(task).traits.judged == "world":
        return None
    return _guard_current(project, task, who=who) or _guard_share(project, task, who=who)


def _guard_current(project: Opened, task: str, *, who: str) -> Entry | None:
    settings = project.settings.task(task)
    change = project.ledger.last(task, "promote", "rollback")
    if change is None or settings.unit == "episode":  # no episode was drawn between these two policies
        return None
    alarmed = last_change(project, task)
    since = max(change.at, alarmed)
    if change.kind == "promote":
        before, digest = previous_policy(project, settings)
    elif since > change.at:  # outcomes changed since the rollback: the policy that it took back is no choice
        body = project.servings.body(settings)
        before = project.servings.baseline_ref(body)
        digest = project.servings.baseline_digest(before, body)
    else:
        return None
    current = current_policy(project, settings)
    if digest == current.digest:
        return None
    test = RollbackTest(since, ALPHA if since > alarmed else ALPHA_AFTER_ALARM)
    verdict = _outcomes_on(project, current.ref, before, task, rollback=test)
    if verdict is None or not _condemned(verdict, gate_rules(settings)):
        return None
    for _ in range(_TRIES - 1):
        try:
            return _take_back(project, task, before, verdict, who=who)
        except errors.Conflict:
            if project.ledger.last(task, "promote", "rollback") != change:
                raise
    return _take_back(project, task, before, verdict, who=who)


def _take_back(project: Opened, task: str, to: str, verdict: Verdict, *, who: str) -> Entry:
    assert verdict.evidence is not None
    why = f"automatic: {' '.join(verdict.reasons)}"
    return roll_back(project, task, to=to, why=why, who=who, evidence_id=verdict.evidence.id)


def _guard_share(project: Opened, task: str, *, who: str) -> Entry | None:
    heads = project.ledger.heads(task)
    acting = heads.canary or heads.experiment
    if acting is None:
        return None
    if acting.ramp is not None:
        return step_ramp(project, task, who=who)
    verdict = _outcomes_on(project, acting.policy, "current", task)
    if verdict is None or not _condemned(verdict, gate_rules(project.settings.task(task))):
        return None
    assert verdict.evidence is not None
    if heads.experiment is not None:
        stop_experiment(project, task, why="worse", who=who)
    why = f"automatic: {' '.join(verdict.reasons)}"
    return retire(project, acting.policy, task=task, why=why, who=who, evidence_id=verdict.evidence.id)


def _condemned(verdict: Verdict, rules: gate.GateRules) -> bool:
    """Whether a policy is proven worse, and not by what only a person may accept."""
    evidence = verdict.evidence
    return verdict.state == "worse" and evidence is not None and not gate.contested(evidence, rules)


def _outcomes_on(
    project: Opened, policy: str, against: str, task: str, *, rollback: RollbackTest | None = None
) -> Verdict | None:
    """What the outcomes of its decisions say about a policy that acts; None while they cannot say anything.

    Of a reply task: what the votes say, which may be read at any time.
    """
    outcomes = project.settings.task(task).traits.judged != "votes"
    try:
        return examine(project, policy, against=against, task=task, outcomes=outcomes, rollback=rollback).verdict
    except errors.InvalidInput as error:
        if error.code not in errors.NOTHING_TO_READ:
            raise
        return None


# -- the end of an alarm


def close_alarm(project: Opened, task: str, *, who: str = "") -> Entry | None:
    """End the open alarms of a task if no other policy was shown to be better since; None if it is too early."""
    opened = [alarm for alarm in alarms(project, task) if alarm.open]
    if not opened:
        return None
    order = draws_of(project.query.frame(task))
    since = int((order.at > opened[0].at * 1e6).sum())
    why = f"no policy was shown to be better within {MOST_DECISIONS:,} decisions" if since >= MOST_DECISIONS else ""
    if not why and since >= LEAST_DECISIONS:
        why = _still_better(project, task)
    if not why:
        return None
    alike = _changed_alike(project, order.seq[: order.mature()].tolist(), opened[0])
    return end_alarm(project, task, why=f"{alike}; {why}" if alike else why, who=who)


def _still_better(project: Opened, task: str) -> str:
    """In words, if the current policy is better than the one before since the alarm, and no candidate is tested."""
    changed = change_row(project, task)
    if any(test.n > changed for test in project.ledger.tests(task)):
        return ""
    current = current_policy(project, project.settings.task(task))
    identifier = project.ledger.latest_evidence(task, current.digest)
    evidence = None if identifier is None else stored_evidence(project, identifier)
    if evidence is None or not evidence.counts.get(BEFORE_CHANGE) or evidence.statistic <= evidence.threshold:
        return ""
    return f"the current policy is still better than {evidence.against}"


def _changed_alike(project: Opened, seqs: list[int], alarm: Alarm) -> str:
    """In words, if all actions changed by the same amount, as far as their rows can tell."""
    before: dict[str, list[float]] = {}
    after: dict[str, list[float]] = {}
    for row in project.query.outcomes(seqs):
        if row.reward is not None:
            part = before if row.decision.seq < alarm.from_decision else after
            part.setdefault(row.decision.action, []).append(row.reward)
    names = [name for name in sorted(before) if min(len(before[name]), len(after.get(name, ()))) >= _LEAST]
    if len(names) < 2:
        return ""
    moved = {name: moved_by(before[name], after[name]) for name in names}
    changes = [change for change, _ in moved.values()]
    spread = _ALIKE * sqrt(sum(error**2 for _, error in moved.values()))
    if max(changes) - min(changes) > spread or max(map(abs, changes)) < spread:
        return ""
    listed = ", ".join(f"{name} {_mean(before[name]):.2f} → {_mean(after[name]):.2f}" for name in names)
    return f"all actions changed alike ({listed})"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
