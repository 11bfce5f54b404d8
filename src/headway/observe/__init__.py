"""observe — stores what happened and reads it back.

Takes: Decision, Signal, outcomes.   Gives: rows, streamed in the store's own order.
Never: chooses an action, computes a reward, changes a weight.
May import: files, nouns.
"""
