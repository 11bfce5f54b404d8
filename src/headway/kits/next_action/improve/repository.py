"""git for `headway improve`: a worktree of its own, one commit per proposal, and a branch for the best.

    repository = Repository(Path("."))
    tree = repository.worktree(folder, repository.head())
    commit = tree.apply(proposal, rules, base)     # the commit, or InvalidInput with the rule that it breaks
    repository.point("improve/speed", commit)

git runs without hooks, file system monitors, signatures, and without the configuration of user and system: a proposal
cannot make it start a program. What a proposal really changed is read from the commit, not from what it claims.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shutil import which

from headway.client import run
from headway.files import read_regular
from headway.kits.next_action.improve.file_rules import FileRules, checked_path
from headway.kits.next_action.improve.proposals import Edit, Proposal
from headway.nouns import errors

_GIT_S = 120.0
_REGULAR = {"100644", "100755"}
_QUIET = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "commit.gpgSign=false",
    "core.attributesFile=/dev/null", "gc.auto=0", "maintenance.auto=false", "advice.detachedHead=false",
    "core.autocrlf=false", "core.quotePath=false",
)  # fmt: skip
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_AUTHOR_NAME": "headway improve",
    "GIT_AUTHOR_EMAIL": "improve@headway.invalid",
    "GIT_COMMITTER_NAME": "headway improve",
    "GIT_COMMITTER_EMAIL": "improve@headway.invalid",
}


class Repository:
    """The user's repository: only its branch list and its list of worktrees are ever changed."""

    def __init__(self, folder: Path) -> None:
        if which("git") is None:
            raise errors.Unavailable(
                "headway improve needs the program 'git'.", code="git_missing", hint="Install git."
            )
        try:
            self.folder = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
        except errors.InvalidInput as error:
            foreign = "dubious ownership" in error.message
            raise errors.InvalidInput(
                f"git cannot use {str(folder)!r}: {error.message.splitlines()[0]}",
                code="no_repository",
                hint="It belongs to another user: run this as that user."
                if foreign
                else "Create a repository with `git init`, and commit the files.",
            ) from None

    def head(self) -> str:
        try:
            return _git(self.folder, "rev-parse", "--verify", "HEAD^{commit}").strip()
        except errors.InvalidInput:
            raise errors.InvalidInput(
                f"The repository {str(self.folder)!r} has no commit.", code="no_repository", hint="Commit the files."
            ) from None

    def check_clean(self) -> None:
        """Refuse to work from a tree with changes that are not committed: they would be missing."""
        status = _git(self.folder, "status", "--porcelain", "-z", "--untracked-files=no")
        if status:
            first = status.split("\0")[0][3:]
            raise errors.Conflict(
                f"{first!r} has changes that are not committed.",
                code="dirty_tree",
                hint="Commit them, or put them aside with `git stash`. Proposals are applied to the last commit.",
            )

    def worktree(self, folder: Path, commit: str) -> Worktree:
        """A new worktree in that folder; what a killed run left there is removed first, with its locks."""
        self.remove_worktree(folder)
        # Twice: git itself locks a worktree while it makes one, and a killed git leaves the lock.
        _git(self.folder, "worktree", "add", "--quiet", "--detach", "--force", "--force", str(folder), commit)
        return Worktree(folder)

    def remove_worktree(self, folder: Path) -> None:
        """Remove our worktree and git's note of it; other worktrees are left alone, missing ones too."""
        with suppress(errors.InvalidInput):
            _git(self.folder, "worktree", "remove", "--force", "--force", str(folder))
        shutil.rmtree(folder, ignore_errors=True)

    def point(self, branch: str, commit: str, *, before: str) -> None:
        """Move the branch from one commit (or from nothing, "") to another; refused if somebody else moved it."""
        there = self.branch(branch)
        if there not in (before, commit):
            raise errors.Conflict(
                f"The branch {branch!r} is at {there[:12]}, expected {before[:12] or 'no such branch'}.",
                code="branch_moved",
                hint="Rename the branch, and run it again: it continues where it stopped.",
            )
        if there == commit:
            return
        try:
            _git(self.folder, "branch", "--force", "--no-track", branch, commit)
        except errors.InvalidInput as error:
            if "cannot force update" not in error.message:
                raise
            raise errors.Conflict(
                f"The branch {branch!r} is checked out, so it cannot be moved to {commit[:12]}.",
                code="branch_in_use",
                hint="Check out another branch, and run it again: it continues where it stopped.",
            ) from None

    def branch(self, name: str) -> str:
        """The commit of a branch; "" if there is none."""
        with suppress(errors.InvalidInput):
            return _git(self.folder, "rev-parse", "--verify", "--quiet", f"refs/heads/{name}").strip()
        return ""


