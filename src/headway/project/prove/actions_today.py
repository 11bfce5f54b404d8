"""A decision of the past with the actions of today: a proof is about what would be served now.

An action that was removed since is no choice for either policy, whatever was logged; the logged probabilities stay
those over the old set. A decision that did not offer an action of today, because the task did not have it then, says
nothing about a policy that may choose it, and does not speak. Candidates that the client gave with a decision stay as
they were given, without those that the task no longer has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.nouns import ELSEWHERE
from headway.observe import loads

if TYPE_CHECKING:
    from headway.nouns import Candidate
    from headway.project.project.folder import Opened
    from headway.settings import TaskSettings


class ActionsToday:
    """The task's actions as declared now, and what that makes of decisions under earlier configurations."""

    def __init__(self, project: Opened, settings: TaskSettings) -> None:
        self._project, self._today = project, frozenset(settings.actions)
        self._earlier: dict[str, tuple[frozenset[str], frozenset[str]]] = {}  # actions of a time, and those added since

    def offered(self, offered: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """Those that can be chosen today; may be empty."""
        if not self._today or all(candidate.name in self._today for candidate in offered):
            return offered
        return tuple(candidate for candidate in offered if candidate.name in self._today)

    def lacks(self, candidates: tuple[Candidate, ...], known: str) -> str:
        """Why decisions with these candidates say nothing about the actions of today; empty if they do.

        `known`: the hash of their configuration.
        """
        if not self._today:
            return ""
        if not self.offered(candidates):
            return "with none of today's actions"
        if known == ELSEWHERE:
            return ""
        if known not in self._earlier:
            actions = frozenset(loads(self._project.query.config(known)).get("actions", ()))
            self._earlier[known] = actions, self._today - actions if actions else frozenset()
        actions, added = self._earlier[known]
        if not added or actions != {candidate.name for candidate in candidates}:
            return ""
        return f"made before {', '.join(map(repr, sorted(added)))} could be chosen"
