"""Experiments: a candidate decides on a share of the traffic until its test ends.

The start is a row of the ledger, and that row is the registration: the candidate, the policy that it is tested against,
the share and the first decision. A process that was killed goes on with it. Whoever ends it appends another row; a
promotion, a rollback and a new candidate end it too. The test is valid at every look, so an experiment has no horizon
of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headway.nouns import ENDINGS, ExperimentEnding, ExperimentState, VerdictCost, VerdictForecast, errors
from headway.project.prove.cost import arrival_rate, verdict_cost, with_forecast
from headway.project.prove.subject import candidate_policy, current_policy, gate_rules, most_decisions, stored_evidence
from headway.project.publish import new_entry, record_together
from headway.promote import gate

if TYPE_CHECKING:
    from headway.nouns import Verdict
    from headway.project.project.folder import Opened
    from headway.promote import CandidatePolicy, CurrentPolicy, Entry
    from headway.settings import TaskSettings


def start_experiment(
    project: Opened, task: str, *, policy: str | None = None, share: float | None = None, who: str = ""
) -> Entry:
    """Let a candidate decide on a share of the traffic until its test ends; without `share`, on the cheapest.

    The experiment that is running already is returned as it is; one with another policy ends as "replaced".
    """
    settings = project.settings.task(task)
    heads = project.ledger.heads(task)
    candidate = candidate_policy(project, policy, task, heads)
    current = current_policy(project, settings, heads)
    _check(project, settings, candidate, current, share)
    running = heads.experiment
    if running is not None and running.policy_hash == candidate.digest:
        if share is None or share == running.share:
            return running
        raise errors.Conflict(
            f"The experiment with {running.policy} runs on {running.share:.0%} of {task!r}, not {share:.0%}.",
            code="experiment_running",
            hint=f"A running experiment keeps its share. End it first: headway experiment stop {task}",
        )
    detail = _registration(project, settings, candidate, share)
    start = new_entry(
        project,
        task,
        "experiment",
        candidate.ref,
        candidate.digest,
        expects=current.expects,
        why=f"decides on {detail['share']:.0%} of the traffic until its test ends",
        who=who,
        detail=detail,
    )
    if running is None:
        return record_together(project, start)[0]
    end = ending(project, running, "replaced", f"{candidate.ref} takes its place", who)
    return record_together(project, end, start)[1]


def _check(
    project: Opened, settings: TaskSettings, candidate: CandidatePolicy, current: CurrentPolicy, share: float | None
) -> None:
    task = settings.name
    if settings.kind != "choice" or task in project.servings.compared:
        compared = "compares replies blind" if task in project.servings.compared else f"is {settings.kind}"
        raise errors.InvalidInput(
            f"An experiment needs a choice task; {task!r} {compared}.",
            code="bad_kind",
            hint=f"Prove {candidate.ref} and promote it: headway prove {task}",
        )
    if share is not None and not 0.0 < share <= settings.most_share:
        raise errors.InvalidInput(
            f"The share of an experiment is {share!r}, expected above 0 and at most {settings.most_share:g}.",
            code="bad_share",
            hint="Omit it for the cheapest one. most_share in headway.toml sets the largest.",
        )
    if candidate.digest == current.digest:
        raise errors.InvalidInput(
            f"{candidate.ref} is current already: there is nothing to test.",
            code="same_policy",
            hint=f"Learn a new candidate first: headway learn {task}",
        )
    project.servings.pipeline(task, project.servings.body(settings), candidate.ref, candidate.digest)


def _registration(
    project: Opened, settings: TaskSettings, candidate: CandidatePolicy, share: float | None
) -> dict[str, Any]:
    """The detail of the start row; without a plan, the largest share."""
    cost = _cost(project, settings, candidate)
    if share is None:
        share = settings.most_share if cost is None else cost.experiment_share
    needed = None if cost is None else _needed(cost, share)
    return {
        "share": share,
        "from_decision": project.query.last_decision(settings.name),
        "needed": needed,
        "uplift": None if cost is None else cost.uplift,
        "most": most_decisions(settings),
    }


def _cost(project: Opened, settings: TaskSettings, candidate: CandidatePolicy) -> VerdictCost | None:
    """What a verdict costs; None while there is nothing to plan from."""
    try:
        return verdict_cost(project, settings.name, policy=candidate.ref)
    except errors.InvalidInput as error:
        if error.code not in ("no_pilot", "no_evidence", "propensity_unknown", "bad_uplift"):
            raise
        return None


def _needed(cost: VerdictCost, share: float) -> int | None:
    """The decisions for this share: of the nearest share that was planned."""
    nearest = min((planned for planned in cost.by_share if planned > 0.0), key=lambda planned: abs(planned - share))
    return cost.by_share[nearest]


def stop_experiment(project: Opened, task: str, *, why: str = "stopped", who: str = "") -> Entry:
    """End the running experiment. `why`: "better", "worse", "no difference", "replaced", or any other reason."""
    project.settings.task(task)
    running = project.ledger.experiment(task)
    if running is None:
        raise errors.Conflict(
            f"No experiment is running on {task!r}.",
            code="no_experiment",
            hint=f"Start one: headway experiment start {task}",
        )
    ended: ExperimentEnding = next((known for known in ENDINGS if known == why), "stopped")
    return record_together(project, ending(project, running, ended, why or ended, who))[0]


def ending(project: Opened, running: Entry, ended: ExperimentEnding, why: str, who: str) -> Entry:
    """The row that ends an experiment, not written yet."""
    detail = {**running.detail, "share": 0.0, "acted_on": running.share, "since": running.at, "ended": ended}
    detail["to_decision"] = project.query.last_decision(running.task)
    return new_entry(
        project,
        running.task,
        "experiment",
        running.policy,
        running.policy_hash,
        why=why,
        who=who,
        detail=detail,
    )


def experiment(project: Opened, task: str) -> ExperimentState | None:
    """The running experiment of a task, or else the last one; None if there was none."""
    settings = project.settings.task(task)
    heads = project.ledger.heads(task)
    last = heads.experiment or project.ledger.last(task, "experiment")
    if last is None:
        return None
    state = _state(project, last, against=current_policy(project, settings, heads).ref)
    if heads.experiment is None:
        return _ended(project, last, state)
    verdict = _verdict(project, settings, state)
    planned = last.detail["needed"]
    if verdict is not None or planned is None or planned <= state.decisions:
        return _judged(state, verdict)
    left, per_day = planned - state.decisions, arrival_rate(project, task)
    return replace(
        state, forecast=VerdictForecast.of(left, left, left, seen=left, unit=f"{state.unit}s", per_day=per_day)
    )


def _state(project: Opened, entry: Entry, against: str) -> ExperimentState:
    detail = entry.detail
    return ExperimentState(
        task=entry.task,
        policy=entry.policy,
        policy_hash=entry.policy_hash,
        against=against,
        share=float(detail.get("acted_on", detail["share"])),
        since=float(detail.get("since", entry.at)),
        who=entry.who,
        from_decision=int(detail["from_decision"]),
        decisions=project.query.count_units(
            entry.task, after=int(detail["from_decision"]), upto=detail.get("to_decision")
        ),
        uplift=detail["uplift"],
        unit=project.settings.task(entry.task).unit,
        most=int(detail["most"]),
    )


def _ended(project: Opened, last: Entry, state: ExperimentState) -> ExperimentState:
    """Ended by a row of its own, or by the promotion, rollback, retirement or new candidate that came first."""
    if "ended" in last.detail:
        return replace(state, ended=last.detail["ended"], ended_at=last.at)
    rows = project.ledger.entries(last.task, "promote", "rollback", "retire", "candidate", after=last.seq)
    by = next(row for row in rows if _ends(row, last))
    ended: ExperimentEnding = "replaced"
    if by.policy_hash == last.policy_hash:
        ended = "better" if by.kind == "promote" else "worse" if by.kind == "retire" else "replaced"
    return replace(state, ended=ended, ended_at=by.at)


def _ends(row: Entry, start: Entry) -> bool:
    same = row.policy_hash == start.policy_hash
    return row.kind in ("promote", "rollback") or row.kind == ("retire" if same else "candidate")


def _judged(state: ExperimentState, verdict: Verdict | None) -> ExperimentState:
    """With the verdict on its candidate; its estimate only if the verdict shows one."""
    from headway.prove import Page

    if verdict is None or verdict.evidence is None:
        return state
    shown = verdict.evidence.difference if Page.of(verdict).values else None
    waiting = verdict.evidence.waiting
    return replace(
        state,
        waiting=0 if waiting is None else waiting.decisions,
        verdict=verdict.word,
        forecast=verdict.forecast,
        difference=None if shown is None else shown.value,
        interval=None if shown is None else (shown.low, shown.high),
    )


def _verdict(project: Opened, settings: TaskSettings, state: ExperimentState) -> Verdict | None:
    identifier = project.ledger.latest_evidence(settings.name, state.policy_hash)
    if identifier is None:
        return None
    try:
        return with_forecast(project, gate.verdict(stored_evidence(project, identifier), gate_rules(settings)))
    except errors.HeadwayError:
        return None
