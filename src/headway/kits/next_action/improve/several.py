"""Several improvers: who plays the next round is a decision of the task `improve`, with propensity and outcome.

    for name, result in play_several(project, ["speed", "tests"], rounds=20): ...

The reward of such a decision is the reward of its round if the proposal was kept, else 0. So the task's policy learns
where effort pays; until one is promoted, every improver is equally likely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from headway.kits.next_action.improve.run import Run, opened_run
from headway.kits.next_action.improve.run_state import RoundResult

if TYPE_CHECKING:
    from headway.project import Project


CHOOSER = "improve"  # the task


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