class Worktree:
    """A checkout that only this program writes to; evaluations get a copy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def reset(self, commit: str) -> None:
        """Exactly the files of that commit."""
        _git(self.folder, "checkout", "--quiet", "--force", "--detach", commit)
        _git(self.folder, "clean", "--quiet", "-ffdx")

    def files(self) -> list[str]:
        """Every tracked file."""
        return [name for name in _git(self.folder, "ls-files", "-z").split("\0") if name]

    def linked(self, names: Sequence[str]) -> list[str]:
        """What the links among these files point to, where it is in this tree."""
        root = self.folder.resolve()
        places = [(root / name).resolve() for name in names if (root / name).is_symlink()]
        return [place.relative_to(root).as_posix() for place in places if root in place.parents]

    def apply(self, proposal: Proposal, rules: FileRules, base: str) -> str:
        """The commit that makes this change to `base`; InvalidInput if a rule forbids it. The tree is left there."""
        self.reset(base)
        try:
            if proposal.patch:
                self._patch(proposal.patch, rules)
            else:
                rules.check(edit.path for edit in proposal.edits)
                for edit in proposal.edits:
                    self._edit(edit)
            _git(self.folder, "add", "--all", "--force")
            changed = self._changed(base)
            rules.check(changed)
            known = _git(self.folder, "ls-tree", "-r", "--name-only", "-z", base).split("\0")[:-1]
            rules.check_added(changed, set(changed) - set(known), known)
            self._check_text(changed, rules)
            _git(
                self.folder, "commit", "--quiet", "--no-verify", "--cleanup=verbatim", "--file=-",
                data=_message(proposal),
            )  # fmt: skip
        except OSError as error:
            self.reset(base)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _disk_full() from None
            reason = error.strerror or type(error).__name__
            raise errors.InvalidInput(
                f"An edit cannot be made: {reason}.", code="bad_edit", hint="Check its path."
            ) from None
        except BaseException:
            self.reset(base)
            raise
        return _git(self.folder, "rev-parse", "HEAD").strip()

    def copy(self, target: Path) -> None:
        """The files without git's own, in a new folder; links stay links."""

        def of_git(folder: str, _: list[str]) -> list[str]:
            return [".git"] if Path(folder) == self.folder else []

        shutil.copytree(self.folder, target, symlinks=True, ignore=of_git)

    # -- one change

    def _patch(self, patch: str, rules: FileRules) -> None:
        data = patch if patch.endswith("\n") else patch + "\n"
        try:
            counted = _git(self.folder, "apply", "--numstat", "-z", "-", data=data)
            rows = [row.split("\t", 2) for row in counted.split("\0") if row.count("\t") == 2]
            rules.check(path for _, _, path in rows)
            for added, _, path in rows:
                if added == "-" and not rules.asked_for(path):
                    raise _binary(path)
            _git(self.folder, "apply", "--whitespace=nowarn", "-", data=data)
        except errors.InvalidInput as error:
            if error.code != "git_failed":
                raise
            raise errors.InvalidInput(
                f"The patch does not apply: {error.message.splitlines()[0]}",
                code="bad_patch",
                hint="Make it against the best commit.",
            ) from None

    def _edit(self, edit: Edit) -> None:
        path = self._inside(edit.path)
        if edit.delete:
            _existing(path, edit.path).unlink()
            return
        if edit.content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = edit.content
        else:
            assert edit.find is not None
            assert edit.replace is not None
            before = _read(_existing(path, edit.path), edit.path)
            count = before.count(edit.find)
            if count != 1:
                raise errors.InvalidInput(
                    f"The text to replace in {edit.path!r} occurs {count} times, expected once.",
                    code="bad_edit",
                    hint="Give a longer passage in `find`.",
                )
            text = before.replace(edit.find, edit.replace)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def _inside(self, name: str) -> Path:
        """The place of a file in this tree; no part of the way may be a link."""
        path = self.folder
        for part in Path(checked_path(name)).parts:
            path = path / part
            if path.is_symlink():
                raise errors.InvalidInput(
                    f"The path {name!r} goes through a symbolic link.",
                    code="unsafe_path",
                    hint="Change the file that the link points to, if it is in scope.",
                )
        return path

    def _changed(self, base: str) -> list[str]:
        """The paths that differ from `base`, in the index; only regular files may."""
        rows = _git(self.folder, "diff", "--cached", "--raw", "--no-renames", "--no-ext-diff", "-z", base).split("\0")
        paths = []
        for about, path in zip(rows[::2], rows[1::2], strict=False):
            before, after = about.lstrip(":").split(" ")[:2]
            if not {before, after} <= {*_REGULAR, "000000"}:
                raise errors.InvalidInput(
                    f"The proposal makes {path!r} a link or a submodule, or changes one.",
                    code="unsafe_path",
                    hint="Only regular files may change.",
                )
            paths.append(path)
        return paths

    def _check_text(self, changed: Sequence[str], rules: FileRules) -> None:
        """Refuse binary content: nobody can read what it does."""
        for name in changed:
            path = self.folder / name
            if path.is_file() and b"\0" in read_regular(path) and not rules.asked_for(name):
                raise _binary(name)


