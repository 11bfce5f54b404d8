"""One run of an improver: rounds until the rounds, the time or the proposals are used up.

    with opened_run(project, "speed") as run:
        while (result := run.step()) is not None: ...

Everything that a run writes is in its folder, .headway/improve/NAME/NUMBER, except for one branch of the repository and
git's note of the worktree. A run that was killed continues: `opened_run` gives the unfinished one.

Several improvers: who plays the next round is a decision of the task `improve`, with propensity and outcome.

    for name, result in play_several(project, ["speed", "tests"], rounds=20): ...

The reward of such a decision is the reward of its round if the proposal was kept, else 0. So the task's policy learns
where effort pays; until one is promoted, every improver is equally likely.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from headway.files import write_whole
from headway.kits.data import guarded
from headway.kits.next_action.improve.evaluation import ProposalEvaluation, failed_on_base, writing
from headway.kits.next_action.improve.file_rules import FileRules, check_collected, named_by
from headway.kits.next_action.improve.journal import Journal, one_at_a_time, set_aside
from headway.kits.next_action.improve.paired_test import least_repeats, share_of
from headway.kits.next_action.improve.repository import Repository, Worktree
from headway.kits.next_action.improve.rounds import play_round, record, reward_signal
from headway.kits.next_action.improve.run_state import RoundResult, RunState
from headway.kits.next_action.improve.settings import ImproverSettings, improver
from headway.kits.next_action.improve.sources import Brief, propose
from headway.kits.sandbox import remove_tree
from headway.nouns import errors
from headway.project import Project

COLUMNS = (
    "round", "proposal", "type", "verdict", "before", "after", "gain", "reward", "pairs", "predicted", "propensity",
    "decision", "commit", "why",
)  # fmt: skip
CHOOSER = "improve"  # the task


def cell(value: object) -> str:
    """One cell: a number, or a text that no spreadsheet runs."""
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = f"{value:.10g}"
        return f'"{number}"' if number.startswith("-") else number
    text = "".join(letter if letter.isprintable() else " " for letter in str(value)).strip()
    text = guarded(text)
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if '"' in text else text


def write_results(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace the file as a whole."""
    lines = ["\t".join(COLUMNS), *("\t".join(cell(row.get(name)) for name in COLUMNS) for row in rows)]
    with writing():
        write_whole(path, ("\n".join(lines) + "\n").encode())


Say = Callable[[str], None]


