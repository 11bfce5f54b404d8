"""One round: choose a proposal, apply it, measure it beside the base, keep or revert, record.

Every step is journaled before the next, and each can be repeated: the decision has an id that was journaled first, the
change is applied to the same commit again, and measured pairs are not measured twice.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headway.kits.next_action.improve.evaluation import Measurement, failed_on_base
from headway.kits.next_action.improve.paired_test import PairedTest
from headway.kits.next_action.improve.proposals import Proposal
from headway.kits.next_action.improve.run_state import OpenRound, RoundResult, RoundVerdict
from headway.kits.next_action.improve.settings import ImproverSettings
from headway.kits.next_action.ranking import rank
from headway.nouns import errors, ids

if TYPE_CHECKING:
    from headway.kits.next_action.improve.evaluation import ProposalEvaluation
    from headway.kits.next_action.improve.file_rules import FileRules
    from headway.kits.next_action.improve.repository import Worktree
    from headway.kits.next_action.improve.run_state import RunState
    from headway.project import Project

DETAILS, PREDICTION = "next_action", "prediction"
_SIGNALS = ("reward", "composite_delta")


class Playing(Protocol):
    """What a round needs of its run."""

    project: Project
    name: str
    settings: ImproverSettings
    state: RunState
    rules: FileRules
    tree: Worktree
    evaluation: ProposalEvaluation

    def spent_s(self) -> float: ...
    def share(self) -> float: ...
    def snapshot(self, name: str) -> Path: ...


def play_round(run: Playing) -> RoundResult:
    """Play the open round, or the next one."""
    state = run.state
    if state.open is None:
        identifier = ids.decision(run.project.clock())
        state.add("round", round=state.round, decision=identifier, spent_s=run.spent_s())
    assert state.open is not None
    if state.open.chosen is None:
        state.add("chosen", **_choose(run, state.open), spent_s=run.spent_s())
    chosen = state.open.chosen
    assert chosen is not None
    proposal = state.pending[chosen["proposal"]]
    remark = _Remark(run, state.open, proposal)
    try:
        commit = run.tree.apply(proposal, run.rules, state.commit)
    except errors.InvalidInput as error:
        result = remark("refused", error.message, code=error.code)
    else:
        result = _measured(run, state.open, remark, commit)
    state.add("outcome", result=asdict(result), title=chosen["proposal"], spent_s=run.spent_s())
    return result


def _choose(run: Playing, open_round: OpenRound) -> dict[str, Any]:
    """Predict, then let the task's policy decide among the proposals that are left; the decision is stored."""
    project, state, settings = run.project, run.state, run.settings
    titles = list(state.pending)
    offers = [state.pending[title].offer() for title in titles]
    situation = state.situation(settings.sign)
    predicted = _predictions(run, offers, situation)
    decision = project.decide(
        settings.task, settings.scope, offers, id=open_round.decision, state=situation, role=run.name
    )
    place = [candidate.name for candidate in decision.candidates].index(decision.action)  # names may be redacted
    forecast = predicted.get(decision.action, dict.fromkeys(("predicted", "low", "high")))
    detail = {"policy": str(decision.policy), "improver": run.name, **forecast}
    project.store.keep_details(decision.id, DETAILS, PREDICTION, json.dumps(detail).encode())
    return {
        "proposal": titles[place],
        "propensity": decision.propensity,
        "policy": str(decision.policy),
        "candidates": len(decision.candidates),
        **forecast,
    }


def _predictions(
    run: Playing, offers: list[dict[str, Any]], situation: dict[str, Any]
) -> dict[str, dict[str, float | None]]:
    """Predicted reward and its 80% interval by candidate; empty if the current policy predicts nothing."""
    settings = run.settings
    try:
        ranking = rank(run.project, settings.task, offers, settings.scope, state=situation, role=run.name)
    except errors.InvalidInput as error:
        if error.code != "no_prediction":
            raise
        return {}
    return {row.name: {"predicted": row.predicted, "low": row.low, "high": row.high} for row in ranking}


# -- measure


@dataclass(frozen=True, slots=True)
class _Remark:
    """Makes the result of a round."""

    run: Playing
    open_round: OpenRound
    proposal: Proposal

    def __call__(self, verdict: RoundVerdict, why: str, **more: Any) -> RoundResult:
        chosen = self.open_round.chosen
        assert chosen is not None
        return RoundResult(
            round=self.open_round.number,
            proposal=self.proposal.title,
            type=self.proposal.type,
            verdict=verdict,
            why=why,
            decision=self.open_round.decision,
            propensity=chosen["propensity"],
            predicted=chosen["predicted"],
            low=chosen.get("low"),
            high=chosen.get("high"),
            **more,
        )


