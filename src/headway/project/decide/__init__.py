"""Deciding: who decides now (`serving`), what callers may offer (`inputs`), one decision and many (`consider`)."""

from headway.project.decide.consider import (
    Ask,
    Considered,
    consider,
    decide,
    one,
    record,
    source_of,
    submit,
    submit_ask,
)

__all__ = ["Ask", "Considered", "consider", "decide", "one", "record", "source_of", "submit", "submit_ask"]
