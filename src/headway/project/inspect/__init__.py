"""Read-only views: status, next step, explain, replay, rank, verdicts, raters."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from headway.nouns import (
    Decision,
    DrawnAction,
    ExplainedCandidate,
    Explanation,
    NextStep,
    ProjectStatus,
    Replay,
    StoreStatus,
    TaskStatus,
    TaskVerdict,
    VerdictForecast,
    conclusion,
    document,
    errors,
    hook,
    ids,
    most_apart,
    rfc3339,
)
from headway.observe import loads, waiting_signals
from headway.project.alarm import alert_failure, open_alarms
from headway.project.decide.serving import drew
from headway.project.experiment import experiment
from headway.project.inspect.outages import outages
from headway.project.inspect.worth import task_worth
from headway.project.prove.cost import with_forecast
from headway.project.prove.episodes import unit_sentences
from headway.project.prove.finality import changing_outcomes
from headway.project.prove.fitting import unfit_sentences
from headway.project.prove.standing import standing
from headway.project.prove.start import offered
from headway.project.prove.subject import candidate_policy, current_policy, gate_rules, stored_evidence
from headway.project.signal import unread
from headway.promote import Activity, CandidatePolicy, Standing, gate, most_urgent, next_step as step_of

if TYPE_CHECKING:
    from headway.decide import Acted
    from headway.nouns import Evidence, Kind, Verdict
    from headway.observe import Counts
    from headway.project.project.folder import Opened
    from headway.prove import Page
    from headway.settings import TaskSettings

__all__ = [
    "JudgedEvidence",
    "explain",
    "judge_evidence",
    "next_step",
    "replay",
    "status",
    "verdict_on",
]


# -- one decision


def explain(project: Opened, decision: str) -> Explanation:
    """How a decision was made: policy, reason, probabilities and outcome."""
    stored = project.query.decision(ids.parse_decision(decision))
    signals = project.query.signals(stored.id)
    values = {signal.name: signal.value for signal in signals if signal.value is not None}
    again, more = None, dict[str, Any]()
    for _, explains in project.catalogue.usable((kit, path) for kit in project.catalogue for path in kit.explains):
        more |= explains(project, stored)
    if len(more.get("attempts") or ()) > 1:
        values = dict(project.query.values([ids.raw(stored.id)]).get(ids.raw(stored.id), {}))
    if "why" not in more:
        again, gone = _asked_again(project, stored)
        more["why"] = f"not known any more: {gone}" if again is None else again.why
        more["asked_again"] = again is not None
    situation = stored.situation
    return Explanation(
        id=stored.id,
        task=stored.task,
        at=rfc3339(stored.at),
        text=situation.text,
        state=situation.state,
        episode=situation.episode,
        step=situation.step,
        role=situation.role,
        policy=stored.policy,
        policy_hash=stored.policy_hash,
        exploration=stored.exploration,
        source=stored.source,
        draw=stored.draw_id or stored.id,
        assigned=stored.assigned,
        action=stored.action,
        propensity=stored.propensity or None,
        candidates=_candidates(stored, again),
        signals=tuple(signals),
        outcome=project.outcome_now(stored),
        parts=project.rewards(stored.task).parts(values),
        confidence=None if again is None else again.opinion.confidence,
        **more,
    )


def _candidates(decision: Decision, again: Acted | None) -> tuple[ExplainedCandidate, ...]:
    mean = None if again is None else again.opinion.mean
    std = None if again is None else again.opinion.std
    columns = zip_longest(
        decision.candidates,
        decision.probabilities or ((decision.propensity,) if decision.propensity else ()),
        () if mean is None else mean.tolist(),
        () if std is None else std.tolist(),
    )
    return tuple(
        ExplainedCandidate(name=candidate.name, probability=probability, predicted=predicted, std=spread)
        for candidate, probability, predicted, spread in columns
    )


def replay(project: Opened, decision: str) -> Replay:
    """Replay a decision with the same policy and seed, and compare; or report what is missing."""
    stored = project.query.decision(ids.parse_decision(decision))
    replayed, difference, why, gone = _replayed(project, stored)
    exact = replayed.action == stored.action and difference == 0.0 if replayed else None
    return Replay(
        id=stored.id,
        policy=stored.policy,
        policy_hash=stored.policy_hash,
        seed=stored.seed,
        stored=DrawnAction(action=stored.action, propensity=stored.propensity),
        exact=exact,
        gone=gone,
        replayed=replayed,
        why=why,
        difference=difference,
    )


def _replayed(project: Opened, decision: Decision) -> tuple[DrawnAction | None, float, str, str]:
    """(what was drawn again, the greatest difference of a probability, why, what is missing for it)."""
    kind: Kind | None = None
    if not decision.claimed:
        made = loads(project.query.config(decision.config_hash)).get("kind", "choice")
        kind = project.catalogue.all("kinds").get(made)
    if kind is not None and kind.replay:
        try:
            drawn, pairs, why = hook(kind.replay)(project, decision)
        except errors.HeadwayError as error:
            return None, 0.0, "", error.message
        return drawn, max(most_apart(after, before) for after, before in pairs), why, ""
    again, gone = _asked_again(project, decision)
    if again is None:
        return None, 0.0, "", gone
    drawn = DrawnAction(
        action=decision.candidates[again.index].name, propensity=float(again.probabilities[again.index])
    )
    return drawn, most_apart(again.probabilities.tolist(), decision.probabilities), again.why, gone


def _asked_again(project: Opened, decision: Decision) -> tuple[Acted | None, str]:
    """The replay under the stored configuration, or what is missing for it."""
    if decision.claimed:
        known = "only its probabilities were" if decision.propensity_known else "not even its probabilities were"
        return None, f"the decision was made elsewhere; {known} recorded"
    source = decision
    if decision.draw_id and not decision.position:  # an attempt was drawn for itself
        drawn = project.query.find(decision.draw_id)
        if drawn is None:
            return None, f"the draw {decision.draw_id} that it repeats was deleted"
        if drawn.action != decision.action:
            return None, f"it repeats the attempt that followed the draw {decision.draw_id}"
        source = drawn
    body = loads(project.query.config(source.config_hash))
    try:
        pipeline = project.servings.pipeline(source.task, body, *drew(body, source))
        encoder = project.servings.encoder(body["encoder_spec"]).version
        if encoder != body["encoder"]:
            return None, f"the encoder {body['encoder']!r} was replaced by {encoder!r}"
        return pipeline.act(source.situation, source.candidates, source.seed), ""
    except errors.HeadwayError as error:
        return None, error.message


# -- a task, and all of them


def status(project: Opened) -> ProjectStatus:
    """Every task: its current policy, candidate, counts and next step."""
    tasks: list[TaskStatus] = []
    for name in project.tasks():
        try:
            settings = project.settings.task(name)
        except errors.HeadwayError:
            continue  # no longer declared: `data stats` still counts it
        tasks.append(task_status(project, settings))
    database = project.database
    return ProjectStatus(
        folder=str(project.folder),
        store=StoreStatus(engine=database.engine, name=database.name, bytes=database.size()),
        tasks=tuple(tasks),
        next=most_urgent(task.next for task in tasks),
        alert_failure=alert_failure(project),
    )


def task_status(project: Opened, settings: TaskSettings) -> TaskStatus:
    """One task: its current policy, candidate, counts and next step."""
    name = settings.name
    serving = project.servings.of(settings)
    counts = project.query.counts(name)
    ledger = project.ledger
    stands = standing(project, name)
    return TaskStatus(
        task=name,
        kind=settings.kind,
        family=settings.family,
        current=serving.ref,
        current_hash=serving.digest,
        canary=serving.canary or None if stands.canary is not None else None,
        experiment=None if stands.experiment is None else experiment(project, name),
        candidates=tuple(
            entry.policy for entry in ledger.challengers(name) if ledger.state(name, entry.policy_hash) != "current"
        ),
        decisions=counts.decisions,
        unit=settings.unit,
        units=counts.units,
        signals=counts.signals,
        outcomes=dict(counts.by_status),
        sources=dict(counts.by_source),
        until_retrain=stands.until_retrain,
        evidence=_evidence(project, name, stands),
        verdict=_task_verdict(stands),
        next=step_of(offered(project, stands), _activity(counts)),
        kit_missing=stands.kit_missing,
        alarms=tuple(open_alarms(project, name, stands.alarm)),
        outages=tuple(outages(project, name, recent=True)),
        warnings=_warnings(project, name),
        ramp=stands.ramp,
        worth=task_worth(project, name) if counts.decisions else None,
    )


def _warnings(project: Opened, task: str) -> tuple[str, ...]:
    waiting = waiting_signals(project.database, project.query, task)
    how = f"not counted yet: `headway settle {task}` does it, and so does the loop (`headway watch`)."
    behind = [f"{waiting:,} {'signal is' if waiting == 1 else 'signals are'} {how}"] if waiting else []
    unused = unread(project, task, project.query.signal_names(task))
    behind += [*unused, *unit_sentences(project, task), *unfit_sentences(project, task)]
    return (*behind, *changing_outcomes(project, task))


def _task_verdict(stands: Standing) -> TaskVerdict | None:
    """The verdict on the candidate as the doors show it; None without fresh evidence."""
    verdict = stands.verdict
    if verdict is None or verdict.evidence is None:
        return None
    return TaskVerdict(
        word=verdict.word,
        text=conclusion(verdict),
        candidate=verdict.evidence.candidate,
        against=verdict.evidence.against,
        more=verdict.more,
        forecast=verdict.forecast,
        evidence=verdict.evidence.id,
    )


def task_evidence(project: Opened, task: str) -> str | None:
    """The evidence that speaks for a task: on its candidate, or else on its last change, or else the newest.

    The guard looks at the current policy all the time, so the newest evidence is often not what a person asks for.
    """
    return _evidence(project, task, standing(project, task))


def _evidence(project: Opened, task: str, stands: Standing) -> str | None:
    verdict = _task_verdict(stands)
    if verdict is not None:
        return verdict.evidence
    current = stands.acting
    made = None if current is None else current.evidence_id
    return made or project.ledger.latest_evidence(task)


def next_step(project: Opened, task: str, policy: str | None = None) -> NextStep:
    """The next command for a task, or for one of its policies."""
    candidate = None if policy is None else candidate_policy(project, policy, task)
    stands = offered(project, standing(project, task, candidate))
    return step_of(stands, _activity(project.query.counts(task)))


def _activity(counts: Counts) -> Activity:
    return Activity(decisions=counts.decisions, signals=counts.signals, pending=counts.by_status.get("pending", 0))


# -- evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEvidence:
    """Stored evidence and the gate's present verdict, as text.

    `current`: its candidate decides now. `fresh`: it compares with the present current policy.
    """

    evidence: Evidence = field(repr=False)
    page: Page = field(repr=False)
    state: str
    current: bool
    fresh: bool
    next: NextStep  # with this candidate
    more: int | None = None  # rows that are still needed, about
    forecast: VerdictForecast | None = None  # how many more, and how long that takes

    @property
    def estimated(self) -> bool:
        """Whether its numbers mean anything: no data check disowns them."""
        return bool(self.page.values)

    def document(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        import msgspec

        names = ("id", "task", "candidate", "candidate_hash", "against", "against_hash", "n")
        return {
            **msgspec.to_builtins(self.page),
            **{name: getattr(self.evidence, name) for name in names},
            "difference": asdict(self.evidence.difference) if self.estimated else None,
            "bounds": self.evidence.bounds if self.estimated else None,
            "needed": 0 if self.state == "pass" else self.more,
            "forecast": None if self.forecast is None else document(self.forecast),
            "estimated": self.estimated,
            "current": self.current,
            "fresh": self.fresh,
            "next": asdict(self.next),
        }


def judge_evidence(project: Opened, evidence: str) -> JudgedEvidence:
    """Stored evidence as text, with the next step."""
    from headway.prove import Page

    stored = stored_evidence(project, evidence)
    settings = project.settings.task(stored.task)
    current = current_policy(project, settings)
    verdict = with_forecast(project, gate.verdict(stored, gate_rules(settings)))
    candidate = CandidatePolicy(task=stored.task, ref=stored.candidate, digest=stored.candidate_hash)
    return JudgedEvidence(
        evidence=stored,
        page=Page.of(verdict),
        state=verdict.state,
        current=stored.candidate_hash == current.digest,
        fresh=stored.against_hash == current.digest,
        next=step_of(standing(project, stored.task, candidate)),
        more=verdict.more,
        forecast=verdict.forecast,
    )


def verdict_on(project: Opened, evidence: str) -> Verdict:
    """The gate's present verdict on stored evidence; with the default rules if its task is no longer declared."""
    stored = stored_evidence(project, evidence)
    settings = project.settings
    declared = stored.task in settings.tasks or not settings.declared
    judged = gate.verdict(stored, gate_rules(settings.task(stored.task)) if declared else None)
    return with_forecast(project, judged) if declared else judged


# -- raters
