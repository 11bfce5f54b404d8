"""What one key may read, in time."""

from __future__ import annotations

import asyncio

import pytest

from headway.nouns.errors import Busy
from headway.serve.rate import ReadingTime


def test_a_key_reads_a_tenth_of_the_time() -> None:
    async def read(time: ReadingTime, seconds: float) -> bool:
        try:
            async with time.taken():
                await asyncio.sleep(seconds)
        except Busy as busy:
            return busy.code != "reading_limited" or busy.retry_after_s < 1.0
        return True

    async def attack() -> list[bool]:
        time = ReadingTime()
        together = await asyncio.gather(*(read(time, 0.6) for _ in range(12)))
        return [*together, await read(time, 0.0)]

    answered = asyncio.run(attack())
    assert answered == [True, True, *[False] * 11], "a burst of a second, one at a time; then nothing for a while"


def test_an_error_while_reading_is_counted_and_the_next_one_has_its_turn() -> None:
    async def attack() -> None:
        time = ReadingTime()
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                async with time.taken():
                    raise ZeroDivisionError

    asyncio.run(attack())
