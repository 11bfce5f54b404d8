"""The work that is due for a task, from its state (`Project.standing`), so that a restart resumes.

- **guard**: a canary, an experiment or a promoted policy may be worse than the one it replaced, and enough new
  outcomes have settled since the last check. A promotion on its way takes its next step.
- **turn**: the test of a candidate is over, and a shadow was learned meanwhile: it is the next candidate.
- **learn**: enough newly settled decisions (`Standing.learns`); a shadow while a candidate is under test.
- **prove**: there are new outcomes, or votes on replies, since the last look at the candidate, and its test runs.
- **act**: the gate admits the candidate, and `promote = "auto"`.

A verdict that passed and waits for a person stops the rest: nothing replaces the candidate meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.promote import Standing

_LEAST = 25  # new outcomes between two checks of the same question, and …
_SHARE = 10  # … a tenth of the earlier number: the checks grow with the logarithm of the data
_TEST_SHARE = 20  # likewise for the rows of a test


@dataclass(slots=True)
class Marks:
    """The loop's memory of a task; losing it costs one more check."""

    guarded: int = -1  # settled decisions at the last guard
    window: tuple[int, ...] = ()  # the ledger rows that it counted from: promotion, open alarm, what has a share
    window_start: int = 0  # settled decisions at its first guard since then
    proved: dict[str, int] = field(default_factory=dict)  # `question` → `Standing.judged` at the last look
    failures: int = 0
    not_before: float = 0.0
    last: float = 0.0  # when its last cycle began
    reported: str = ""  # the last line that was printed


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The work of a cycle."""

    guard: bool = False
    turn: bool = False
    learn: bool = False
    prove: bool = False
    act: bool = False

    @property
    def why(self) -> str:
        return ", ".join(name for name in ("guard", "turn", "learn", "prove", "act") if getattr(self, name))


def due(standing: Standing, marks: Marks, *, may_train: bool = True) -> Due:
    """The work to do now. Guarding and acting on a verdict need no permission; learning and proving do."""
    if standing.kit_missing:
        return Due()  # the current policy cannot be loaded: nothing can be compared with it
    guard = guards(standing, marks)
    if standing.ramp is not None:
        return Due(guard=guard)  # the guard takes the next step; nothing takes the place of what is promoted
    act = standing.acts
    if may_train and standing.too_young and standing.final:
        return Due(guard=guard, prove=standing.settled > marks.proved.get(question(standing), -1))
    if not may_train or (standing.waits and standing.decided) or act:
        return Due(guard=guard, act=act)
    if standing.turn or standing.learns:
        return Due(guard=guard, turn=standing.turn, learn=standing.learns, prove=True)
    return Due(guard=guard, prove=_proves(standing, marks.proved))


def enough(now: int, then: int, start: int = 0) -> bool:
    """Whether there are enough new outcomes to check again; -1: never checked. `start`: the first one that counts."""
    return then < 0 or now - then >= max(_LEAST, (then - start) // _SHARE)


def window_of(standing: Standing) -> tuple[int, ...]:
    """The ledger rows from which a guard counts decisions: last promotion, open alarm, present share of a candidate."""
    rows = (standing.alarm, standing.canary, standing.experiment)
    return standing.current.since, *(0 if row is None else row.n for row in rows)


def guards(standing: Standing, marks: Marks) -> bool:
    """Whether to look at what acts: a canary, an experiment, a promoted policy; after an alarm, any policy."""
    acting = standing.acting
    shared = standing.canary is not None or standing.experiment is not None
    if not shared and standing.alarm is None and (acting is None or acting.kind == "rollback"):
        return False
    if window_of(standing) != marks.window:
        return marks.guarded < 0 or standing.settled - marks.guarded >= _LEAST
    return enough(standing.settled, marks.guarded, marks.window_start)


def question(standing: Standing) -> str:
    """What a look at the candidate is about: it, and the policy that it is compared with."""
    return "" if standing.candidate is None else f"{standing.candidate.digest} {standing.current.digest}"


def _proves(standing: Standing, proved: Mapping[str, int]) -> bool:
    if standing.candidate is None or standing.unprovable is not None or standing.decided:
        return False
    then = proved.get(question(standing), -1)
    if standing.kind.judged == "votes":  # a few votes decide, and every one may be looked at
        return then < 0 or standing.votes > then
    if standing.alarm is not None:  # few decisions count since it was raised
        return then < 0 or standing.settled - then >= _LEAST
    evidence, verdict = standing.evidence, standing.verdict
    if evidence is not None and evidence.waiting is not None and verdict is not None and verdict.more == 0:
        # a few outcomes can let all that wait count
        return then < 0 or standing.settled - then >= max(1, min(_LEAST, evidence.waiting.open // 4))
    rows = evidence.n if evidence is not None and verdict is not None else 0
    return then < 0 or standing.settled - then >= max(_LEAST, rows // _TEST_SHARE)
