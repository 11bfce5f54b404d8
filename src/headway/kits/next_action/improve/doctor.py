"""The check of `headway doctor` for improvers: would a run start, and is what should be protected really there?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from shutil import which

from headway.kits.next_action.improve.file_rules import FileRules, check_collected, named_by
from headway.kits.next_action.improve.repository import Repository, Worktree
from headway.kits.next_action.improve.run import check_repeats
from headway.kits.next_action.improve.settings import ImproverSettings, improvers
from headway.kits.sandbox import PATH, sandbox
from headway.nouns import Finding, errors
from headway.settings import Settings

_PYTHON = ("python", "python3")
_SCRIPTED = (*_PYTHON, "sh", "bash")  # their first word is a file, unless it is an option


def check(settings: Settings) -> Iterator[Finding]:
    """Every problem of every improver; one line for an improver without any."""
    for name, improver in improvers(settings).items():
        problems = list(_problems(improver, settings))
        for found, cure in problems:
            yield Finding(name=f"improver {name}", ok=False, found=found, cure=cure)
        if not problems:
            yield Finding(name=f"improver {name}", ok=True, found=f"can run: {' '.join(improver.eval)}")


def _problems(improver: ImproverSettings, settings: Settings) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to do)."""
    directory = settings.directory
    readable = tuple((directory / name).resolve() for name in improver.readable)
    try:
        settings.task(improver.task)
        check_repeats(improver)
        sandbox(improver.sandbox, workspace=True, readable=readable)
        tree = Worktree(Repository(directory / improver.repository).folder)
        files = tree.files()
        check_collected(named_by(improver.eval, files), files, tree.folder)
    except errors.HeadwayError as error:
        yield error.message, error.hint
        return
    rules = FileRules(files=improver.files, read_only=improver.read_only, most_files=improver.most_files)
    for pattern in rules.unmatched(files):
        yield (
            f"read_only names {pattern!r}, and no file that git tracks matches",
            f"Correct it in [improve.…], or commit the file: as it is, {pattern!r} protects nothing.",
        )
    for name, path in zip(improver.readable, readable, strict=True):
        if not path.exists():
            yield f"readable names {name!r}, which does not exist", "Correct it, or create the path."
    if improver.proposals and not (directory / improver.proposals).is_file():
        yield f"the file of proposals {improver.proposals!r} does not exist", "Write it: one JSON object per line."
    missing = _missing_program(improver, set(files), directory)
    if missing:
        yield (
            f"eval names {missing!r}, which is not found",
            f"The evaluation sees the files that git tracks, the programs in {PATH}, and `readable`.",
        )


def _missing_program(improver: ImproverSettings, files: set[str], directory: Path) -> str:
    """The program or script of `eval` that the sandbox would not have; "" if both are there."""
    program, *words = improver.eval
    if program not in _PYTHON and not _there(program, improver, files, directory):
        return program
    script = words[0] if words and PurePosixPath(program).name in _SCRIPTED else ""
    if script and not script.startswith("-") and not _there(script, improver, files, directory):
        return script
    return ""


def _there(word: str, improver: ImproverSettings, files: set[str], directory: Path) -> bool:
    path = PurePosixPath(word)
    if any(path.is_relative_to(PurePosixPath(name)) for name in improver.readable):
        return (directory / word).exists()
    if str(path) in files:
        return True
    return Path(word).exists() if path.is_absolute() else "/" not in word and which(word, path=PATH) is not None
