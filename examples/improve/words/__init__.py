"""The most frequent words of a text."""

from words.count import top_words

__all__ = ["top_words"]