def _binary(name: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"The proposal makes {name!r} a binary file.",
        code="shadows_evaluation",
        hint="If proposals may do this, put exactly this path into `files`.",
    )


def _existing(path: Path, name: str) -> Path:
    if not path.is_file():
        raise errors.InvalidInput(
            f"There is no file {name!r} to change.", code="bad_edit", hint="Give its whole `content`."
        )
    return path


def _read(path: Path, name: str) -> str:
    try:
        return read_regular(path).decode("utf-8")
    except UnicodeDecodeError:
        raise errors.InvalidInput(
            f"The file {name!r} is not UTF-8, so a passage of it cannot be replaced.", code="bad_edit"
        ) from None


def _message(proposal: Proposal) -> str:
    """The commit message: the proposal's words on one line, cut to length."""
    words = " ".join(proposal.title.split())
    return f"{words[:72]}\n\nProposed and evaluated by headway improve.\n"


def _disk_full() -> errors.Unavailable:
    return errors.Unavailable(
        "The disk is full.", code="disk_full", hint="Free some space, and run it again: it continues."
    )


def _git(folder: Path, *arguments: str, data: str = "") -> str:
    settings = [word for setting in _QUIET for word in ("-c", setting)]
    output = run(
        [which("git") or "git", "-C", str(folder), *settings, *arguments],
        data.encode(),
        timeout_s=_GIT_S,
        env=_ENVIRONMENT,
    )
    complaint = output.stderr.decode("utf-8", "replace").strip()
    if "No space left on device" in complaint:
        raise _disk_full()
    if output.timed_out or output.status != 0:
        reason = f"git {arguments[0]} took longer than {_GIT_S:.0f} s" if output.timed_out else complaint[-300:]
        raise errors.InvalidInput(
            reason or f"git {arguments[0]} failed", code="git_failed", hint="Run git there by hand."
        )
    return output.stdout.decode("utf-8", "surrogateescape")