class Run:
    """A run that is open in this process. Made by `opened_run`."""

    def __init__(self, project: Project, name: str, folder: Path, say: Say) -> None:
        self.project, self.name, self.folder, self.say = project, name, folder, say
        self.settings: ImproverSettings = improver(project.settings, name)
        self.repository = Repository(project.folder / self.settings.repository)
        self.state = RunState(Journal(folder / "journal.jsonl"))
        self.snapshots = folder / "snapshots"
        self.rules = self._rules(())
        self.tree: Worktree
        self.evaluation: ProposalEvaluation
        self._learns = True
        self._began = time.monotonic()
        self._spent_before = self.state.spent_s

    @property
    def branch(self) -> str:
        return f"improve/{self.name}-{self.folder.name}"

    @property
    def results(self) -> Path:
        return self.folder / "results.tsv"

    def spent_s(self) -> float:
        """Seconds that this run has used, in all of its processes."""
        return self._spent_before + time.monotonic() - self._began

    def _rules(self, protected: Sequence[str]) -> FileRules:
        settings, folder = self.settings, self.project.settings.directory
        return FileRules(
            files=settings.files,
            read_only=(*settings.read_only, *protected),
            most_files=settings.most_files,
            readable=[folder / name for name in settings.readable],
        )

    def share(self) -> float:
        """The part of the error budget that the next test may spend."""
        tested, kept = sum(result.pairs > 0 for result in self.state.results), len(self.state.kept)
        rounds = self.state.start.get("rounds", self.settings.rounds)
        return share_of(self.settings.alpha, tested=tested, kept=kept, rounds=rounds)

    # -- opening

    def open(self) -> None:
        """Start the run, or continue it where its journal ends."""
        state = self.state
        reward_signal(self.project, self.settings.task)
        check_repeats(self.settings)
        if not state.begun:
            self.repository.check_clean()
        base = str(state.start["base"]) if state.begun else self.repository.head()
        self.tree = self.repository.worktree(self.folder / "worktree", base)
        files = self.tree.files()
        named = named_by(self.settings.eval, files)
        check_collected(named, files, self.tree.folder)
        self.rules = self._rules(named)
        linked = self.tree.linked([name for name in files if self.rules.is_read_only(name)])
        self.rules = self._rules([*named, *linked])
        remove_tree(self.snapshots)
        self.evaluation = ProposalEvaluation(
            self.settings,
            self.rules,
            self.project.folder,
            self.folder / "scratch",
            protected=self.snapshot("protected"),
        )
        self.say(f"sandbox: {self.evaluation.sandbox}")
        if not state.begun:
            self._start(base)
            return
        self.say(f"continuing run {self.folder.name} at round {state.round}")
        if state.kept:
            self._move_branch()
        if state.unrecorded is not None:
            self._record(state.unrecorded)

    def _start(self, base: str) -> None:
        """Measure the unchanged files once: an evaluation that fails on them would fail on everything."""
        measured = self.evaluation.measure(self.snapshot("base"))
        if measured.value is None:
            raise failed_on_base(measured)
        for pattern in self.rules.unmatched(self.tree.files()):
            self.say(f"read_only: {pattern!r} matches no file")
        self.state.add(
            "start",
            base=base,
            settings=digest(self.settings),
            rounds=self.settings.rounds,
            score=measured.value,
            others=dict(measured.others),
            sandbox=self.evaluation.sandbox,
        )

    def snapshot(self, name: str) -> Path:
        """A copy of the worktree as it is now; evaluations get copies of this copy."""
        target = self.snapshots / name
        remove_tree(target)
        with writing():
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.tree.copy(target)
        return target

    # -- rounds

    def step(self) -> RoundResult | None:
        """Play one round; None once the run has ended."""
        if self.over():
            return None
        result = play_round(self)
        if result.verdict == "kept":
            self._move_branch()
        self._record(result)
        self._retrain()
        return result

    def over(self) -> bool:
        """Whether there is no next round; ends the run then. May ask for proposals."""
        if not self.used_up() and self.state.open is None and not self.state.pending:
            self._propose()
            if not self.state.pending:
                self._end("no proposal is left")
        return bool(self.state.ended)

    def used_up(self) -> bool:
        """Whether the rounds, the time or the proposals of a file are used up; ends the run then."""
        state, settings = self.state, self.settings
        if not state.ended and state.open is None:
            if len(state.results) >= settings.rounds:
                self._end("all rounds are played")
            elif self.spent_s() >= settings.budget_s:
                self._end("the time budget is used up")
            elif settings.proposals and state.known and not state.pending:
                self._end("no proposal is left")
        return bool(state.ended)

    def _retrain(self) -> None:
        """Learn from the new outcomes if the task's `retrain_after` says so; the candidate waits for its proof."""
        task = self.settings.task
        if self._learns and self.project.due(task) == 0:
            try:
                self.say(f"learned {self.project.learn(task)} from {task!r}; next: headway prove {task}")
            except errors.HeadwayError as error:
                self._learns = False  # the same rows would fail again in the next round
                self.say(f"did not learn from {task!r}: {error}")

    def _propose(self) -> None:
        self.tree.reset(self.state.commit)
        paths = [path for path in self.tree.files() if self.rules.allows(path)]
        brief = Brief(
            improver=self.name,
            settings=self.settings,
            snapshot=self.snapshot("proposer"),
            paths=paths,
            results=[asdict(result) for result in self.state.results],
        )
        proposed = propose(self.project, brief)
        remove_tree(brief.snapshot)
        new = [proposal for proposal in proposed.proposals if proposal.title not in self.state.known]
        if proposed.unusable:
            self.say(f"{proposed.unusable} proposals could not be used")
        if new:
            self.state.add("proposals", proposals=msgspec.to_builtins(new), spent_s=self.spent_s())

    def _record(self, result: RoundResult) -> None:
        record(self.project, self.settings, result)
        self.state.add("recorded", round=result.round, spent_s=self.spent_s())
        write_results(self.results, (asdict(row) for row in self.state.results))

    def _move_branch(self) -> None:
        before, *_ = [*reversed([kept.commit for kept in self.state.kept[:-1]]), ""]
        self.repository.point(self.branch, self.state.commit, before=before)

    def _end(self, why: str) -> None:
        write_results(self.results, (asdict(row) for row in self.state.results))
        self.clean()
        self.state.add("end", why=why, spent_s=self.spent_s())

    def clean(self) -> None:
        """Remove everything but the journal, the results and the branch."""
        for name in ("scratch", "snapshots"):
            remove_tree(self.folder / name)
        self.repository.remove_worktree(self.folder / "worktree")


