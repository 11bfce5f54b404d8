"""reward — turns the signals of a decision into one number, or gives the reason why there is none yet.

Takes: named numbers, and how long ago the decision was made.   Gives: an Outcome, and the version of the definition.
Never: changes a stored signal, reads a clock, reads configuration.
May import: files, nouns.
"""
