"""Outages of what a task chooses, from the kits that see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.nouns import Outage

if TYPE_CHECKING:
    from headway.project.project.folder import Opened

_SHOWN_S = 86_400.0  # how long an outage that has ended is part of the status


def outages(project: Opened, task: str, *, recent: bool = False) -> list[Outage]:
    """The outages of the upstreams that a task chooses among, oldest first.

    `recent`: only open ones, and those that ended within the last day.
    """
    if not project.settings.upstreams:
        return []
    known, actions = project.catalogue, project.settings.task(task).actions
    told: list[Outage] = []
    for _, tell in known.usable((kit, path) for kit in known for path in kit.outages):
        told += [outage for outage in tell(project) if not actions or outage.upstream in actions]
    since = project.clock() - _SHOWN_S
    return [outage for outage in told if not recent or outage.until is None or outage.until >= since]
