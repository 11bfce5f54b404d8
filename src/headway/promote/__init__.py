"""promote — decides which policy is live: bundles, the registry, the gate and the ledger.

Takes: Learned, Evidence, rules.   Gives: bundles, verdicts, ledger rows.
Never: trains, estimates, opens a socket.
May import: observe, files, nouns.
"""
