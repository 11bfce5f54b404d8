"""Families on text: strings, parsing, regular expressions."""

from __future__ import annotations

from random import Random
from typing import Any

from headway.kits.simulator.families.parts import Core, Frame, ProgramStep

_WORDS = (
    "level", "banana", "Rotor", "sky", "queue", "Apple", "noon", "stream", "kiosk", "Echo", "tree", "onion", "Bee",
    "window", "civic", "rhythm", "oasis", "gold", "little", "area", "Ivy", "deed", "moss", "eel",
)  # fmt: skip


def _sentences(rng: Random) -> list[Any]:
    drawn = [" ".join(rng.choice(_WORDS) for _ in range(rng.randint(3, 7))) for _ in range(7)]
    return [*drawn, "", "a", "  two  spaces ", "Noon noon NOON", "aaa bb c aaa", rng.choice(_WORDS)]


_LETTER = {"c": ("a", "e", "i", "o", "s", "t", "l", "n")}

STRINGS = Frame(
    parameter="text",
    openings=(
        "`text` is a string of words that are separated by spaces.",
        "The argument `text` is a sentence without punctuation; it may be empty.",
        "You get `text`, a string with words in upper and lower case.",
    ),
    names=("tidy_text", "word_report", "letters_of", "rewrite_text", "text_score", "shape_words", "string_key"),
    steps=(
        ProgramStep(
            "Ignore words with fewer than $k letters.",
            "text = ' '.join(word for word in text.split() if len(word) >= $k)",
            (
                "text = ' '.join(word for word in text.split() if len(word) > $k)",
                "text = ' '.join(word for word in text.split() if len(word) <= $k)",
            ),
            {"k": (3, 4, 5)},
        ),
        ProgramStep(
            "Remove the letter '$c', in lower case only.",
            "text = text.replace('$c', '')",
            ("text = text.replace('$c', '').replace('$c'.upper(), '')", "text = text.replace('$c', '', 1)"),
            _LETTER,
        ),
        ProgramStep(
            "Turn everything into lower case.",
            "text = text.lower()",
            ("text = text.upper()", "text = text[:1].lower() + text[1:]"),
        ),
        ProgramStep(
            "Put the words into reverse order.",
            "text = ' '.join(reversed(text.split()))",
            ("text = text[::-1]", "text = ' '.join(sorted(text.split(), reverse=True))"),
        ),
    ),
    cores=(
        Core(
            "Return how many letters '$c' there are, in upper or lower case, times $k.",
            "return $k * text.lower().count('$c')",
            (
                "return $k * text.count('$c')",
                "return $k * sum('$c' in word.lower() for word in text.split())",
                "return text.lower().count('$c') + $k",
            ),
            {**_LETTER, "k": (2, 3, 4)},
        ),
        Core(
            "Return the words, each cut to its first $k letters, joined by '$j'.",
            "return '$j'.join(word[:$k] for word in text.split())",
            (
                "return '$j'.join(word[-$k:] for word in text.split())",
                "return '$j'.join(word[:$k] for word in text.split() if len(word) > $k)",
                "return '$j'.join(word[:$k + 1] for word in text.split())",
                "return '$j'.join(word[:$k] for word in text.split(' '))",
            ),
            {"k": (1, 2, 3, 4), "j": ("-", "_", "/", ".", "+")},
        ),
        Core(
            "Return the number of words that read the same backwards, ignoring case, and have more than $k letters.",
            "return sum(word.lower() == word.lower()[::-1] and len(word) > $k for word in text.split())",
            (
                "return sum(word == word[::-1] and len(word) > $k for word in text.split())",
                "return sum(word.lower() == word.lower()[::-1] and len(word) >= $k for word in text.split())",
                "return sum(word[:1].lower() == word[-1:].lower() and len(word) > $k for word in text.split())",
                "return int(text.lower() == text.lower()[::-1] and len(text) > $k)",
            ),
            {"k": (0, 1, 2, 3)},
            2,
        ),
        Core(
            "Shift every letter by $k places in the alphabet, from z on to a, keep its case, and return the text.",
            "shifted = ''\nfor letter in text:\n    if letter.isalpha():\n"
            "        start = ord('a') if letter.islower() else ord('A')\n"
            "        letter = chr(start + (ord(letter) - start + $k) % 26)\n    shifted += letter\nreturn shifted",
            (
                "return ''.join(chr(ord(letter) + $k) if letter.isalpha() else letter for letter in text)",
                (
                    "shifted = ''\nfor letter in text.lower():\n    if letter.isalpha():\n"
                    "        letter = chr(97 + (ord(letter) - 97 + $k) % 26)\n    shifted += letter\nreturn shifted"
                ),
                (
                    "shifted = ''\nfor letter in text:\n    if letter.isalpha():\n"
                    "        start = ord('a') if letter.islower() else ord('A')\n"
                    "        letter = chr(start + (ord(letter) - start - $k) % 26)\n    shifted += letter\nreturn shifted"
                ),
            ),
            {"k": (3, 4, 5, 7, 9, 11)},
            3,
        ),
        Core(
            "Group the words that have the same letters, ignoring case and order, and return the size of the largest "
            "group plus $k times the number of groups.",
            "groups = {}\nfor word in text.lower().split():\n    key = ''.join(sorted(word))\n"
            "    groups[key] = groups.get(key, 0) + 1\nreturn max(groups.values(), default=0) + $k * len(groups)",
            (
                (
                    "groups = {}\nfor word in text.split():\n    key = ''.join(sorted(word))\n"
                    "    groups[key] = groups.get(key, 0) + 1\nreturn max(groups.values(), default=0) + $k * len(groups)"
                ),
                (
                    "groups = {}\nfor word in text.lower().split():\n    key = len(word)\n"
                    "    groups[key] = groups.get(key, 0) + 1\nreturn max(groups.values(), default=0) + $k * len(groups)"
                ),
                (
                    "groups = {}\nfor word in text.lower().split():\n    key = ''.join(sorted(word))\n"
                    "    groups[key] = groups.get(key, 0) + 1\nreturn max(groups.values(), default=0) + $k * "
                    "sum(groups.values())"
                ),
            ),
            {"k": (2, 3, 4, 5, 10)},
            4,
        ),
    ),
    inputs=_sentences,
)


