"""Attacks on a running server: loopback only, bounded in count and time; docs/explanation/attacks.md has results."""
