"""Learn a candidate from settled rows, or publish a snapshot of an online policy."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from headway.nouns import Header, Learned, PolicyRef, Progress, Settled, errors, hook, plural
from headway.observe import LEARNED_PARTS, Recorded, RunLog, drop_old_runs, part_of, split_by, without
from headway.project.publish import add_bundle, publish_policy, record_change, split_of
from headway.promote import prune

if TYPE_CHECKING:
    from headway.learn import Ages
    from headway.project.project.folder import Opened
    from headway.settings import TaskSettings


FOLDED_PARTS = ("train", "tune", "prove")  # an online policy reads every row
_FEW_LABELS = 50
_KEPT_RUNS = 20  # of a task and family, whose metrics stay


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """The settled rows for a learner: up to row `upto`, without the fields in `left_out`, weighed by age."""

    experience: Recorded
    upto: int
    left_out: tuple[str, ...]
    ages: Ages


def readable(
    project: Opened, task: str, *, trust: Sequence[str], mined: bool, progress: Progress | None = None
) -> Readable:
    """The rows of a task that `learn` reads. Fields that reveal the outcome are omitted, except those in `trust`."""
    from headway.project.data.ages import ages_of_rows
    from headway.project.data.leaks import check_leaks

    project.settle(task, progress=progress)
    upto = project.query.last_settled(task)
    by = split_by(project.query, task)
    frame = project.query.frame(task)
    leaks = check_leaks(project, task, parts=LEARNED_PARTS, mined=mined, by=by, frame=frame)
    if leaks.labelled < _FEW_LABELS:  # too few to recognise a leak by: those kept for the proof count, too
        leaks = check_leaks(project, task, mined=mined, by=by, frame=frame)
    left_out = [field for field in leaks.fields if field not in trust and field.removesuffix(":numbers") not in trust]
    ages = ages_of_rows(project, frame, upto=upto, by=by)
    weigh = None if ages.alike else ages.weights
    experience = Recorded(project.query, frame, upto=upto, left_out=left_out, mined=mined, by=by, weigh=weigh)
    return Readable(experience=experience, upto=upto, left_out=tuple(left_out), ages=ages)


def labelled_rows(project: Opened, task: str, *, mined: bool = False, role: str = "") -> tuple[int, tuple[str, ...]]:
    """The rows with a reward that `learn` would read (of one role), and the fields that it would omit."""
    rows = readable(project, task, trust=(), mined=mined)
    mine = (row for row in rows.experience if not role or row.decision.situation.role == role)
    return sum(1 for row in mine if row.reward is not None), rows.left_out


def learn(
    project: Opened,
    task: str,
    *,
    family: str | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    trust: Sequence[str] = (),
    mined: bool = False,
    shadow: bool = False,
    who: str = "",
    **knobs: Any,
) -> str:
    """Learn a candidate from settled decisions; returns its reference, `bandit@4f2a`.

    Fields that reveal the outcome (`leaks`) are omitted, except those in `trust`: you know that they
    existed before the outcome. Mined labels count only with `mined`. A candidate replaces the one that is under
    test; a `shadow` waits until that test is over.
    """
    settings = project.settings.task(task)
    family = family or settings.family
    encoder = project.servings.encoder_of(settings)
    teacher = project.catalogue.learner(family, encoder=encoder)
    rows = readable(project, task, trust=trust, mined=mined, progress=progress)
    seed = settings.seed if seed is None else seed
    resume = knobs.pop("resume", None)
    start = _start(project, settings, family, resume)
    reads = project.catalogue.family(family).material
    if reads:
        start.keywords["material"] = project.catalogue.load(reads)(project, settings)
    with _LearningLog(project, settings.name, family, seed, start.keywords.get("work")) as log:
        told = log.told(progress)
        learned = teacher.learn(rows.experience, {**_knobs(settings), **knobs}, seed, told, **start.keywords)
        log.result(learned)
    learned = _with_choices(learned, rows, mined)
    about: dict[str, Any] = {
        "task": settings.name,
        "kind": settings.kind,
        "encoder": encoder.version,
        "seed": seed,
        "upto": rows.upto,
        "parts": LEARNED_PARTS,
        "split": split_of(rows.experience.by),
        "parent": start.digest,
    }
    beside = {name: add_bundle(project, other, **about).ref for name, other in learned.beside.items()}
    if beside:
        learned = replace(learned, extra={**learned.extra, "beside": beside}, beside={})
    published = publish_policy(
        project,
        learned,
        **about,
        why=f"learned from {plural(sum(learned.trained_on.get('sources', {}).values()), 'decision')}",
        shadow=shadow,
        who=who,
    )
    if "work" in start.keywords:  # until now, a killed process can be resumed
        shutil.rmtree(start.keywords["work"], ignore_errors=True)
    log.end(published.ref)
    return published.ref


class _LearningLog:
    """The run of one learning: how far it is, and at the end what the learner measured."""

    def __init__(self, project: Opened, task: str, family: str, seed: int, work: Path | None) -> None:
        self._own = None if work is None else work / "metrics.jsonl"  # what the learner itself writes
        moment = datetime.fromtimestamp(project.clock(), UTC)
        self._log = RunLog(project.home / "work" / f"{task}-{family}-{moment:%Y%m%d-%H%M%S}")
        self._log.begin({"task": task, "family": family, "seed": seed})
        drop_old_runs(project.home, f"{task}-{family}-2", keep=_KEPT_RUNS)
        self._began = self._last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._log.interrupt()

    def told(self, progress: Progress | None) -> Progress:
        """The caller's progress, and a line per second, or the learner's own lines."""

        def tell(stage: str, done: int, total: int | None) -> None:
            if progress is not None:
                progress(stage, done, total)
            if time.monotonic() - self._last >= 1.0:
                self._last = time.monotonic()
                if self._own is not None and self._own.exists():
                    self._log.adopt(self._own)
                else:
                    self._log.add({"done": done, "seconds": round(self._last - self._began, 3)})

        return tell

    def result(self, learned: Learned) -> None:
        """What the learner measured; metrics that it wrote in its own folder take the place of how far it was."""
        if self._own is not None:
            self._log.adopt(self._own)
        self._log.add({"seconds": round(time.monotonic() - self._began, 3), **learned.metrics})

    def end(self, policy: str) -> None:
        self._log.end(policy)


def next_candidate(project: Opened, task: str, *, who: str = "") -> str | None:
    """Make the newest shadow the candidate, as it was learned; its reference, or None if there is none."""
    shadow = project.ledger.heads(task).shadow
    if shadow is None:
        return None
    why = f"{shadow.why}; now under test"
    record_change(project, task, "candidate", shadow.policy, shadow.policy_hash, why=why, who=who, detail=shadow.detail)
    return shadow.policy


def _with_choices(learned: Learned, rows: Readable, mined: bool) -> Learned:
    """The header's record of how the rows were chosen; without `age`, all rows counted alike."""
    chosen: dict[str, Any] = {}
    if rows.left_out:
        chosen["left_out"] = list(rows.left_out)
    if not rows.ages.alike:
        chosen["age"] = rows.ages.document()
    if mined:
        chosen["mined"] = True
    return replace(learned, trained_on={**learned.trained_on, **chosen}) if chosen else learned


