"""Copies of a world for tests: a world of the built-in kits, or any Gymnasium environment."""

from __future__ import annotations

from functools import partial

from headway.kits.practice.environments import copies
from headway.nouns.kit import catalogue

practice = partial(copies, catalogue())