@contextmanager
def opened_run(project: Project, name: str, *, restart: bool = False, say: Say = lambda _: None) -> Iterator[Run]:
    """The unfinished run of an improver, or a new one; `restart` leaves an unfinished one as it is."""
    settings = improver(project.settings, name)
    home = (project.home / "improve" / name).absolute()
    with one_at_a_time(home, name):
        if restart:
            _end_damaged(project, name, home, say)
        run = _latest(project, name, home, say)
        unfinished = run.state.begun and not run.state.ended
        if unfinished and not restart and run.state.start["settings"] != digest(settings):
            raise errors.Conflict(
                f"[improve.{name}] has changed since its unfinished run {run.folder.name}.",
                code="run_settings_changed",
                hint=f"Undo the change to continue it, or start anew: headway improve {name} --restart",
            )
        if unfinished and restart:
            run.state.add("end", why="restarted")
            run.clean()
        if run.state.ended:
            run = Run(project, name, _next_folder(run), say)
        try:
            run.open()
            run.over()  # reads the first proposals
        except BaseException:
            if not run.state.begun:
                run.clean()
                shutil.rmtree(run.folder, ignore_errors=True)
            raise
        yield run


def _latest(project: Project, name: str, home: Path, say: Say) -> Run:
    """The latest run; the first one if there is none. It may have been killed before it started."""
    runs = _folders(home)
    if runs:
        return Run(project, name, runs[-1], say)
    return Run(project, name, _next_folder(Run(project, name, home / "000", say)), say)


def _folders(home: Path) -> list[Path]:
    return sorted(path for path in home.iterdir() if path.is_dir() and path.name.isdigit())


def _end_damaged(project: Project, name: str, home: Path, say: Say) -> None:
    """If the journal of the latest run cannot be read, set it aside: that run has ended."""
    for folder in _folders(home)[-1:]:
        try:
            Run(project, name, folder, say)
        except errors.Damaged as error:
            say(error.message)
            set_aside(folder / "journal.jsonl")
            Run(project, name, folder, say).clean()


def _next_folder(last: Run) -> Path:
    number = int(last.folder.name)
    while True:
        number += 1
        folder = last.folder.with_name(f"{number:03d}")
        if not last.repository.branch(f"improve/{last.name}-{folder.name}"):
            folder.mkdir(mode=0o700)
            return folder


def check_repeats(settings: ImproverSettings) -> None:
    """Refuse settings under which no proposal could ever be kept."""
    width = None if settings.range is None else settings.range[1] - settings.range[0]
    share = share_of(settings.alpha, tested=0, kept=0, rounds=settings.rounds)
    least = least_repeats(share, width=width)
    if settings.repeats < least:
        raise errors.InvalidSettings(
            f"`repeats` is {settings.repeats}, too few to keep anything at `alpha` = {settings.alpha:g} for "
            f"{settings.rounds:,} rounds.",
            code="too_few_repeats",
            hint=f"Set `repeats` to {least} or more, or plan fewer `rounds`. A small improvement needs more pairs.",
        )


def digest(settings: ImproverSettings) -> str:
    """A hash of the settings that define a run; its rounds and its time may be extended."""
    plain = msgspec.to_builtins(settings)
    for name in ("rounds", "budget_s"):
        plain.pop(name)
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()[:16]


def play_several(
    project: Project,
    names: Sequence[str],
    *,
    rounds: int | None = None,
    restart: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[Run, RoundResult | None]]:
    """Play rounds until every improver has ended, or `rounds` are played. (run, None): that run has ended."""
    with ExitStack() as stack:
        runs = {name: stack.enter_context(opened_run(project, name, restart=restart, say=say)) for name in names}
        played = 0
        while rounds is None or played < rounds:
            for name in [name for name, run in runs.items() if run.over()]:
                yield runs.pop(name), None
            if not runs:
                return
            name, decision = _next(project, list(runs))
            result = runs[name].step()
            assert result is not None, "a run that is over was taken out"
            played += 1
            if decision:
                reward = result.reward if result.verdict == "kept" and result.reward is not None else 0.0
                project.signal(decision, reward=max(0.0, reward))
            yield runs[name], result
        for run in runs.values():
            if run.used_up():
                yield run, None


def _next(project: Project, names: list[str]) -> tuple[str, str]:
    """The improver that plays next, and the id of the decision; no decision if there is only one."""
    if len(names) == 1:
        return names[0], ""
    decision = project.decide(CHOOSER, "", names)
    return decision.action, decision.id
