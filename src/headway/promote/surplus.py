"""Removes the bundles of old snapshots and of old unproven candidates; their rows in the ledger stay.

A policy with `online = "live"` publishes up to one bundle a second. Headway keeps the newest 8 of a task, all that are
less than ten minutes old, and every one that another row of the ledger names (promoted, rolled back to, a canary, a
candidate, …). A decision made by a removed snapshot keeps its action, probabilities and outcome; its replay reports
the missing bundle.

A candidate that was never proven, tested or tried is surplus once 16 newer ones like it are at least ten minutes old.
"""

from __future__ import annotations

from headway.promote.ledger import Ledger
from headway.promote.registry import Registry

KEPT = 8
KEPT_CANDIDATES = 16
GRACE_S = 600.0  # a process that has just read the ledger still finds the bundle, and recent decisions can be replayed
_PAGE = 100


def prune(
    ledger: Ledger, registry: Registry, task: str, *, now: float, kept: int = KEPT, grace_s: float = GRACE_S
) -> list[str]:
    """Remove the bundles of old snapshots of a task; returns the removed hashes, oldest first.

    Looks back as far as there is something to remove. Removes the oldest first, so that an interrupted prune leaves no
    gap at which the next one would stop.
    """
    newest = ledger.snapshots(task, limit=kept)
    keep = {entry.policy_hash for entry in newest}
    old: dict[str, None] = {}
    page = newest
    while page:
        page = ledger.snapshots(task, before=page[-1].n, until=now - grace_s, limit=_PAGE)
        removable = [
            entry.policy_hash
            for entry in page
            if entry.policy_hash not in keep
            and registry.holds(entry.policy_hash)
            and not ledger.named_beyond_snapshots(task, entry.policy_hash)
        ]
        if not removable:
            break
        old |= dict.fromkeys(removable)
    return [digest for digest in reversed(old) if registry.remove(digest)]


def surplus_candidates(ledger: Ledger, registry: Registry, task: str, *, now: float) -> list[tuple[str, str]]:
    """Reference and hash of old unproven candidates, oldest first: to be retired and removed."""
    old = ledger.unproven(task, until=now - GRACE_S)[KEPT_CANDIDATES:]
    return [(ref, digest) for ref, digest in reversed(old) if registry.holds(digest)]
