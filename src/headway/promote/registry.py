"""The policies of a project: bundles by content hash, looked up by reference.

registry.find("bandit@4f2a")                   # an unambiguous prefix of the hash is enough
registry.load(digest, task="route")            # verified; a second load of the same files does not hash them again
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headway.nouns import Header, PolicyRef, errors
from headway.promote import bundle
from headway.promote.bundle import VerifiedFiles

if TYPE_CHECKING:
    from headway.promote.bundle import Tensors


_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


class Registry:
    """Bundles under one folder, each in a folder named by its hash."""

    def __init__(self, root: Path, rewritten: Callable[[str], Container[str]] | None = None) -> None:
        self.root = root
        self._rewritten = rewritten  # digest → the other hashes that the ledger vouches for
        self._verified = VerifiedFiles()

    def add(self, header: Header, tensors: Tensors) -> PolicyRef:
        return self._shortest(header.family, bundle.write(self.root, header, tensors))

    def load(self, digest: str, *, task: str) -> tuple[Header, Tensors]:
        """A verified bundle; refused if it was learned for another task.

        The hash is computed once per process while the files are unchanged (`bundle.VerifiedFiles`), so that a
        promotion, which loads a bundle to check it and again to serve it, hashes it once.
        """
        header, tensors = self.read(digest)
        if header.task != task:
            raise errors.InvalidInput(
                f"{header.family}@{digest[:4]} was learned for the task {header.task!r}, not {task!r}.",
                code="wrong_task",
                hint=f"Learn one for it: headway learn {task}",
            )
        return header, tensors

    def read(self, digest: str) -> tuple[Header, Tensors]:
        """A verified bundle of any task."""
        return bundle.read(self.root, digest, self._verified, self._rewritten)

    def prepare(self, digest: str, header: Header) -> str:
        """Put a new header beside the one of a bundle, for `finish`; the hash that it gives."""
        return bundle.prepare(self.root, digest, header)

    def finish(self) -> None:
        """Put new headers in their place, if the ledger vouches for them; also those that a killed process left."""
        for digest in self.digests():
            with suppress(errors.Damaged):
                bundle.finish(self.root, digest, () if self._rewritten is None else self._rewritten(digest))

    def holds(self, digest: str) -> bool:
        """Whether the bundle exists, damaged or not."""
        return (self.root / digest).is_dir()

    def remove(self, digest: str) -> bool:
        """Delete a bundle; False if it does not exist or is being loaded."""
        return bundle.remove(self.root, digest)

    def header(self, digest: str) -> Header:
        return bundle.read_header(self.root, digest)

    def find(self, ref: str) -> str:
        """The content hash behind a reference."""
        parsed = PolicyRef.parse(ref)
        matches = [digest for digest in self.digests() if digest.startswith(parsed.digest)]
        matches = [digest for digest in matches if self._family(digest) in (parsed.family, None)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise errors.InvalidInput(
                f"{ref!r} fits {len(matches)} policies.",
                code="ambiguous_reference",
                hint="Write more digits: " + ", ".join(f"{parsed.family}@{match[:12]}" for match in matches[:3]),
            )
        known = [f"{self._family(digest) or 'damaged'}@{digest[:4]}" for digest in self.digests()]
        raise errors.UnknownName(
            f"There is no policy {ref!r}.", code="unknown_policy", hint=errors.did_you_mean(ref, known)
        )

    def ref(self, digest: str) -> PolicyRef:
        """The shortest unambiguous reference to this bundle, with at least four digits."""
        return self._shortest(self.header(digest).family, digest)

    def digests(self) -> Iterator[str]:
        if self.root.is_dir():
            yield from sorted(folder.name for folder in self.root.iterdir() if _DIGEST.match(folder.name))

    def _family(self, digest: str) -> str | None:
        try:
            return self.header(digest).family
        except errors.Damaged:
            return None

    def _shortest(self, family: str, digest: str) -> PolicyRef:
        others = [other for other in self.digests() if other != digest]
        length = 4
        while any(other.startswith(digest[:length]) for other in others):
            length += 1
        return PolicyRef(family, digest[:length])