def _pairs(rng: Random) -> list[Any]:
    def drawn() -> str:
        keys = rng.sample(("id", "size", "cost", "Rate", "age", "max", "port"), rng.randint(2, 4))
        parts = [f"{key}={rng.randint(-20, 90)}" for key in keys]
        parts += [f"{rng.choice(keys)}={rng.randint(1, 40)}"] * rng.randint(0, 1)
        if rng.random() < 0.4:
            parts.append(f"note={rng.choice(('ok', 'n/a', 'none'))}")
        return ";".join(parts) + (" # end" if rng.random() < 0.4 else "")

    odd = f"cost = {rng.randint(3, 30)} ; size=4"
    return [*(drawn() for _ in range(8)), "", odd, "a=1;b=2;c=x", "a=7;;b=-7;", "# only a comment", "max=5;max=9;max=2"]


_NUMBERS = (
    "found = {}\nfor part in text.split(';'):\n    key, equals, value = part.partition('=')\n"
    "    if equals and value.strip().lstrip('-').isdigit():\n        found[key.strip()] = int(value)\n"
)
_BROKEN = _NUMBERS.replace(".lstrip('-')", "")
_FIRST = _NUMBERS.replace("found[key.strip()] = int(value)", "found.setdefault(key.strip(), int(value))")

