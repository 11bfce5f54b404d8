"""learn — turns experience into a policy, with baselines to compare it with.

Takes: Experience, knobs, a seed.   Gives: Learned: tensors, knobs, metrics and baselines.
Never: reads rows of the prove part, makes a file, opens a socket, reads a clock.
May import: decide, encode, nouns, observe, reward.
"""
