"""Worlds of known value that the proof must not be fooled by, played through `headway.Project`."""
