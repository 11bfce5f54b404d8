"""What can be decided: the shape of an action, per kind of task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.nouns.records import Candidate

__all__ = ["MUTATIONS", "Choice", "Factored", "Kind", "Ranking", "Reply", "Space"]

Kind = Literal["choice", "ranking", "factored", "reply"]

# The five ways to change a prompt, in the order that action numbers mean.
MUTATIONS = ("try-catch-style", "context-reduction", "expansion", "constraint-addition", "task-decomposition")


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a set of named actions; the set may differ from decision to decision."""

    actions: tuple[Candidate, ...] = ()
    kind: Kind = "choice"


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates described in words, put in order of predicted reward; the first is acted on."""

    kind: Kind = "ranking"


@dataclass(frozen=True, slots=True)
class Factored:
    """Several heads decided one after another; `needs[i]` names the earlier heads that head i depends on."""

    heads: tuple[tuple[str, int], ...]
    needs: tuple[tuple[int, ...], ...] = ()
    kind: Kind = "factored"


@dataclass(frozen=True, slots=True)
class Reply:
    """Free text from a local language model."""

    model: str
    kind: Kind = "reply"


Space = Choice | Ranking | Factored | Reply
