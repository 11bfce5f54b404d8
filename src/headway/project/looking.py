"""Looking without touching: explain, replay, rank, status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from headway.nouns.errors import HeadwayError, InvalidInput
from headway.nouns.records import Decision, Situation
from headway.observe.rows import loads
from headway.project.inputs import Offer, checked_state, checked_text

if TYPE_CHECKING:
    from headway.decide.acting import Acted
    from headway.project.facade import Project

__all__ = ["explain", "judged", "rank", "replay", "status"]


def explain(project: Project, identifier: str) -> dict[str, Any]:
    decision = project.query.decision(identifier)
    project.settle(decision.task)
    outcome = project.query.outcome(decision)
    signals = project.query.signals(identifier)
    live = {each.name: each.value for each in signals if each.value is not None}
    found: dict[str, Any] = {
        "id": decision.id,
        "task": decision.task,
        "at": _time(decision.at),
        "text": decision.situation.text,
        "state": dict(decision.situation.state),
        "episode": decision.situation.episode,
        "step": decision.situation.step,
        "role": decision.situation.role,
        "policy": decision.policy,
        "policy_hash": decision.policy_hash,
        "exploration": decision.exploration,
        "source": decision.source,
        "draw": decision.draw_id or decision.id,
        "assigned": decision.assigned,
        "action": decision.action,
        "propensity": decision.propensity if decision.propensity_known else None,
        "candidates": [
            {"name": each.name, "probability": probability}
            for each, probability in zip_longest(decision.candidates, decision.probabilities)
        ],
        "signals": [asdict(each) for each in signals],
        "outcome": {"status": outcome.status, "reward": outcome.reward, "clipped": outcome.clipped},
        "parts": project.rewards(decision.task).parts(live),
    }
    again, gone = _asked_again(project, decision)
    if again is None:
        found["why"] = f"not known any more: {gone}"
        return found
    found["why"] = again.why
    found["confidence"] = again.opinion.confidence
    if again.opinion.mean is not None:
        for row, mean in zip(found["candidates"], again.opinion.mean.tolist(), strict=True):
            row["predicted"] = mean
    if again.opinion.std is not None:
        for row, std in zip(found["candidates"], again.opinion.std.tolist(), strict=True):
            row["std"] = std
    return found


def replay(project: Project, identifier: str) -> dict[str, Any]:
    """`exact` is True when action and probabilities come out bit for bit; None when something of it is gone."""
    decision = project.query.decision(identifier)
    found: dict[str, Any] = {
        "id": decision.id,
        "policy": decision.policy,
        "policy_hash": decision.policy_hash,
        "seed": decision.seed,
        "stored": {"action": decision.action, "propensity": decision.propensity},
    }
    again, gone = _asked_again(project, decision)
    if again is None:
        return {**found, "exact": None, "gone": gone}
    action = decision.candidates[again.index].name
    same = action == decision.action and tuple(again.probabilities.tolist()) == decision.probabilities
    return {
        **found,
        "exact": same,
        "gone": "",
        "replayed": {"action": action, "propensity": float(again.probabilities[again.index])},
        "why": again.why,
    }


def _asked_again(project: Project, decision: Decision) -> tuple[Acted | None, str]:
    """The same question to the same policy under the configuration of that time, or what of it is gone."""
    if decision.exploration == "elsewhere":
        known = "only its probabilities were" if decision.propensity_known else "not even its probabilities were"
        return None, f"the decision was made elsewhere; {known} recorded"
    source = decision
    if decision.draw_id:
        drawn = project.query.find(decision.draw_id)
        if drawn is None:
            return None, f"the draw {decision.draw_id} that it repeats was deleted"
        source = drawn
    body = loads(project.query.config(source.config_hash))
    try:
        pipeline = project.servings.pipeline(source.task, body, source.policy, source.policy_hash)
        encoder = project.servings.encoder(body["encoder_spec"]).version
        if encoder != body["encoder"]:
            return None, f"the encoder {body['encoder']!r} was replaced by {encoder!r}"
        return pipeline.act(source.situation, source.candidates, source.seed), ""
    except HeadwayError as error:
        return None, error.message


def rank(
    project: Project,
    task: str,
    candidates: Iterable[Offer] | None,
    text: str,
    *,
    state: dict[str, Any] | None = None,
    role: str = "",
    policy: str | None = None,
) -> list[dict[str, Any]]:
    settings = project.settings.task(task)
    offered = project.offers.candidates(task, candidates, settings.actions)
    situation = Situation(task=task, text=project.redact(checked_text(text)), state=checked_state(state), role=role)
    ref, digest = project.servings.resolve(settings, policy or "current")
    pipeline = project.servings.pipeline(task, project.servings.body(settings), ref, digest)
    opinion = pipeline.act(situation, offered, 0).opinion
    if opinion.mean is None:
        raise InvalidInput(
            f"{ref} does not predict rewards, so it cannot score or rank.",
            code="no_prediction",
            hint=f"Learn and promote a policy first: headway learn {task}",
        )
    std = opinion.std.tolist() if opinion.std is not None else [None] * len(offered)
    rows = [
        {"name": each.name, "predicted": mean, "std": spread, **each.features}
        for each, mean, spread in zip(offered, opinion.mean.tolist(), std, strict=True)
    ]
    return sorted(rows, key=lambda row: -row["predicted"])


def status(project: Project) -> dict[str, Any]:
    tasks = []
    for name in project.tasks():
        try:
            settings = project.settings.task(name)
        except HeadwayError:
            continue  # recorded once, no longer declared: `data stats` still counts it
        project.settle(name)
        serving = project.servings.of(settings)
        counts = project.query.counts(name)
        ledger = project.ledger
        candidates = [each for each in ledger.challengers(name) if ledger.state(name, each.policy_hash) != "current"]
        latest = project.ledger.latest_evidence(name)
        tasks.append(
            {
                "task": name,
                "kind": settings.kind,
                "family": settings.family,
                "current": serving.ref,
                "current_hash": serving.digest,
                "canary": serving.canary or None,
                "candidates": [each.policy for each in candidates],
                "decisions": counts.decisions,
                "signals": counts.signals,
                "outcomes": dict(counts.by_status),
                "sources": dict(counts.by_source),
                "until_retrain": _until_retrain(project, name),
                "evidence": latest,
            }
        )
    database = project.database
    return {
        "folder": str(project.folder),
        "store": {"engine": database.engine, "name": database.name, "bytes": database.size()},
        "tasks": tasks,
    }


def judged(project: Project, identifier: str) -> dict[str, Any]:
    """A stored evidence as the gate judges it today, in words; `fresh`: it speaks about who is current now."""
    import msgspec

    from headway.project.judging import gate_rules, live, stored_evidence
    from headway.promote import gate
    from headway.prove.page import page_of

    evidence = stored_evidence(project, identifier)
    settings = project.settings.task(evidence.task)
    current = live(project, settings)
    page = page_of(gate.verdict(evidence, gate_rules(settings)))
    names = ("id", "task", "candidate", "candidate_hash", "against", "against_hash", "n", "needed")
    return {
        **msgspec.to_builtins(page),
        **{name: getattr(evidence, name) for name in names},
        "difference": asdict(evidence.difference),
        "bounds": evidence.bounds,
        "estimated": bool(page.values),
        "current": evidence.candidate_hash == current.digest,
        "fresh": evidence.against_hash == current.digest,
    }


def _until_retrain(project: Project, task: str) -> int:
    from headway.project.learning import due

    return due(project, task)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
