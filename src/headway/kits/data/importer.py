"""Import a file of external history into the store, with a report whose counts add up.

Two passes. The first reads every line, so that a file with a bad line is refused before anything is stored, and
watches for leaks; it keeps the records in a spool, from which the second stores some thousands at a time. With
`on_error="skip"` bad lines are listed and the rest is imported.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec.structs import replace

from headway.kits.data.files import digest_of, kind_of
from headway.kits.data.formats import VERSION, Format, Item, detect, read
from headway.kits.data.records import Options, Problem, Record, Skipped, Spool
from headway.kits.data.store_records import BATCH, BATCH_BYTES, Clash, Origin, RecordWriter
from headway.nouns import Candidate, Progress, Situation, document, errors
from headway.observe import keep_totals, part_of_group

if TYPE_CHECKING:
    from headway.observe import Redactor
    from headway.project import Project
    from headway.prove import LeakDetector, Leaks
    from headway.reward import Rewards

OnError = Literal["stop", "skip"]
_SPOOLED = 1000  # records that are written together
_LISTED = 100  # problems and conflicts that a report lists; all are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """The result of an import. `read` = stored + already + late + conflicts + rejected + skipped."""

    file: str
    format: str
    sha256: str
    tasks: tuple[str, ...] = ()
    label: str = ""  # the signal that the format calls its reward
    dry_run: bool = False
    read: int = 0
    stored: int = 0  # new decisions; under dry_run: those that would be
    already: int = 0
    late: int = 0  # known decisions with a new outcome
    conflicts: int = 0
    rejected: int = 0
    skipped: int = 0  # lines without a decision
    labelled: int = 0  # records with the format's label
    undated: int = 0
    unknown_propensity: int = 0
    statuses: Mapping[str, int] = field(
        default_factory=dict
    )  # of all records, under the present reward; their sum is `records`
    sources: Mapping[str, int] = field(default_factory=dict)
    schemas: Mapping[str, int] = field(default_factory=dict)
    why_skipped: Mapping[str, int] = field(default_factory=dict)
    ignored: Mapping[str, int] = field(default_factory=dict)  # fields that a record does not have
    problems: tuple[Problem, ...] = ()
    clashes: tuple[Clash, ...] = ()
    leaks: Leaks | None = None

    @property
    def records(self) -> int:
        return self.read - self.rejected - self.skipped

    def document(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        counts = (
            "file", "format", "sha256", "label", "dry_run", "read", "stored", "already", "late", "conflicts",
            "rejected", "skipped", "labelled", "undated",
        )  # fmt: skip
        tables = ("statuses", "sources", "schemas", "why_skipped", "ignored")
        return {
            **{name: getattr(self, name) for name in counts},
            "tasks": list(self.tasks),
            "unlabelled": self.records - self.labelled,
            "unknown_propensity": self.unknown_propensity,
            **{name: dict(sorted(getattr(self, name).items())) for name in tables},
            "problems": [asdict(problem) for problem in self.problems],
            "clashes": [asdict(clash) for clash in self.clashes],
            "leaks": None if self.leaks is None else document(self.leaks),
        }


@dataclass(slots=True)
class _Tally:
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

    def reject(self, problem: Problem) -> None:
        self.rejected += 1
        if len(self.problems) < _LISTED:
            self.problems.append(problem)


def import_file(
    project: Project,
    path: Path | str,
    *,
    format: str = "auto",
    task: str | None = None,
    columns: Mapping[str, str] | None = None,
    candidates: Iterable[str] = (),
    dry_run: bool = False,
    on_error: OnError = "stop",
    progress: Progress | None = None,
) -> ImportReport:
    """Import external history, idempotently; values that the file does not have stay unknown.

    project.import_file("training-buffer.jsonl")                        # the format is recognised
    project.import_file("log.csv", task="route", columns={"action": "model", "reward": "score", "propensity": "p"})
    project.import_file("log.jsonl", dry_run=True)                      # only the report
    """
    path = Path(path)
    known = _format(project, path, format, columns)
    digest = digest_of(path)
    options = Options(columns=columns or {}, candidates=tuple(candidates), name=path.stem)
    run = _Run(project, path, known, task, options)
    with Spool(project.home) as spool:
        tally, leaks = run.check(spool, progress, stop=on_error == "stop" and not dry_run)
        with nullcontext() if dry_run else project.database.bulk():
            fates, clashes = run.store(spool, run.writer(digest), tally.records, progress, write=not dry_run)
    if fates["new"] and not dry_run:
        with project.lock():
            for name in tally.tasks:
                keep_totals(project.database, project.query.name_id("task", name))
    return ImportReport(
        file=path.name,
        format=known.name,
        sha256=digest,
        label=known.label,
        dry_run=dry_run,
        stored=fates["new"],
        already=fates["same"],
        late=fates["late"],
        conflicts=fates["conflict"],
        clashes=tuple(clashes),
        leaks=leaks,
        **tally.counts(),
    )


def _format(project: Project, path: Path, name: str, columns: Mapping[str, str] | None) -> Format:
    known = project.catalogue
    if name == "auto" and (kind_of(path) == "jsonl" or not columns) and not (columns and set(columns) != {"action"}):
        return detect(path, known.all_formats())
    form: Format = known.format("columns" if name == "auto" else name)
    return form


class RecordIntake:
    """Records as a project stores them: with its tasks and source, without secrets, with signals that rewards accept.

    `task`: of records that name none; `forced`: of all of them. `label`: the signal that the format calls its reward.
    """

    def __init__(self, project: Project, task: str, *, forced: bool = False, label: str = "") -> None:
        self._project, self._task, self._forced, self._label = project, task, forced, label
        self._rewards: dict[str, _Rule] = {}
        self._clean: dict[int, tuple[tuple[Candidate, ...], tuple[Candidate, ...]]] = {}  # by identity
        if task:
            self.rule(task)
        self._now = project.clock()
        self._synthetic = project.settings.store.synthetic  # a synthetic store has no real rows

    def taken(self, item: Record) -> Record | Problem:
        """The record to store, or why it cannot be: a signal that its task's reward refuses, or an undeclared task."""
        try:
            check = self.rule(self._task_of(item)).rewards.check
            for signal in item.signals:
                check(signal.name, signal.value)
        except errors.HeadwayError as error:
            return Problem(item.line, "signals", error.message, error.hint)
        return self._cleaned(item)

    def _cleaned(self, item: Record) -> Record:
        redact = self._project.redact
        changed: dict[str, Any] = {}
        if (text := redact(item.text)) is not item.text:
            changed["text"] = text
        if item.state and (state := redact.state(item.state)) is not item.state:
            changed["state"] = state
        known = self._clean.get(id(item.candidates))
        if known is None or known[0] is not item.candidates:
            if len(self._clean) > 4096:
                self._clean.clear()
            known = self._clean[id(item.candidates)] = item.candidates, redact.candidates(item.candidates)
        if (candidates := known[1]) is not item.candidates:
            names = [candidate.name for candidate in item.candidates]
            changed |= {"candidates": candidates, "action": candidates[names.index(item.action)].name}
        if any(signal.label or len(signal.name) > 8 for signal in item.signals):
            changed["signals"] = tuple(
                replace(signal, name=redact(signal.name), label=redact(signal.label)) for signal in item.signals
            )
        if item.rest is not None:
            changed["rest"] = _kept(redact, item.rest)
        if self._forced and item.task:
            changed["task"] = ""
        if self._synthetic:
            changed["source"] = "synthetic"
        return replace(item, **changed) if changed else item

    def _task_of(self, item: Record) -> str:
        return self._task if self._forced else item.task or self._task

    def rule(self, task: str) -> _Rule:
        rule = self._rewards.get(task)
        if rule is None:
            rewards = self._project.rewards(task)
            counted = frozenset({self._label, *rewards.signals})
            rule = self._rewards[task] = _Rule(rewards, counted, not rewards.signals)
        return rule

    def count(self, item: Record, tally: _Tally, watch: LeakDetector) -> None:
        task = self._task_of(item)
        rule = self.rule(task)
        labels = item.labels()
        tally.tasks.add(task)
        tally.statuses[self._status(item, labels, rule)] += 1
        tally.sources[item.source] += 1
        tally.labelled += self._label in labels
        tally.undated += item.at is None
        tally.unknown_propensity += item.probabilities is None and item.propensity is None
        if item.schema:
            tally.schemas[item.schema] += 1
        tally.ignored[item.ignored] += 1
        times = [signal.at for signal in item.signals if signal.at is not None and signal.name in rule.counted]
        watch.add(
            Situation(task=task, text=item.text, state=item.state),
            next(candidate for candidate in item.candidates if candidate.name == item.action),
            {name: value for name, value in labels.items() if name in rule.counted},
            part=part_of_group(task, item.episode, item.text, item.state),
            at=item.at,
            told_at=min(times) if times else None,
        )

    def _status(self, item: Record, labels: Mapping[str, float], rule: _Rule) -> str:
        """The outcome of the record under the present reward."""
        if rule.by_function:
            return "decided by a function"
        age = 0.0 if item.at is None else max(0.0, self._now - item.at)
        return rule.rewards.outcome(labels, age_s=age).status


