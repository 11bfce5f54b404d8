"""decide — picks an action for a situation, now.

Takes: Situation, candidates, a seed.   Gives: the exact probability of every candidate, and the one that was drawn.
Never: writes a row, computes a gradient, opens a socket, reads a clock.
May import: encode, nouns.
"""