PARSING = Frame(
    parameter="text",
    openings=(
        (
            "`text` is a configuration line of fields such as `size=4;cost=-2`, separated by semicolons. Parse it; a later "
            "field overrides an earlier one of the same key, and fields without a whole number as value are ignored."
        ),
        (
            "Parse the setting line `text`: `key=value` fields between semicolons. Only whole numbers count as values; "
            "the last one of a key wins."
        ),
        (
            "The argument `text` holds `key=value` fields with semicolons between them. Skip fields whose value is not a "
            "whole number. Where a key repeats, take its last value."
        ),
    ),
    names=("parse_line", "read_config", "parse_fields", "read_setting", "scan_config", "decode_line", "load_fields"),
    steps=(
        ProgramStep(
            "Ignore everything after the first '#'.",
            "text = text.partition('#')[0]",
            ("text = text.rpartition('#')[0]", "text = text.replace('#', '')"),
        ),
        ProgramStep(
            "Keys are compared in lower case.",
            "text = text.lower()",
            ("text = text.upper()", "text = text.title()"),
        ),
        ProgramStep(
            "Ignore the first $k fields, empty ones included.",
            "text = ';'.join(text.split(';')[$k:])",
            ("text = ';'.join(text.split(';')[:-$k])", "text = ';'.join([p for p in text.split(';') if p][$k:])"),
            {"k": (1, 2)},
        ),
        ProgramStep(
            "A field that starts with '$c' is ignored.",
            "text = ';'.join(part for part in text.split(';') if not part.startswith('$c'))",
            (
                "text = ';'.join(part for part in text.split(';') if '$c' not in part)",
                "text = ';'.join(part for part in text.split(';') if part.startswith('$c'))",
            ),
            {"c": ("a", "c", "m", "s", "i")},
        ),
    ),
    cores=(
        Core(
            "Return the sum of the values plus $k.",
            _NUMBERS + "return sum(found.values()) + $k",
            (
                _BROKEN + "return sum(found.values()) + $k",
                _FIRST + "return sum(found.values()) + $k",
                _NUMBERS + "return sum(found.values()) + $k * len(found)",
                _NUMBERS + "return sum(map(abs, found.values())) + $k",
            ),
            {"k": (1, 2, 3, 5, 10, 20, 50, 100)},
        ),
        Core(
            "Return the keys with a value above $k, in the order in which they first appear.",
            _NUMBERS + "return [key for key, value in found.items() if value > $k]",
            (
                _NUMBERS + "return sorted(key for key, value in found.items() if value > $k)",
                _NUMBERS + "return [key for key, value in found.items() if value >= 2 * $k]",
                _FIRST + "return [key for key, value in found.items() if value > $k]",
                _NUMBERS + "return [value for value in found.values() if value > $k]",
            ),
            {"k": (0, 2, 4, 6, 10, 20)},
            2,
        ),
        Core(
            "Return the fields as one string again: keys in alphabetical order, joined by '$j', with values multiplied by "
            "$k.",
            _NUMBERS + "return '$j'.join(f'{key}={found[key] * $k}' for key in sorted(found))",
            (
                _NUMBERS + "return '$j'.join(f'{key}={found[key] * $k}' for key in found)",
                _NUMBERS + "return '$j'.join(f'{key}={found[key]}' for key in sorted(found))",
                _BROKEN + "return '$j'.join(f'{key}={found[key] * $k}' for key in sorted(found))",
                _NUMBERS + "return '$j'.join(f'{key}={found[key] * $k}' for key in sorted(found, key=found.get))",
            ),
            {"j": (",", "&", "|", " "), "k": (2, 3, 10)},
            3,
        ),
        Core(
            "Return [key, value] of the largest value times $k; if several keys have it, the one that is last in the "
            "alphabet; without any value, an empty list.",
            _NUMBERS + "best = max(((value, key) for key, value in found.items()), default=None)\n"
            "return [best[1], best[0] * $k] if best else []",
            (
                _NUMBERS + "best = min(((-value, key) for key, value in found.items()), default=None)\n"
                "return [best[1], best[0] * $k] if best else []",
                _BROKEN + "best = max(((value, key) for key, value in found.items()), default=None)\n"
                "return [best[1], best[0] * $k] if best else []",
                _NUMBERS + "best = max(((key, value) for key, value in found.items()), default=None)\n"
                "return [best[0], best[1] * $k] if best else []",
                _NUMBERS + "best = max(((value, key) for key, value in found.items()), default=('', 0))\n"
                "return [best[1], best[0] * $k]",
            ),
            {"k": (1, 2, 3, 4)},
            4,
        ),
    ),
    inputs=_pairs,
)


def _notes(rng: Random) -> list[Any]:
    def token() -> str:
        return rng.choice(
            (
                f"#{rng.randrange(0x1000):03x}", f"#{rng.randrange(0x1000000):06x}", f"room-{rng.randint(1, 99)}",
                f"{rng.randint(1900, 2099)}", f"v{rng.randint(0, 9)}.{rng.randint(0, 20)}", f"x{rng.randint(1, 300)}",
                f"{rng.choice(('ann', 'bob', 'li'))}@site.org", f"({rng.randint(1, 9)})", "the the", "Room-7",
                f"{rng.randint(1, 9)}{rng.randint(100, 999)}5", "is is",
            )
        )  # fmt: skip

    drawn = [" ".join(token() for _ in range(rng.randint(4, 8))) for _ in range(8)]
    return [*drawn, "", "2024", "room-3room-4 x#fff", "#ABCDEF and #12 v1.2.3", "12345 1999a b2001 2024-2025"]


