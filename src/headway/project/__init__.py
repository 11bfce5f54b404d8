"""project — the facade: one method per verb; it wires the rooms, mints ids and reads the clock.

Takes: what a caller says.   Gives: records, verdicts, reports.
Never: does maths, speaks SQL, knows HTTP or a terminal.
May import: settings, promote, learn, prove, decide, reward, worlds, observe, encode, client, nouns.
"""

from headway.project.facade import Project

__all__ = ["Project"]