@dataclass(frozen=True, slots=True)
class _Start:
    """The start of learning: nothing, or a policy to resume from."""

    digest: str | None
    keywords: dict[str, Any]


def _start(project: Opened, settings: TaskSettings, family: str, resume: str | bool | None) -> _Start:
    """`resume`: a policy to continue from, or True for a training that was interrupted."""
    interruptible = project.catalogue.family(family).interruptible
    if interruptible and not isinstance(resume, str):
        return _Start(None, {"work": _work(project, settings.name, family, carry_on=bool(resume))})
    if resume is None or resume is False:
        return _Start(None, {})
    if resume is True:
        raise errors.InvalidInput(
            f"The family {family!r} saves nothing while it learns.",
            code="not_resumable",
            hint="Omit --resume: it is for --world and for the family ranker.",
        )
    if not project.catalogue.family(family).resumable:
        resumable = [name for name, row in project.catalogue.all("families").items() if row.resumable]
        raise errors.InvalidInput(
            f"The family {family!r} cannot resume from {resume!r}.",
            code="not_resumable",
            hint=f"Omit `resume`, or use one of: {', '.join(resumable)}.",
        )
    ref, digest = project.servings.resolve(settings, resume)
    policy = project.servings.policy(settings.name, project.servings.body(settings), ref, digest)
    return _Start(digest, {"resume": policy})


