"""Copies of a world, for tests: what the built-in kits bring, or any Gymnasium environment."""

from __future__ import annotations

from functools import partial

from headway.kits.practice.environments import copies
from headway.nouns.kit import catalogue

practice = partial(copies, catalogue())
