"""Which files a proposal may change.

    rules = FileRules(files=("src/**",), read_only=("src/data/*.json",), most_files=3)
    rules.check(["src/a.py"])                 # nothing, or InvalidInput with the path and the rule
    rules.is_read_only("src/data/x.json")     # True

In a pattern, `*` and `?` stop at a slash, `**` does not, and a pattern that names a folder means everything in it.
`files` is compared as written; `read_only` without regard to case, because some file systems have none. Paths with a
part that starts with ".git" are never allowed: git reads such files itself and may run programs that they name.

The evaluation is also what its programs read without being told, and what they would read instead of a file that is
there: `check_added` refuses a `conftest.py`, a `GNUmakefile`, a `bench/` beside `bench.py`, a `random.py` beside a
script, and bytecode, unless `files` has exactly that path.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.machinery import PathFinder
from itertools import pairwise
from pathlib import Path, PurePosixPath

from headway.files import read_regular
from headway.nouns import errors

_LONGEST = 1000
_DEEPEST = 40
_READ_UNASKED = {
    name.casefold()
    for name in (
        "GNUmakefile", "Makefile", "justfile", "package.json", "conftest.py", "pytest.ini", "pyproject.toml", "tox.ini",
        "setup.cfg", "noxfile.py", "sitecustomize.py", "usercustomize.py", "pyvenv.cfg", "__pycache__", "node_modules",
    )
}  # fmt: skip
_CONFIGS = {"pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"}  # of pytest
_BINARY = {".pyc", ".pyo", ".pyd", ".so", ".pth"}  # `.pth` is a text that Python runs
_RECIPES = {  # what a program reads without being told
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile"),
    "npm": ("package.json",),
    "tox": ("tox.ini",),
}
_TEST_RUNNERS = {"pytest", "py.test", "unittest", "nose2"}  # what they are pointed at is the evaluation
_COLLECTED = ("**/test*.py", "**/*_test.py", "**/test/**", "**/tests/**")  # or this, if it is nothing
_SHELL = re.compile(r"""[\s'"`$=;|&<>(){}]+""")  # between the words of `sh -c "cd x && python3 bench.py"`


class FileRules:
    """The rules of one improver."""

    def __init__(
        self, *, files: Sequence[str], read_only: Sequence[str], most_files: int, readable: Sequence[Path] = ()
    ) -> None:
        """`readable`: more places from which the evaluation may import."""
        self._files = [_pattern(pattern, False) for pattern in files]
        self._read_only = [_pattern(pattern, True) for pattern in read_only]
        self._listed, self._named = ", ".join(files), tuple(read_only)
        self._most, self._files_as_written = most_files, {pattern.removeprefix("./") for pattern in files}
        self._imported = [str(place) for root in readable for place in (root, *root.glob("lib*/python*/site-packages"))]
        self._imported += [place for place in sys.path if "site-packages" in place]

    def is_read_only(self, path: str) -> bool:
        return any(pattern.fullmatch(path) for pattern in self._read_only)

    def unmatched(self, paths: Iterable[str]) -> list[str]:
        """The patterns of `read_only` that match none of these files."""
        listed = list(paths)
        pairs = zip(self._named, self._read_only, strict=True)
        return [name for name, pattern in pairs if not any(map(pattern.fullmatch, listed))]

    def allows(self, path: str) -> bool:
        """Whether a proposal may change this file."""
        return any(pattern.fullmatch(path) for pattern in self._files) and not self.is_read_only(path)

    def check(self, paths: Iterable[str]) -> None:
        """Raise the reason why a proposal must not change these files."""
        changed = sorted({checked_path(path) for path in paths})
        for path in changed:
            if self.is_read_only(path):
                raise errors.InvalidInput(
                    f"The proposal changes {path!r}, which is read-only.",
                    code="read_only_file",
                    hint="The evaluation and the paths in `read_only` stay as they are.",
                )
            if not any(pattern.fullmatch(path) for pattern in self._files):
                raise errors.InvalidInput(
                    f"The proposal changes {path!r}, which is not in scope ({self._listed}).",
                    code="out_of_scope",
                    hint="Only paths that match `files` may change.",
                )
        if len(changed) > self._most:
            raise errors.InvalidInput(
                f"The proposal changes {len(changed)} files, at most {self._most} are allowed.",
                code="too_many_files",
                hint="Propose a smaller change, or raise `most_files`.",
            )
        if not changed:
            raise errors.InvalidInput(
                "The proposal changes nothing.", code="empty_proposal", hint="Its edits have no effect."
            )

    def asked_for(self, path: str) -> bool:
        """Whether `files` has exactly this path."""
        return path in self._files_as_written

    def check_added(self, changed: Iterable[str], added: Iterable[str], known: Iterable[str]) -> None:
        """Raise the reason why the evaluation might read one of these files instead of its own.

        `added` are those of `changed` that are new; `known` are the files that were there.
        """
        before, new = set(known), set(added)
        folders = {str(folder) for path in before for folder in PurePosixPath(path).parents}
        for path in sorted(set(changed) - self._files_as_written):
            why = _read_unasked(path) or (self._instead(path, before, folders) if path in new else "")
            if why:
                raise errors.InvalidInput(
                    f"The proposal {'adds' if path in new else 'changes'} {path!r}: {why}.",
                    code="shadows_evaluation",
                    hint="If proposals may do this, put exactly this path into `files`.",
                )

    def _instead(self, path: str, known: set[str], folders: set[str]) -> str:
        """Why a new file may be read instead of another one; empty if it cannot."""
        module, *parents = PurePosixPath(path).with_suffix(""), *PurePosixPath(path).parents
        # Python imports from the folder of a script first, also if that is a package.
        beside = {str(PurePosixPath(one).parent) for one in known if one.endswith(".py") and self.is_read_only(one)}
        places = [place for place in parents if str(place) not in folders or path == f"{place}/__init__.py"]
        hidden = next((f"{place}.py" for place in places if f"{place}.py" in known), "")
        if hidden:
            return f"a folder of this name hides {hidden!r}"
        if not path.endswith(".py"):
            return ""
        if str(module) in folders:
            return f"a module of this name hides the folder {str(module)!r}"
        outside = [place.name for place in (module, *places) if str(place.parent) not in _packages(known) - beside]
        installed = next(filter(self._is_installed, outside), "")
        return f"it may be imported instead of the installed module {installed!r}" if installed else ""

    def _is_installed(self, module: str) -> bool:
        if not module.isidentifier():
            return False
        return module in sys.stdlib_module_names or PathFinder.find_spec(module, self._imported) is not None


def _packages(files: Iterable[str]) -> set[str]:
    """The folders that are packages of Python."""
    paths = map(PurePosixPath, files)
    return {str(path.parent) for path in paths if path.name == "__init__.py"}


def _read_unasked(path: str) -> str:
    """Why programs read this file without being told to; empty if they do not."""
    parts = PurePosixPath(path).parts
    if any(part.startswith(".") for part in parts):
        return "programs read hidden files without being told to"
    if PurePosixPath(path).suffix.casefold() in _BINARY:
        return "Python runs such files without their source"
    found = next((part for part in parts if part.casefold() in _READ_UNASKED), "")
    return f"programs read {found} without being told to" if found else ""


def checked_path(path: str) -> str:
    """The path if it is a plain relative one; InvalidInput otherwise."""
    parts = PurePosixPath(path).parts
    plain = (
        0 < len(path) <= _LONGEST
        and len(parts) <= _DEEPEST
        and not path.startswith("/")
        and str(PurePosixPath(path)) == path
        and not any(part == ".." or part.casefold().startswith(".git") for part in parts)
        and not any(ord(letter) < 32 or ord(letter) == 127 or letter in "\\:" for letter in path)
    )
    if not plain:
        raise errors.InvalidInput(
            f"The path {path[:80]!r} is not allowed, expected a relative path inside the repository.",
            code="unsafe_path",
            hint="Without '..', a leading slash, a backslash or a colon, and not a file of git.",
        )
    return path


def named_by(command: Sequence[str], files: Iterable[str]) -> list[str]:
    """What a command names: files as words, in a line for a shell, as the module after `-m`, or as its recipe; and the
    folders that it gives to a test runner, or patterns of what that collects if it gives none."""
    known = set(files)
    parts = [part for word in command for part in (word, *_SHELL.split(word)) if part]
    words = {str(PurePosixPath(part)) for part in parts}
    words |= {recipe for program in words & _RECIPES.keys() for recipe in _RECIPES[program]}
    for option, module in pairwise(parts):
        if option == "-m":
            path = module.replace(".", "/")
            words |= {f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py"}
    if words & _TEST_RUNNERS:
        tested = _tested(parts, known)
        return sorted((words & known) | tested) if tested is not None else [*sorted(words & known), *_COLLECTED]
    return sorted(words & known)


def _tested(parts: Sequence[str], files: set[str]) -> set[str] | None:
    """The files and folders that a test runner is pointed at; None: at nothing that holds tests."""
    asides = {after for before, after in pairwise(parts) if before in ("cd", "pushd", "-C")}
    named = {str(PurePosixPath(part.split("::")[0])) for part in parts if part not in asides}
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents} & named - {"."}
    if not folders and not any(path.endswith(".py") for path in named & files):
        return None
    return (named & files) | folders


def check_collected(named: Sequence[str], files: Sequence[str], folder: Path) -> None:
    """Refuse a test runner without a path whose tests cannot be told from other files by their names."""
    if _COLLECTED[0] not in named:
        return
    rules = FileRules(files=(), read_only=_COLLECTED, most_files=1)
    why = "" if any(map(rules.is_read_only, files)) else "no file has a name by which tests are found"
    for name in _CONFIGS & set(files):
        if b"python_files" in read_regular(folder / name):
            why = f"{name!r} sets `python_files`"
    if why:
        raise errors.InvalidInput(
            f"`eval` runs tests without naming them, and {why}, so a proposal could change them.",
            code="tests_not_named",
            hint='Name their folder, such as ["pytest", "checks"].',
        )


@lru_cache(maxsize=1024)
def _pattern(pattern: str, any_case: bool) -> re.Pattern[str]:
    text = pattern.removeprefix("./").rstrip("/")
    regex = ""
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", text):
        regex += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
    return re.compile(f"{regex}(?:/.*)?", re.DOTALL | (re.IGNORECASE if any_case else 0))
