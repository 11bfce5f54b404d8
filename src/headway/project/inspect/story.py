"""The story of a task: who decided, what was learned, proven, promoted, tried, taken back, changed, deleted or down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headway.nouns import StoryEvent, StoryKind, TaskStory, conclusion, errors
from headway.observe import config_changes, first_decision, loads
from headway.project.alarm import settings_of
from headway.project.inspect import verdict_on
from headway.project.inspect.outages import outages
from headway.promote import Entry, setting_changes

if TYPE_CHECKING:
    from headway.project.project.folder import Opened


_PROOFS = 200  # the newest ones, that are read
_ORDER: Mapping[StoryKind, int] = {"started": 0, "proven": 2, "promoted": 3}  # of events at the same moment; others: 1


def task_story(project: Opened, task: str) -> TaskStory:
    """Every event of a task, oldest first; repeated proofs with the same verdict are told once."""
    name = project.settings.task(task).name
    events = [*_started(project, name), *_ledger(project, name), *_proofs(project, name), *_settings(project, name)]
    events += _outages(project, name)
    return TaskStory(task=name, events=tuple(sorted(events, key=lambda event: (event.at, _ORDER.get(event.kind, 1)))))


def _started(project: Opened, task: str) -> Iterator[StoryEvent]:
    first = first_decision(project.database, project.query.name_id("task", task))
    if first is not None:
        yield StoryEvent(
            at=first.at, kind="started", text=f"The first decision was made, by {first.policy}.", policy=first.policy
        )


def _outages(project: Opened, task: str) -> Iterator[StoryEvent]:
    for outage in outages(project, task):
        yield StoryEvent(at=outage.since, kind="outage", text=f"Outage: {outage}")
        if outage.until is not None:
            yield StoryEvent(at=outage.until, kind="outage", text=f"{outage.upstream!r} answers again.")


def _settings(project: Opened, task: str) -> Iterator[StoryEvent]:
    for before, after in config_changes(project.database, project.query, task, settings_of):
        then, now = settings_of(before.config), settings_of(after.config)
        changed = setting_changes(loads(then), loads(now)) if then and now else []
        if changed:
            yield StoryEvent(at=after.at, kind="settings", text=f"Settings changed: {'; '.join(changed)}.")


def _proofs(project: Opened, task: str) -> Iterator[StoryEvent]:
    """Proofs with a new verdict, oldest first; of looks without one only the first, and none after the promotion."""
    told: dict[str, str] = {}
    decides = {entry.policy_hash: entry.at for entry in project.ledger.entries(task) if entry.kind == "promote"}
    reward = ""
    for identifier, _, digest, at in reversed(project.ledger.evidences(task, _PROOFS)):
        try:
            verdict = verdict_on(project, identifier)
        except errors.HeadwayError:
            continue  # evidence that this version cannot read
        if verdict.evidence is None:
            continue
        version = verdict.evidence.reward_version
        if reward and version and version != reward:
            yield StoryEvent(
                at=at, kind="settings", text="The reward was changed before this proof: history was rescored."
            )
        reward = version or reward
        unsettled = verdict.word in ("too early", "cannot tell")
        if unsettled and verdict.evidence.watches:
            continue
        if told.get(digest) == verdict.word or (unsettled and digest in told):
            continue
        if verdict.word != "worse" and at > decides.get(digest, at):
            continue  # the guard looks at the current policy again and again
        told[digest] = verdict.word
        text = conclusion(verdict).partition(", at today's traffic")[0].rstrip(".")
        yield StoryEvent(
            at=at,
            kind="proven",
            text=f"{text}.",
            policy=verdict.evidence.candidate,
            evidence=identifier,
            word=verdict.word,
        )


def _ledger(project: Opened, task: str) -> Iterator[StoryEvent]:
    current = ""
    for entry in project.ledger.entries(task):
        told = _told(entry, current)
        if entry.kind in ("promote", "rollback"):
            current = entry.policy
        if told is not None:
            kind, text = told
            yield StoryEvent(
                at=entry.at, kind=kind, text=text, who=entry.who, policy=entry.policy, evidence=entry.evidence_id
            )


def _told(entry: Entry, before: str) -> tuple[StoryKind, str] | None:
    """A row of the ledger as a sentence; None for rows that tell nothing new."""
    policy, why, ends = entry.policy, entry.why.rstrip("."), entry.share <= 0.0
    was = f", in place of {before}" if before else ""
    match entry.kind:
        case "candidate":
            return "learned", f"{policy} was {why}." if why.startswith("learned") else f"{policy} was learned: {why}."
        case "shadow":
            return "learned", f"{policy} was learned while another candidate is under test; it is next."
        case "plan":
            return "planned", f"A {why} was registered."
        case "canary":
            if entry.ramp is not None:
                return "canary", f"{policy} {why}."
            ended = f"The canary of {policy} ended." if why.startswith("decides") else f"{policy}: {why}."
            return "canary", ended if ends else f"Canary: {policy} {why}."
        case "experiment":
            ended = f"The experiment with {policy} ended: {why}."
            return "experiment", ended if ends else f"Experiment: {policy} {why}."
        case "promote":
            gate = " The gate was off." if why == "gate off" else ""
            gate += " At once, without steps." if entry.detail.get("at_once") else ""
            note = str(entry.detail.get("note", "")).rstrip(".")
            because = f": {note}" if note else ""
            return "promoted", f"{policy} was promoted and decides now{was}{because}.{gate}"
        case "rollback":
            return "rolled back", f"Rolled back to {policy}{was}: {why}."
        case "retire":
            if why.startswith("automatic: "):
                return "retired", f"{policy} was stopped automatically: {why.removeprefix('automatic: ')}."
            return "retired", f"{policy} was set aside: {why}."
        case "alarm":
            return "alarm", f"The alarm ended: {why}." if "ended" in entry.detail else f"Alarm: {why}."
        case "deletion":
            return "deleted", f"{why[:1].upper()}{why[1:]}."
        case "test" | "snapshot" | "name":
            return None
