"""Import a file of external history into the store, with a report whose counts add up.

Two passes. The first reads every line, so that a file with a bad line is refused before anything is stored, and
watches for leaks; it keeps the records in a spool, from which the second stores some thousands at a time. Both work on
columns. With `on_error="skip"` bad lines are listed and the rest is imported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headway.kits.data.files import digest_of, kind_of
from headway.kits.data.formats import VERSION, Format, Item, detect, read
from headway.kits.data.intake import LISTED, RecordIntake, Tally
from headway.kits.data.records import Options, Problem, Record, Records, Skipped, Spool
from headway.kits.data.store_records import BATCH, BATCH_BYTES, Clash, Origin, RecordWriter
from headway.nouns import Progress, document, errors
from headway.observe import keep_totals

if TYPE_CHECKING:
    from headway.project import Project
    from headway.prove import Leaks

OnError = Literal["stop", "skip"]
_SPOOLED = 2000  # records that are checked and spooled together


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

    def check(self, spool: Spool, progress: Progress | None, *, stop: bool) -> tuple[Tally, Leaks]:
        """Read everything into the spool, count it, and watch for leaks; with `stop`, a bad line is an error."""
        from headway.prove import LeakDetector

        watch, tally, told = LeakDetector(), Tally(), 0
        for block, others in _blocks(read(self._path, self._format, self._options)):
            records, problems = self._intake.taken(block)
            tally.read += len(block) + len(others)
            for item in sorted((*problems, *others), key=lambda item: item.line):
                tally.leave(item)
            self._intake.count(records, tally, watch)
            spool.write(records)
            if progress is not None and tally.read - told >= 10_000:
                told = tally.read
                progress("check", told, None)
        if tally.problems and stop:
            raise self._bad_line(tally)
        return tally, watch.leaks()

    def _bad_line(self, tally: Tally) -> errors.HeadwayError:
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
            clashes += result.clashes[: max(0, LISTED - len(clashes))]
            done += len(batch)
            if progress is not None:
                progress("import" if write else "compare", done, records)
        return fates, clashes


def _blocks(items: Iterable[Item]) -> Iterator[tuple[Records, list[Problem | Skipped]]]:
    """Records in columns, some thousands at a time, and what came between them."""
    columns: list[Records] = []
    records: list[Record] = []
    others: list[Problem | Skipped] = []
    for item in chain(items, (None,)):
        if isinstance(item, Record):
            records.append(item)
        if records and (not isinstance(item, Record) or len(records) == _SPOOLED or item.details):
            columns.append(Records.of(records))
            records = []
        if isinstance(item, Records):
            columns.append(item)
        elif isinstance(item, (Problem, Skipped)):
            others.append(item)
        if item is None or len(others) + sum(map(len, columns)) >= _SPOOLED or (columns and columns[-1].details[-1]):
            yield Records.joined(columns), others
            columns, others = [], []


def _batches(blocks: Iterable[Records]) -> Iterator[Records]:
    batch: list[Records] = []
    rows = size = 0
    for block in blocks:
        details = sum(len(detail.data) for details in block.details for detail in details)
        if batch and (rows + len(block) > BATCH or size + details > BATCH_BYTES):
            yield Records.joined(batch)
            batch, rows, size = [], 0, 0
        batch.append(block)
        rows, size = rows + len(block), size + details
    if batch:
        yield Records.joined(batch)