class _Run:
    """The import of one file."""

    def __init__(self, project: Project, path: Path, format: Format, task: str | None, options: Options) -> None:
        self._project, self._path, self._format, self._options = project, path, format, options
        self._task = task or format.task
        if not self._task and format.name != "headway":
            raise errors.InvalidInput(
                f"{path.name} does not name the task of its decisions.",
                code="task_missing",
                hint="Name it with --task.",
            )
        self._intake = RecordIntake(project, self._task, forced=bool(task), label=format.label)

    def writer(self, digest: str) -> RecordWriter:
        origin = Origin(
            file=self._path.name,
            sha256=digest,
            format=self._format.name,
            version=VERSION,
            task=self._task,
            at=self._project.clock(),
        )
        project = self._project
        return RecordWriter(project.database, project.query, project.store, origin)

    def check(self, spool: Spool, progress: Progress | None, *, stop: bool) -> tuple[_Tally, Leaks]:
        """Read everything into the spool, count it, and watch for leaks; with `stop`, a bad line is an error."""
        from headway.prove import LeakDetector

        watch, tally, records = LeakDetector(), _Tally(), list[Record]()
        for item in self._items():
            tally.read += 1
            if isinstance(item, Problem):
                tally.reject(item)
            elif isinstance(item, Skipped):
                tally.skipped += 1
                tally.why_skipped[item.why] += 1
            else:
                self._intake.count(item, tally, watch)
                records.append(item)
                if len(records) == _SPOOLED or item.details:
                    spool.write(records)
                    records.clear()
            if progress is not None and tally.read % 10_000 == 0:
                progress("check", tally.read, None)
        if tally.problems and stop:
            raise self._bad_line(tally)
        spool.write(records)
        return tally, watch.leaks()

    def _bad_line(self, tally: _Tally) -> errors.HeadwayError:
        error = tally.problems[0].error(self._path.name, "row" if kind_of(self._path) == "parquet" else "line")
        more = f" {tally.rejected - 1:,} more lines are wrong." if tally.rejected > 1 else ""
        error.message += f"{more} Nothing was stored."
        error.args = (error.message,)
        error.hint = f"{error.hint} `--on-error skip` imports the others and lists these.".strip()
        return error

    def store(
        self, spool: Spool, writer: RecordWriter, records: int, progress: Progress | None, *, write: bool
    ) -> tuple[Counter[str], list[Clash]]:
        """Counts of records by result, and the first conflicts; without `write`, of a dry run."""
        done, fates, clashes = 0, Counter[str](), list[Clash]()
        for batch in _batches(spool):
            result = writer.write(batch) if write else writer.preview(batch)
            fates.update(result.fates)
            clashes += result.clashes[: max(0, _LISTED - len(clashes))]
            done += len(batch)
            if progress is not None:
                progress("import" if write else "compare", done, records)
        return fates, clashes

    def _items(self) -> Iterator[Item]:
        for item in read(self._path, self._format, self._options):
            yield self._intake.taken(item) if isinstance(item, Record) else item


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


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    details = 0
    for record in records:
        batch.append(record)
        details += sum(len(detail.data) for detail in record.details)
        if len(batch) == BATCH or details > BATCH_BYTES:
            yield batch
            batch, details = [], 0
    if batch:
        yield batch
