"""Cells of tables that a spreadsheet may open: no text is run as a formula."""

from __future__ import annotations

_SIGNS = tuple("=+-@\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b\u2212")  # plain, full-width, small; the minus sign
_CONTROLS = ("\t", "\r", "\n")


def guarded(text: str) -> str:
    """The text, behind an apostrophe if a spreadsheet would take it for a formula."""
    return f"'{text}" if _runs(text) else text


def unguarded(text: str) -> str:
    """The text that `guarded` got."""
    return text[1:] if text[:1] == "'" and _runs(text[1:]) else text


def _runs(text: str) -> bool:
    """Spreadsheets skip spaces and odd characters before a sign, and some read the full-width forms as signs."""
    if text.startswith((*_SIGNS, *_CONTROLS)):
        return True
    rest = text.lstrip()
    while rest[:1] and not rest[0].isprintable():
        rest = rest[1:].lstrip()
    return rest != text and rest.startswith(_SIGNS)
