"""The step of a new decision in its episode."""

from __future__ import annotations

from headway.nouns import Conflict
from headway.observe.database import Connection


def step_in(connection: Connection, episode: bytes, name: str, step: int | None, *, opening: bool) -> tuple[int, int]:
    """The step of a new decision and its position, which is 0 for the first one; Conflict if the step is taken.

    `opening`: it must be the first.
    """
    last = connection.execute("SELECT MAX(step) FROM decisions WHERE episode = ?", (episode,)).fetchone()[0]
    if opening and last is not None:
        raise Conflict(f"The episode {name!r} already has a draw.", code="draw_exists", hint="Read its first decision.")
    if step is None:
        step = 0 if last is None else last + 1
    elif connection.execute("SELECT 1 FROM decisions WHERE episode = ? AND step = ?", (episode, step)).fetchone():
        raise Conflict(
            f"Step {step} of the episode {name!r} is already decided.",
            code="step_conflict",
            hint=f"The next free step is {last + 1}; omit `step` to use it.",
        )
    return step, 0 if last is None else max(1, step)