def _measured(run: Playing, open_round: OpenRound, remark: _Remark, commit: str) -> RoundResult:
    """Pairs of measurements until the test ends, a measurement fails, or the time is used up."""
    settings, sign = run.settings, run.settings.sign
    width = None if settings.range is None else settings.range[1] - settings.range[0]
    test = PairedTest(alpha=run.share(), repeats=settings.repeats, margin=settings.margin, width=width)
    for ours, theirs in open_round.pairs:
        test.add(sign * ours, sign * theirs)
    candidate_files = run.snapshot("candidate")
    run.tree.reset(run.state.commit)
    base_files = run.snapshot("base")
    while test.ruling == "open":
        if run.spent_s() >= settings.budget_s:
            return remark("undecided", "the time budget is used up", **_figures(settings, open_round, test))
        # Drawn by the decision, which no other run has: an order that is the same in every run is no draw.
        first = random.Random(f"{settings.seed} {open_round.decision} {test.pairs}").random() < 0.5
        candidate, base = _pair(run, candidate_files, base_files, candidate_first=first)
        if candidate.value is None:
            return remark("failed", candidate.why, code="eval_failed", pairs=test.pairs)
        assert base.value is not None
        measured = {"candidate": candidate.value, "base": base.value}
        run.state.add("pair", round=open_round.number, **measured, spent_s=run.spent_s())
        test.add(sign * candidate.value, sign * base.value)
    figures = _figures(settings, open_round, test)
    if test.ruling == "kept":
        return remark("kept", test.why, commit=commit, **figures)
    return remark("reverted", test.why, **figures)


def _pair(run: Playing, candidate: Path, base: Path, *, candidate_first: bool) -> tuple[Measurement, Measurement]:
    """Both measurements, in the drawn order. A failure of the unchanged files ends the run: it says nothing about the
    proposal. Where the sandbox could not run the proposal, the unchanged files show whose fault that is."""
    measured: dict[Path, Measurement] = {}
    for snapshot in (candidate, base) if candidate_first else (base, candidate):
        measured[snapshot] = run.evaluation.measure(snapshot)
        if measured[snapshot].value is None and measured[snapshot].ran:
            break
    if base in measured and measured[base].value is None:
        raise failed_on_base(measured[base])
    return measured[candidate], measured.get(base, measured[candidate])


def _figures(settings: ImproverSettings, open_round: OpenRound, test: PairedTest) -> dict[str, Any]:
    if not test.pairs:
        return {}
    before = sum(base for _, base in open_round.pairs) / test.pairs
    after = sum(candidate for candidate, _ in open_round.pairs) / test.pairs
    scale = abs(before) if settings.range is None else settings.range[1] - settings.range[0]
    reward = test.gain / scale if scale > 0.0 else float((test.gain > 0.0) - (test.gain < 0.0))
    return {
        "pairs": test.pairs,
        "before": before,
        "after": after,
        "gain": test.gain,
        "reward": max(-1.0, min(1.0, reward)),
    }


# -- record


def reward_signal(project: Project, task: str) -> str:
    """The signal of the task that takes the reward of a round."""
    terms = project.settings.task(task).reward
    if isinstance(terms, str):
        return _SIGNALS[0]
    name = next((name for name in _SIGNALS if name in terms), "")
    if not name:
        raise errors.InvalidSettings(
            f"The task {task!r} has no signal for the reward of a round, expected one of {', '.join(_SIGNALS)}.",
            code="no_reward_signal",
            hint=f'Add it in headway.toml: [tasks.{task}] reward = {{ "reward" = 1.0 }}.',
        )
    return name


def record(project: Project, settings: ImproverSettings, result: RoundResult) -> None:
    """Store the outcome with its decision. Failures are failed outcomes; an undecided round has no outcome."""
    if result.verdict in ("failed", "refused"):
        project.signal(result.decision, {"failed": 1.0}, label=result.code or result.verdict)
    elif result.reward is not None:
        values = {reward_signal(project, settings.task): result.reward, "kept": float(result.verdict == "kept")}
        project.signal(result.decision, values)
