"""Old snapshots of online policies: their bundles are removed, their rows in the ledger stay.

A policy with `online = "live"` publishes up to one bundle a second. Kept are the newest 8 of a task, all that are less
than ten minutes old, and every one that another row of the ledger names (promoted, rolled back to, a canary, a
candidate, …). A decision that a removed snapshot made keeps its action, probabilities and outcome; its replay says that
the bundle is gone.
"""

from __future__ import annotations

from headway.promote.ledger import Ledger
from headway.promote.registry import Registry

__all__ = ["GRACE_S", "KEPT", "prune"]

KEPT = 8
GRACE_S = 600.0  # whoever has just read the ledger still finds the bundle, and fresh decisions can be replayed
_PAGE = 100


def prune(
    ledger: Ledger, registry: Registry, task: str, *, now: float, kept: int = KEPT, grace_s: float = GRACE_S
) -> list[str]:
    """Remove the bundles of old snapshots of a task; the hashes of those that went, oldest first.

    Looks back as far as there is something to remove. The oldest go first, so that a prune that was killed leaves no
    gap behind which the next one would not look.
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