REGEX = Frame(
    parameter="note",
    openings=(
        "`note` is a string; use regular expressions.",
        "Match patterns with the module `re` in the string `note`.",
        "The argument `note` is a line of free text. A regular expression will help.",
    ),
    names=("match_note", "find_tokens", "scan_note", "pattern_count", "grab_tokens", "regex_report", "pick_matches"),
    steps=(
        ProgramStep(
            "First remove everything in round brackets, brackets included.",
            "note = re.sub(r'\\([^)]*\\)', '', note)",
            ("note = re.sub(r'[()]', '', note)", "note = re.sub(r'\\(.*\\)', '', note)"),
        ),
        ProgramStep(
            "Treat upper and lower case alike: work with lower case.",
            "note = note.lower()",
            ("note = note.upper()", "note = note.capitalize()"),
        ),
        ProgramStep(
            "A word that follows itself counts once: collapse repeated neighbouring words.",
            "note = re.sub(r'\\b(\\w+)( \\1\\b)+', r'\\1', note)",
            ("note = re.sub(r'(\\w)\\1', r'\\1', note)", "note = re.sub(r'\\b(\\w+) \\1\\b', r'', note)"),
        ),
        ProgramStep(
            "Replace every run of digits that is longer than $k by a single 0.",
            "note = re.sub(r'[0-9]{$n,}', '0', note)",
            ("note = re.sub(r'[0-9]{$k,}', '0', note)", "note = re.sub(r'[0-9]{$n}', '0', note)"),
            {"k": (4,), "n": (5,)},
        ),
    ),
    cores=(
        Core(
            "Return all numbers of exactly $k digits that stand alone, as strings in order.",
            "return re.findall(r'\\b[0-9]{$k}\\b', note)",
            (
                "return re.findall(r'[0-9]{$k}', note)",
                "return re.findall(r'\\b[0-9]{$k,}\\b', note)",
                "return [int(match) for match in re.findall(r'\\b[0-9]{$k}\\b', note)]",
                "return re.findall(r'\\b[0-9]{$k}', note)",
            ),
            {"k": (1, 2, 3, 4, 5)},
        ),
        Core(
            "Return how many tokens of the form '$w' and a number there are, plus $k.",
            "return len(re.findall(r'\\b$w[0-9]+', note)) + $k",
            (
                "return len(re.findall(r'$w[0-9]', note)) + $k",
                "return len(set(re.findall(r'\\b$w[0-9]+', note))) + $k",
                "return len(re.findall(r'\\b$w', note)) + $k",
                "return len(re.findall(r'\\b$w[0-9]+', note))",
            ),
            {"w": ("room-", "x", "v"), "k": (1, 2, 3, 4, 5, 10)},
        ),
        Core(
            "Return the colours of the form # and $k hexadecimal digits (no longer ones), without duplicates, sorted.",
            "return sorted(set(re.findall(r'#[0-9a-fA-F]{$k}\\b', note)))",
            (
                "return re.findall(r'#[0-9a-fA-F]{$k}\\b', note)",
                "return sorted(set(re.findall(r'#[0-9a-fA-F]{$k}', note)))",
                "return sorted(set(re.findall(r'#[0-9A-F]{$k}\\b', note)))",
                "return sorted(set(re.findall(r'#[0-9a-fA-F]+\\b', note)))",
            ),
            {"k": (3, 6)},
            2,
        ),
        Core(
            "Replace each address before an '@' by its first letter and $k stars, and return the note.",
            "return re.sub(r'\\b(\\w)\\w*@', lambda match: match[1] + '*' * $k + '@', note)",
            (
                "return re.sub(r'\\b\\w+@', '*' * $k + '@', note)",
                "return re.sub(r'(\\w)@', lambda match: match[1] + '*' * $k + '@', note)",
                "return re.sub(r'\\b(\\w)\\w*@', lambda match: match[1] + '*' * $k, note)",
                "return re.sub(r'\\b(\\w)\\w*', lambda match: match[1] + '*' * $k, note)",
            ),
            {"k": (1, 2, 3, 4, 5)},
            3,
        ),
        Core(
            "Versions look like v1.12. Return the largest version as [major, minor] with $k added to minor, or [] if there "
            "is none.",
            "found = [[int(a), int(b)] for a, b in re.findall(r'\\bv([0-9]+)\\.([0-9]+)', note)]\n"
            "return [max(found)[0], max(found)[1] + $k] if found else []",
            (
                (
                    "found = re.findall(r'\\bv([0-9]+)\\.([0-9]+)', note)\n"
                    "return [int(max(found)[0]), int(max(found)[1]) + $k] if found else []"
                ),
                (
                    "found = [[int(a), int(b)] for a, b in re.findall(r'\\bv([0-9]+)\\.([0-9]+)', note)]\n"
                    "return [found[0][0], found[0][1] + $k] if found else []"
                ),
                (
                    "found = [[int(a), int(b)] for a, b in re.findall(r'\\bv([0-9]+)\\.([0-9])', note)]\n"
                    "return [max(found)[0], max(found)[1] + $k] if found else []"
                ),
                (
                    "found = [[int(a), int(b)] for a, b in re.findall(r'\\bv([0-9]+)\\.([0-9]+)', note)]\n"
                    "return [max(found)[0], max(found)[1] + $k] if found else [0, $k]"
                ),
            ),
            {"k": (0, 1, 2, 5)},
            4,
        ),
    ),
    inputs=_notes,
    imports=("import re",),
)
