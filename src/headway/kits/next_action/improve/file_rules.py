"""Which files a proposal may change.

    rules = FileRules(files=("src/**",), read_only=("src/data/*.json",), most_files=3)
    rules.check(["src/a.py"])                 # nothing, or InvalidInput with the path and the rule
    rules.is_read_only("src/data/x.json")     # True

In a pattern, `*` and `?` stop at a slash, `**` does not, and a pattern that names a folder means everything in it.
`files` is compared as written; `read_only` without regard to case, because some file systems have none. Paths with a
part that starts with ".git" are never allowed: git reads such files itself and may run programs that they name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath

from headway.nouns.errors import InvalidInput

__all__ = ["FileRules", "checked_path", "named_by"]

_LONGEST = 1000
_DEEPEST = 40
_RECIPES = {  # what a program reads without being told
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile"),
    "npm": ("package.json",),
    "tox": ("tox.ini",),
}
_SHELL = re.compile(r"""[\s'"`$=;|&<>(){}]+""")  # between the words of `sh -c "cd x && python3 bench.py"`


class FileRules:
    """The rules of one improver."""

    def __init__(self, *, files: Sequence[str], read_only: Sequence[str], most_files: int) -> None:
        self._files = [_pattern(pattern, False) for pattern in files]
        self._read_only = [_pattern(pattern, True) for pattern in read_only]
        self._listed, self._named = ", ".join(files), tuple(read_only)
        self._most = most_files

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
                raise InvalidInput(
                    f"The proposal changes {path!r}, which is read-only.",
                    code="read_only_file",
                    hint="The evaluation and the paths in `read_only` stay as they are.",
                )
            if not any(pattern.fullmatch(path) for pattern in self._files):
                raise InvalidInput(
                    f"The proposal changes {path!r}, which is not in scope ({self._listed}).",
                    code="out_of_scope",
                    hint="Only paths that match `files` may change.",
                )
        if len(changed) > self._most:
            raise InvalidInput(
                f"The proposal changes {len(changed)} files, at most {self._most} are allowed.",
                code="too_many_files",
                hint="Propose a smaller change, or raise `most_files`.",
            )
        if not changed:
            raise InvalidInput("The proposal changes nothing.", code="empty_proposal", hint="Its edits have no effect.")


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
        raise InvalidInput(
            f"The path {path[:80]!r} is not allowed, expected a relative path inside the repository.",
            code="unsafe_path",
            hint="Without '..', a leading slash, a backslash or a colon, and not a file of git.",
        )
    return path


def named_by(command: Sequence[str], files: Iterable[str]) -> list[str]:
    """The files that a command names: as a word, in a line for a shell, as the module after `-m`, or as its recipe."""
    known = set(files)
    parts = [part for word in command for part in (word, *_SHELL.split(word)) if part]
    words = {str(PurePosixPath(part)) for part in parts}
    words |= {recipe for program in words & _RECIPES.keys() for recipe in _RECIPES[program]}
    for option, module in pairwise(parts):
        if option == "-m":
            path = module.replace(".", "/")
            words |= {f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py"}
    return sorted(words & known)


@lru_cache(maxsize=1024)
def _pattern(pattern: str, any_case: bool) -> re.Pattern[str]:
    text = pattern.removeprefix("./").rstrip("/")
    regex = ""
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", text):
        regex += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
    return re.compile(f"{regex}(?:/.*)?", re.DOTALL | (re.IGNORECASE if any_case else 0))
