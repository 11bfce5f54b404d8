"""Functions for the workers of a crew in tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.kits.crews.processes import ProcessCrew
from headway.nouns.errors import InvalidInput
from headway.nouns.kit import load
from headway.nouns.protocols import Crew, Progress


def square(shard: int) -> int:
    return shard * shard


def process(shard: int) -> int:
    return os.getpid()


def dies_first(shard: tuple[str, int]) -> int:
    """Ends its worker the first time that any worker gets this shard."""
    folder, number = shard
    mark = Path(folder, f"{number}")
    if number % 3 == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def always_dies(shard: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuses(shard: int) -> int:
    if shard == 2:
        raise InvalidInput("The shard 2 is bad.", code="bad_shard", hint="Use another.")
    return shard


def breaks(shard: int) -> float:
    return 1 / shard


def waits(shard: str) -> None:
    """Says that it is there, and never ends."""
    Path(shard).write_text(str(os.getpid()))
    signal.pause()


class MortalCrew(ProcessCrew):
    """Every second shard's worker is killed when its work is done, before anybody hears of it."""

    def __init__(self, workers: int, folder: Path) -> None:
        super().__init__(workers)
        self.folder = folder

    def map(
        self, work: str, shards: Sequence[Any], *, what: str = "", progress: Progress | None = None
    ) -> Iterator[Any]:
        mortal = [(self.folder, number, work, shard) for number, shard in enumerate(shards)]
        return super().map("tests.kits.crews.crew_work:killed_once", mortal, what=what, progress=progress)

    @contextmanager
    def held(self) -> Iterator[Crew]:
        with super().held() as crew:
            yield MortalHeldCrew(crew, self.folder)

    @property
    def killed(self) -> int:
        return len(list(self.folder.iterdir()))


class MortalHeldCrew:
    """The same for workers that stay, in the third call of `map`: until then they have kept something to lose."""

    def __init__(self, crew: Crew, folder: Path) -> None:
        self.workers, self.folder, self._crew, self._calls = crew.workers, folder, crew, 0

    def map(
        self, work: str, shards: Sequence[Any], *, what: str = "", progress: Progress | None = None
    ) -> Iterator[Any]:
        self._calls += 1
        if self._calls == 3:
            shards = [(self.folder, number, work, shard) for number, shard in enumerate(shards)]
            work = "tests.kits.crews.crew_work:killed_once"
        return self._crew.map(work, shards, what=what, progress=progress)


def killed_once(shard: tuple[Path, int, str, Any]) -> Any:
    folder, number, work, real = shard
    result = load(work)(real)
    mark = folder / str(number)
    if number % 2 == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return result
