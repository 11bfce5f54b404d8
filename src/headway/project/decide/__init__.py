"""Decisions: the current policy (`serving`), checked arguments (`inputs`), one decision or many (`consider`)."""

from headway.project.decide.consider import (
    Ask,
    Considered,
    beside,
    consider,
    decide,
    one,
    record,
    source_of,
    submit,
    submit_ask,
)

__all__ = ["Ask", "Considered", "beside", "consider", "decide", "one", "record", "source_of", "submit", "submit_ask"]
