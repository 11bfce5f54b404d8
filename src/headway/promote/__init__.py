"""promote — decides which policy is live: bundles, the registry, the gate and the ledger.

Takes: Learned, Evidence, rules.   Gives: bundles, verdicts, ledger rows.
Never: trains, estimates, opens a socket.
May import: observe, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.promote import gate as gate
    from headway.promote.bundle import specs as specs
    from headway.promote.gate import WAITING as WAITING, Admission as Admission
    from headway.promote.ledger import Entry as Entry, EntryKind as EntryKind, Heads as Heads, Ledger as Ledger
    from headway.promote.next_steps import Activity as Activity, most_urgent as most_urgent, next_step as next_step
    from headway.promote.ramp import Ramp as Ramp
    from headway.promote.registry import Registry as Registry
    from headway.promote.reliance import (
        FLAGS as FLAGS,
        better_way as better_way,
        reliance_words as reliance_words,
        too_young as too_young,
        unseen_changes as unseen_changes,
    )
    from headway.promote.shortfall import still_needed as still_needed
    from headway.promote.standing import (
        CandidatePolicy as CandidatePolicy,
        CurrentPolicy as CurrentPolicy,
        Standing as Standing,
    )
    from headway.promote.surplus import prune as prune, surplus_candidates as surplus_candidates
    from headway.promote.terms import Terms as Terms, setting_changes as setting_changes
else:
    __all__, __getattr__ = door(__name__)
