"""Records as a project takes them: checked, without secrets, counted. Works on columns; only bad rows are looked at."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from headway.kits.data.records import ImportedSignal, Problem, Record, Records, Skipped
from headway.nouns import Candidate, Situation, errors
from headway.observe import part_of_group

if TYPE_CHECKING:
    from headway.observe import Redactor
    from headway.project import Project
    from headway.prove import LeakDetector
    from headway.reward import Rewards

LISTED = 100  # problems and conflicts that a report lists; all are counted
_REMEMBERED = 4096


@dataclass(slots=True)
class Tally:
    """Counts made while a file is read."""

    read: int = 0
    rejected: int = 0
    skipped: int = 0
    labelled: int = 0
    undated: int = 0
    unknown_propensity: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    schemas: Counter[str] = field(default_factory=Counter)
    why_skipped: Counter[str] = field(default_factory=Counter)
    ignored: Counter[tuple[str, ...]] = field(default_factory=Counter)  # fields of a row: few are different
    problems: list[Problem] = field(default_factory=list)
    tasks: set[str] = field(default_factory=set)

    @property
    def records(self) -> int:
        return self.read - self.rejected - self.skipped

    def counts(self) -> dict[str, Any]:
        """The fields of the report that are counted here."""
        counted = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        ignored = Counter[str]()
        for names, count in self.ignored.items():
            ignored.update(dict.fromkeys(names, count))
        return {**counted, "problems": tuple(self.problems), "tasks": tuple(sorted(self.tasks)), "ignored": ignored}

    def leave(self, item: Problem | Skipped) -> None:
        if isinstance(item, Skipped):
            self.skipped += 1
            self.why_skipped[item.why] += 1
            return
        self.rejected += 1
        if len(self.problems) < LISTED:
            self.problems.append(item)


class RecordIntake:
    """Records as a project stores them: with its tasks and source, without secrets, with signals that rewards accept.

    `task`: of records that name none; `forced`: of all of them. `label`: the signal that the format calls its reward.
    """

    def __init__(self, project: Project, task: str, *, forced: bool = False, label: str = "") -> None:
        self._project, self._task, self._forced, self._label = project, task, forced, label
        self._rewards: dict[str, _Rule] = {}
        self._accepted: set[tuple[str, str, float]] = set()  # task, signal, value
        self._known: dict[tuple[Any, ...], str] = {}  # task and signals → status, where it depends on nothing else
        if task:
            self.rule(task)
        self._now = project.clock()
        self._synthetic = project.settings.store.synthetic  # a synthetic store has no real rows

    def record(self, item: Record) -> Record | Problem:
        """The record to store, or why it cannot be stored."""
        records, problems = self.taken(Records.of([item]))
        return problems[0] if problems else records.record(0)

    def taken(self, records: Records) -> tuple[Records, list[Problem]]:
        """The records to store, and why others are not: a signal that a reward refuses, an undeclared task."""
        problems: dict[int, Problem] = {}
        tasks = self._tasks(records)
        refused = {task: error for task in dict.fromkeys(tasks) if (error := self._refused(task)) is not None}
        for place, (task, signals) in enumerate(zip(tasks, records.signals, strict=True)):
            error = refused.get(task) or self._bad_signal(task, signals)
            if error is not None:
                problems[place] = Problem(records.line[place], "signals", error.message, error.hint)
        if problems:
            records = records.where([place for place in range(len(records)) if place not in problems])
        return self._cleaned(records), list(problems.values())

    def _refused(self, task: str) -> errors.HeadwayError | None:
        try:
            self.rule(task)
        except errors.HeadwayError as error:
            return error
        return None

    def _bad_signal(self, task: str, signals: Sequence[ImportedSignal]) -> errors.HeadwayError | None:
        for signal in signals:
            key = (task, signal.name, signal.value)
            if key in self._accepted:
                continue
            try:
                self._rewards[task].rewards.check(signal.name, signal.value)
            except errors.HeadwayError as error:
                return error
            if len(self._accepted) > _REMEMBERED:
                self._accepted.clear()
            self._accepted.add(key)
        return None

    def _cleaned(self, records: Records) -> Records:
        redact = self._project.redact
        changed: dict[str, list[Any]] = {"text": [redact(text) for text in records.text]}
        if any(records.state):
            changed["state"] = [redact.state(state) if state else state for state in records.state]
        sets = {id(one): redact.candidates(one) for one in {id(one): one for one in records.candidates}.values()}
        if any(id(clean) != before for before, clean in sets.items()):
            changed["candidates"] = [sets[id(candidates)] for candidates in records.candidates]
            changed["action"] = [
                clean[next(place for place, one in enumerate(before) if one.name == action)].name
                for before, clean, action in zip(records.candidates, changed["candidates"], records.action, strict=True)
            ]
        if any(one.label or len(one.name) > 8 for signals in records.signals for one in signals):
            changed["signals"] = [
                tuple([replace(one, name=redact(one.name), label=redact(one.label)) for one in signals])
                for signals in records.signals
            ]
        if any(records.rest):
            changed["rest"] = [None if rest is None else _kept(redact, rest) for rest in records.rest]
        if self._forced:
            changed["task"] = [""] * len(records)
        if self._synthetic:
            changed["source"] = ["synthetic"] * len(records)
        return replace(records, **changed)

    def _tasks(self, records: Records) -> list[str]:
        return [self._task] * len(records) if self._forced else [task or self._task for task in records.task]

    def rule(self, task: str) -> _Rule:
        rule = self._rewards.get(task)
        if rule is None:
            rewards = self._project.rewards(task)
            counted = frozenset({self._label, *rewards.signals})
            rule = self._rewards[task] = _Rule(rewards, counted, not rewards.signals)
        return rule

    def count(self, records: Records, tally: Tally, watch: LeakDetector) -> None:
        tasks = self._tasks(records)
        tally.tasks.update(tasks)
        tally.sources.update(records.source)
        tally.undated += records.at.count(None)
        tally.schemas.update(filter(None, records.schema))
        tally.ignored.update(records.ignored)
        tally.unknown_propensity += sum(
            chances is None and propensity is None
            for chances, propensity in zip(records.probabilities, records.propensity, strict=True)
        )
        parts = map(part_of_group, tasks, records.episode, records.text, records.state)
        rows = zip(tasks, records.at, records.signals, records.text, parts, strict=True)
        for place, (task, at, signals, text, part) in enumerate(rows):
            counted = self._rewards[task].counted
            tally.statuses[self._status(task, at, signals)] += 1
            tally.labelled += self._label in [signal.name for signal in signals]
            times = [signal.at for signal in signals if signal.at is not None and signal.name in counted]
            watch.add_lazily(
                partial(self._watched, records, place, task), text, part, at, min(times) if times else None
            )

    def _watched(self, records: Records, place: int, task: str) -> tuple[Situation, Candidate, dict[str, float]]:
        taken = next(one for one in records.candidates[place] if one.name == records.action[place])
        counted = self._rewards[task].counted
        labels = {one.name: one.value for one in records.signals[place] if one.name in counted}
        return Situation(task=task, text=records.text[place], state=records.state[place]), taken, labels

    def _status(self, task: str, at: float | None, signals: Sequence[ImportedSignal]) -> str:
        """The outcome of a record under the present reward."""
        key = (task, *[(signal.name, signal.value) for signal in signals])
        if (known := self._known.get(key)) is not None:
            return known
        rule = self._rewards[task]
        if rule.by_function:
            return "decided by a function"
        age = 0.0 if at is None else max(0.0, self._now - at)
        status = rule.rewards.outcome({signal.name: signal.value for signal in signals}, age_s=age).status
        if status in ("rewarded", "failed"):  # the others depend on the age
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            self._known[key] = status
        return status


class _Rule(NamedTuple):
    """How a task turns signals into a reward."""

    rewards: Rewards
    counted: frozenset[str]  # signals of the labels
    by_function: bool  # which needs the stored decision


def _kept(redact: Redactor, rest: str) -> str | None:
    """The line for an export back; rebuilt from the record if the original had a secret."""
    cleaned = redact(rest)
    if cleaned == rest:
        return rest
    try:
        json.loads(cleaned)
    except ValueError:
        return None
    return cleaned
