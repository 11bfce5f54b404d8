"""One replication: learn a candidate, look at its proof after every hundred decisions, act on the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from _situations.client import Client, Visits
from headway.nouns.errors import HeadwayError
from headway.nouns.evidence import Verdict

__all__ = ["Ending", "Trial", "follow", "guard", "learn", "look", "reason_code", "settle_it"]

SAME = 0.003  # a true uplift within this is no uplift: what a policy is truly worth is computed on 400 visits


@dataclass(slots=True)
class Ending:
    """How a replication ended. `promoted` and `worse` are what happened at any look; `state` is the last verdict."""

    state: str = "none"
    reason: str = ""
    said: str = ""
    promoted: bool = False
    worse: bool = False
    uplift: float = 0.0  # the true one, of what was promoted or found worse
    looks: int = 0
    decisions: int = 0
    notes: dict[str, float] = field(default_factory=dict)

    @property
    def wrong(self) -> bool:
        """Promoted, and truly not better."""
        return self.promoted and self.uplift <= SAME

    @property
    def wrongly_worse(self) -> bool:
        """Called worse, and truly not worse."""
        return self.worse and self.uplift >= -SAME

    @property
    def right(self) -> bool:
        """Promoted, and truly better."""
        return self.promoted and self.uplift > SAME


Trial = Callable[[int], Ending]  # by seed


def reason_code(verdict: Verdict) -> str:
    """The first reason in a few words: the name of the check, or the beginning of the sentence."""
    against = [reason for reason in verdict.reasons if verdict.passed or not reason.startswith("Better than")]
    first = against[0] if against else verdict.state
    if first.startswith("Cannot tell"):
        return f"cannot tell ({' '.join(first.partition(':')[2].split()[:6])} …)"
    name = first.partition(":")[0]
    return name if len(name) <= 40 else f"{' '.join(name.split()[:6])} …"


def look(
    client: Client, candidate: str | None, ending: Ending, visits: Visits, against: str = "current", **accept: bool
) -> bool:
    """Prove once and act on the verdict as a user does, who accepts this much; whether the question is decided."""
    ending.looks += 1
    ending.decisions = client.made
    try:
        verdict = client.project.prove(candidate, task=client.task, against=against)
    except HeadwayError as error:
        ending.state, ending.reason, ending.said = "error", error.code, error.message
        return False
    return settle_it(client, candidate, verdict, ending, visits, **accept)


def settle_it(
    client: Client,
    candidate: str | None,
    verdict: Verdict,
    ending: Ending,
    visits: Visits | None = None,
    *,
    uplift: float = 0.0,
    **accept: bool,
) -> bool:
    """Act on a verdict as a person does, or as the loop where the task says so; whether the question is decided.

    The true uplift is computed on `visits`; it is `uplift` where there are none.
    """
    ending.state, ending.reason, ending.said = verdict.state, reason_code(verdict), " ".join(verdict.reasons)
    evidence = verdict.evidence
    if verdict.state not in ("pass", "worse") or evidence is None:
        return False
    ending.uplift = uplift if visits is None else client.true_uplift(evidence.candidate, evidence.against, visits)
    if verdict.state == "worse":
        ending.worse = True
        return True
    if 'promote = "auto"' in client.settings and not client.project.standing(client.task).acts:
        ending.state, ending.reason = "wait", "only a person promotes yet"
        return False
    try:
        client.project.promote(candidate, because=verdict, task=client.task, **accept)
    except HeadwayError as error:
        ending.state, ending.reason, ending.said = "error", error.code, error.message
        return False
    ending.promoted = True
    return True


def follow(
    client: Client,
    visits: Visits,
    *,
    learn_at: int = 400,
    until: int = 2000,
    every: int = 100,
    candidate: str | None = None,
    one_by_one: bool = False,
) -> Ending:
    """Serve, learn once, and look after every `every` decisions until the verdict is pass or worse."""
    ending = Ending()
    client.serve(visits, learn_at, one_by_one=one_by_one)
    while client.made < until:
        if candidate is None:
            candidate = learn(client, ending)
        client.serve(visits, min(every, until - client.made), one_by_one=one_by_one)
        if candidate is None:
            continue
        if look(client, candidate, ending, visits):
            break
    return ending


def guard(client: Client, ending: Ending, uplift: float) -> bool:
    """Let the guard look once; whether it rolled back, which counts as a promotion of true uplift `uplift`."""
    ending.looks += 1
    ending.decisions = client.made
    try:
        entry = client.project.guard(client.task)
    except HeadwayError as error:
        ending.state, ending.reason, ending.said = "error", error.code, error.message
        return False
    if entry is None:
        ending.state, ending.reason = "wait", "not rolled back"
        return False
    ending.state, ending.reason, ending.said = "pass", "rolled back", entry.why
    ending.promoted, ending.uplift = True, uplift
    return True


def learn(client: Client, ending: Ending, **knobs: Any) -> str | None:
    """A candidate, or None where there is nothing to learn from yet."""
    try:
        return client.project.learn(client.task, **knobs)
    except HeadwayError as error:
        ending.state, ending.reason, ending.said = "error", f"learn: {error.code}", error.message
        return None
