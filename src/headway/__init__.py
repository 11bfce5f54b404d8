"""Headway: a local-first policy layer for AI agents — decide, signal, learn, prove, promote."""

__version__ = "0.1.0"
