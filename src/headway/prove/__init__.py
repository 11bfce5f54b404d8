"""prove — decides whether a policy is better, from logs, preferences, worlds and held-out rows.

Takes: arrays of logged decisions with their propensities, preferences, paired returns.   Gives: Evidence, pages, plans.
Never: trains a policy, reads a store, promotes, imports the trainer.
May import: observe, nouns.
"""