def _work(project: Opened, task: str, family: str, *, carry_on: bool) -> Path:
    """The folder of unfinished learning; emptied unless it is carried on."""
    folder = project.home / "work" / f"learn-{task}-{family}"
    if not carry_on:
        shutil.rmtree(folder, ignore_errors=True)
    return folder


def due(project: Opened, task: str) -> int:
    """The number of newly settled decisions still missing before learning is due; 0: it is due."""
    project.settle(task)
    newest = project.ledger.last(task, "candidate", "shadow")
    mark = int(newest.detail.get("upto", 0)) if newest is not None else 0
    return max(0, project.settings.task(task).retrain_after - project.query.count_settled(task, after=mark))


def fold(project: Opened, task: str) -> str | None:
    """Online tasks: fold settled rows into the current policy and publish a snapshot; its reference, if new.

    All rows settled since its mark are added to its state, and rows that others replaced are removed.
    """
    settings = project.settings.task(task)
    serving = project.servings.of(settings)
    if PolicyRef.parse(serving.ref).built_in:
        return None
    project.settle(task)
    header = project.registry.header(serving.digest)
    encoder = project.servings.encoder_of(settings)
    teacher = project.catalogue.online_learner(header.family, encoder=encoder)
    mark = int(header.trained_on["upto"])
    policy = project.servings.policy(task, project.servings.body(settings), serving.ref, serving.digest)
    state = teacher.state_from(policy)
    last = mark
    for row, sign in _changes(project, task, mark, header):
        if sign:
            teacher.update(state, row, sign)
        last = max(last, row.seq)
    if last == mark:
        return None
    trained = {
        **header.trained_on,
        "origin": header.trained_on.get("origin", serving.digest),
        "first_parts": header.trained_on.get("first_parts", header.trained_on["parts"]),
        "folded_from": header.trained_on.get("folded_from", mark),
    }
    published = add_bundle(
        project,
        teacher.learned(state, trained),
        task=settings.name,
        kind=settings.kind,
        encoder=header.encoder,
        seed=header.seed,
        upto=last,
        parts=FOLDED_PARTS,
        split=header.split,
        parent=serving.digest,
    )
    record_change(
        project,
        task,
        "snapshot",
        published.ref,
        published.digest,
        expects=serving.digest,
        why=f"folded settled rows {mark + 1:,} to {last:,}",
        detail={"upto": last, "origin": trained["origin"]},
    )
    prune(project.ledger, project.registry, task, now=project.clock())
    return published.ref


def _changes(project: Opened, task: str, mark: int, header: Header) -> Iterator[tuple[Settled, int]]:
    """Rows since the mark; a row that another one replaces is removed first, if the state has read it."""
    from headway.project.data.ages import as_read

    first_parts = header.trained_on.get("first_parts", header.trained_on["parts"])
    start = int(header.trained_on.get("folded_from", mark))
    left_out, mined = header.trained_on.get("left_out", ()), header.trained_on.get("mined", False)
    by = header.split.get("by", "group")
    for row in project.query.log(task, after=mark):
        weak = row.decision.source == "mined" and not mined
        if row.replaces is not None and not weak:
            before = project.query.settled_row(row.replaces)
            read = before.seq > start or part_of(before.decision, by) in first_parts
            before = as_read(header, before)
            if read and before.reward is not None and before.weight > 0.0:
                yield replace(without(before, left_out), seq=row.seq), -1
        yield without(row, left_out), 0 if row.reward is None or weak else 1


def _knobs(settings: TaskSettings) -> dict[str, Any]:
    """The learner's knobs from the task's settings."""
    knobs: dict[str, Any] = hook(settings.traits.knobs)(settings) if settings.traits.knobs else {}
    return knobs


def choice_knobs(settings: TaskSettings) -> dict[str, Any]:
    """Knobs of a choice. The pipeline explores: the policy itself is greedy."""
    return {"costs": dict(settings.costs), "cost_weight": settings.cost_weight, "explore": "greedy"}
