"""Context reduction: removes fillers and repeated sentences from a prompt, and nothing else.

    reduced("Hello! Could you please write a haiku about rain? Thank you very much in advance!")
    # ("Write a haiku about rain?", "took out 3 fillers")

Removed: greetings, thanks, politeness, hedges, intensifiers, and sentences that repeat an earlier one word for word.
Unchanged: fenced and inline code, quotations, links, brackets with what is in them. If any word that is not a
filler would be lost, nothing is changed at all.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

_PROTECTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`|\"[^\"\n]*\"|“[^”\n]*”|'[^'\n]{2,}'(?!\w)|https?://\S+|[{\[][^\n]*[}\]]", re.DOTALL
)
_VERBS = (
    r"(?=(?:write|give|explain|list|find|make|compute|review|analyse|analyze|summarise|summarize|tell|create|help|"
    r"draft|check|describe|calculate|say|name|show|look|suggest|turn|return|convert|answer)\b)"
)
# Longer ones first: a filler inside another must not be removed before it.
_GREETING = r"(?:^|(?<=[.!?\n]))\s*(?:hello|hi|hey|good (?:morning|evening|afternoon))(?: there| everyone)?\s*[,!.]+"
_THANKS = r"(?:many )?thank(?:s| you)(?: so| very)?(?: much)?(?: in advance| for your (?:help|time))?\s*[.!]+"
_WISH = r"\bi(?: would|'d) (?:really |very much )?(?:like|love) you to (?:please )?" + _VERBS
_WONDER = (
    r"\b(?:i was wondering (?:if|whether) you (?:could|can|would)|would you be so kind as to|would you mind|"
    r"do you think you could|would it be possible (?:for you )?to|i need you to|i want you to|your task is to|"
    r"what i need is for you to)\b"
)
_COULD_YOU = r"\b(?:could|can|would|will) you (?:please |kindly |possibly |maybe )*" + _VERBS
_HEDGE = (
    r"\b(?:as you (?:may|might|probably) (?:already )?know|needless to say|for what it's worth|to be honest|"
    r"if you don't mind|at the end of the day|when all is said and done|it goes without saying that|"
    r"as far as i can tell|i (?:just )?wanted to ask(?: you)?(?: whether| if)?|in my humble opinion)\b\s*,?"
)
_WEAK = r"\b(?:please|kindly|basically|actually|really|very|quite|simply|honestly|essentially|obviously)\b\s*,?"
_FILLERS = tuple(
    re.compile(pattern, re.IGNORECASE) for pattern in (_GREETING, _THANKS, _WISH, _WONDER, _COULD_YOU, _HEDGE, _WEAK)
)
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?])[ \t]+(?=\S)")
_GONE = " \x01 "  # place of a removed filler: a sentence that starts here needs a capital letter
_HOLE = "\x00{}\x00"
_HOLES = re.compile(r"\x00(\d+)\x00")
_MOST_ROUNDS = 8
_SHORTEST_REPEATED = 15  # characters


@lru_cache(4096)
def reduced(prompt: str) -> tuple[str, str]:
    """The shorter prompt and a description of the change; the prompt itself and "" if nothing can be removed.

    Repeats until nothing changes, so that a second call finds nothing.
    """
    text, fillers, repeated = prompt, 0, 0
    for _ in range(_MOST_ROUNDS):
        after, more_fillers, more_repeated = _once(text)
        if after == text:
            break
        text, fillers, repeated = after, fillers + more_fillers, repeated + more_repeated
    done = [f"took out {fillers} filler{'s' * (fillers != 1)}"] if fillers else []
    done += [f"dropped {repeated} repeated sentence{'s' * (repeated != 1)}"] if repeated else []
    return text, " and ".join(done)


def _once(prompt: str) -> tuple[str, int, int]:
    if "\x00" in prompt or "\x01" in prompt:
        return prompt, 0, 0
    kept: list[str] = []

    def hide(match: re.Match[str]) -> str:
        kept.append(match[0])
        return _HOLE.format(len(kept) - 1)

    text, fillers, taken = _PROTECTED.sub(hide, prompt), 0, Counter[str]()
    for filler in _FILLERS:
        matches = [match[0] for match in filler.finditer(text)]
        if matches:
            fillers += len(matches)
            for filler_ in matches:
                taken.update(word.lower() for word in _WORD.findall(filler_))
            text = filler.sub(_GONE, text)
    text, repeated = _without_repetition(text)
    if not fillers and not repeated:
        return prompt, 0, 0
    text = _HOLES.sub(lambda match: kept[int(match[1])], _tidied(text))
    before, after = _words(prompt), _words(text)
    lost = set((before - taken).keys()) - set(after)
    if lost or not text.strip() or len(text) >= len(prompt):
        return prompt, 0, 0
    return text, fillers, repeated


def _words(text: str) -> Counter[str]:
    return Counter(word.lower() for word in _WORD.findall(text))


def _without_repetition(text: str) -> tuple[str, int]:
    seen: set[str] = set()
    repeated = 0
    lines = []
    for line in text.split("\n"):
        sentences = []
        for sentence in _SENTENCE.split(line):
            key = " ".join(_WORD.findall(sentence.lower()))
            if key in seen and len(key) > _SHORTEST_REPEATED:
                repeated += 1
                continue
            seen.add(key)
            sentences.append(sentence)
        lines.append(" ".join(sentences))
    return "\n".join(lines), repeated


def _tidied(text: str) -> str:
    text = re.sub(r"(^|[.!?\n])([\s\x01]*\x01\s*)([a-z])", lambda match: f"{match[1]} {match[3].upper()}", text)
    text = text.replace("\x01", " ")
    text = re.sub(r"[ \t]+([,.!?;:])", r"\1", text)
    text = re.sub(r"(?:^|(?<=[.!?\n]))[ \t]*[,;]+", "", text)
    text = re.sub(r"([.!?])[ \t]*[.!](?=\s|$)", r"\1", text)
    text = re.sub(r"(?<=\S)[ \t]{2,}", " ", text)
    text = re.sub(r"\n[ \t]*\n[ \t]*\n+", "\n\n", text)
    return "\n".join(re.sub(r"^[ \t]+(?=[A-Za-z])", "", line.rstrip()) for line in text.split("\n")).strip()
