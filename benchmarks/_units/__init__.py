"""Simulated projects whose unit is a request or an episode, with known counts, money, quality and policy values."""
