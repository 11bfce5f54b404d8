"""Count words."""


def split(text):
    return text.split()


def counts(words):
    counted = []
    for word in words:
        if word not in [seen for seen, _ in counted]:
            counted.append((word, words.count(word)))
    return counted


def top_words(text, number=3):
    """The most frequent words, the most frequent first; equally frequent ones by the alphabet."""
    ordered = sorted(counts(split(text)), key=lambda row: (-row[1], row[0]))
    return [word for word, _ in ordered[:number]]
