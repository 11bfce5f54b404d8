"""Five ways to change a prompt: pure and seeded functions that report a no-op.

    changed = mutate("Please could you write a function that adds two numbers?", "context-reduction", Random(7))
    changed.text       # "Write a function that adds two numbers?"
    changed.change     # "took out 2 fillers"
    changed.no_op      # False
    allowed(prompt)    # (True, True, True, True, True): which of the five would change it

Four of them add one block under its own heading, so a second application finds the heading and is a no-op. The fifth,
context-reduction, removes only fillers and repeated sentences, and refuses if it would remove a content word, a number,
a quotation or a line of code. The text of a block depends on cues in the prompt (is it about code, numbers, JSON or
a list?) and names no programming language.

`impact` is a prior, not a measurement: signed shares for quality and reliability by kind, cost and latency by how much
longer the text became. The actual effect is learned from outcomes.

Not covered: prompts in other languages get English blocks, and only English fillers are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from random import Random
from typing import Any

from headway.kits.prompts.kinds import MUTATIONS
from headway.kits.prompts.reduction import reduced
from headway.nouns import errors

# The first line of a mutation's block; a heading that is already present makes the mutation a no-op.
HEADINGS: Mapping[str, tuple[str, ...]] = {
    "try-catch-style": ("If something goes wrong:", "When a part cannot be done:", "Handling of problems:"),
    "expansion": ("More detail:", "Background to include:", "Go into depth:"),
    "constraint-addition": ("Constraints:", "Requirements for the output:", "Rules for the answer:"),
    "task-decomposition": ("Steps:", "Work in this order:", "Break it down:"),
}


def _line(headings: Iterable[str]) -> re.Pattern[str]:
    return re.compile("^(?:" + "|".join(re.escape(heading) for heading in headings) + r")[ \t]*$", re.MULTILINE)


THERE = {kind: _line(headings) for kind, headings in HEADINGS.items()}
_ANY = _line(heading for headings in HEADINGS.values() for heading in headings)
_CODE = re.compile(
    r"```|\b(?:functions?|methods?|class(?:es)?|scripts?|programs?|quer(?:y|ies)|snippets?|regex(?:es)?|codebase|code|"
    r"implement|refactor|debug|unit tests?|endpoint|compile|pull request|diff)\b",
    re.IGNORECASE,
)
_REVIEW = re.compile(
    r"\b(?:review|what is wrong|find the (?:bug|error|mistake|problem)s?|is (?:this|it) correct|spot the|critique|"
    r"which line)\b",
    re.IGNORECASE,
)
_JSON = re.compile(r"\bjson\b", re.IGNORECASE)
_NUMBER = re.compile(
    r"\b(?:how many|how much|how far|how long|how old|calculate|compute|sum of|total|average|mean|median|percent|"
    r"percentage|product of|difference between|remainder|divided by|plus|minus|times)\b|\d\s*[-+*/×÷%]\s*\d",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(
    r"(?:^|[.!?]\s+|\n)(?:is|are|was|were|does|do|did|can|could|should|has|have|will|would)\s(?!you\b)[^.?!\n]*\?|"
    r"\byes or no\b",
    re.IGNORECASE,
)
_LIST = re.compile(r"\b(?:list|name (?:three|four|five|two|\d+)|bullet|enumerate|options|ideas)\b", re.IGNORECASE)
_OPENS = re.compile(r"^(?:please|could|can|would|hello|hi|thank)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LONGEST_PART = 90
_MOST_PARTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Cues:
    code: bool
    review: bool
    json: bool
    number: bool
    yes_or_no: bool
    listing: bool
    parts: tuple[str, ...]  # short sentences of the prompt, where it has several: its parts

    def names(self) -> list[str]:
        return [field.name for field in fields(self) if field.name != "parts" and getattr(self, field.name)]


def own_part(prompt: str) -> tuple[str, str]:
    """The prompt without the blocks that mutations added, and those blocks."""
    first = _ANY.search(prompt)
    return (prompt[: first.start()], prompt[first.start() :]) if first else (prompt, "")


@lru_cache(4096)
def cues(prompt: str) -> Cues:
    """The cues of a prompt, without the blocks that mutations added (see `own_part`)."""
    own = _FENCE.sub(" ", prompt)
    sentences = [sentence.strip(" .;:") for sentence in _SENTENCE.split(own)]
    parts = tuple(
        sentence
        for sentence in sentences
        if 12 <= len(sentence) <= _LONGEST_PART and "?" not in sentence and not _OPENS.match(sentence)
    )
    code = bool(_CODE.search(prompt))
    return Cues(
        code=code,
        review=code and bool(_REVIEW.search(own)),
        json=bool(_JSON.search(prompt)),
        number=bool(_NUMBER.search(own)),
        yes_or_no=bool(_YES_OR_NO.search(own)),
        listing=bool(_LIST.search(own)),
        parts=parts[:_MOST_PARTS] if len(parts) > 1 else (),
    )


LONGEST = 100_000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """The prior expectation of a change; shares, positive is more."""

    quality: float
    cost: float
    latency: float
    reliability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A prompt after one mutation."""

    text: str
    kind: str
    change: str  # a description
    impact: Impact
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def no_op(self) -> bool:
        """Whether nothing was changed."""
        return bool(self.metadata.get("no_op", False))


_QUALITY = {"try-catch-style": 0.05, "context-reduction": 0.0, "expansion": 0.10, "constraint-addition": 0.10,
            "task-decomposition": 0.15}  # fmt: skip
_RELIABLE = {"try-catch-style": 0.20, "context-reduction": 0.0, "expansion": 0.0, "constraint-addition": 0.15,
             "task-decomposition": 0.10}  # fmt: skip
_CHANGES = {
    "try-catch-style": "said what to do where a part fails",
    "expansion": "asked for background, an example and assumptions",
    "constraint-addition": "said what the output must look like",
    "task-decomposition": "laid out the steps",
}


def mutate(prompt: str, kind: str, rng: Random) -> Variation:
    """The prompt after one mutation; the same prompt, kind and state of `rng` give the same text."""
    _check(prompt, kind)
    if kind == "context-reduction":
        text, taken = _shorter(prompt)
        return _variation(prompt, text, kind, taken or "nothing can be left out", {})
    pick = rng.randrange(len(HEADINGS[kind]))  # drawn before the check, so that rng advances equally either way
    if THERE[kind].search(prompt):
        return _variation(prompt, prompt, kind, "it is there already", {})
    seen = cues(own_part(prompt)[0])
    lines = _BLOCKS[kind](seen, pick)
    block = "\n".join([HEADINGS[kind][pick], *lines])
    text = f"{prompt.rstrip()}\n\n{block}\n" if prompt.endswith("\n") else f"{prompt.rstrip()}\n\n{block}"
    return _variation(prompt, text, kind, _CHANGES[kind], {"wording": pick, "cues": seen.names()})


def allowed(prompt: str) -> tuple[bool, ...]:
    """Which of the five would change this prompt, in the order of MUTATIONS."""
    there = applied(prompt)
    return tuple(
        _shorter(prompt)[0] != prompt if kind == "context-reduction" else kind not in there for kind in MUTATIONS
    )


def applied(prompt: str) -> frozenset[str]:
    """The kinds whose block is in the prompt."""
    return frozenset(kind for kind, there in THERE.items() if there.search(prompt))


def _shorter(prompt: str) -> tuple[str, str]:
    """Reduce only the original part: blocks that mutations added have nothing to omit."""
    own, blocks = own_part(prompt)
    if not blocks:
        return reduced(prompt)
    text, done = reduced(own.rstrip())
    return (f"{text}\n\n{blocks}", done) if done else (prompt, "")


def _variation(prompt: str, text: str, kind: str, change: str, metadata: dict[str, Any]) -> Variation:
    same = text == prompt
    longer = len(text) / max(len(prompt), 1) - 1.0
    return Variation(
        text=text,
        kind=kind,
        change=change,
        impact=Impact(
            quality=0.0 if same else _QUALITY[kind],
            cost=round(longer, 4),
            latency=round(0.5 * longer, 4),  # reading is faster than writing
            reliability=0.0 if same else _RELIABLE[kind],
        ),
        metadata={"no_op": same, "characters": len(text) - len(prompt), **metadata},
    )


def _guarded(seen: Cues, pick: int) -> list[str]:
    if seen.code:
        return [
            (
                "- Check the input first; treat what is missing, empty or of the wrong kind as an error of its own.",
                "- Say for each failure how it is caught, what is reported, and that nothing is left half done.",
                "- Every call that can fail is handled where it fails; no error is swallowed.",
            )[pick],
            "- Name the case that you cannot handle, and why.",
        ]
    return [
        (
            "- If something needed is missing or unclear, say which part, and answer the rest.",
            "- Where you are not sure, say so instead of guessing, and give what is certain.",
            "- If two readings are possible, name both, choose the likelier one and go on with it.",
        )[pick],
        "- Do not invent facts to fill a gap.",
    ]


def _expanded(seen: Cues, pick: int) -> list[str]:
    first = (
        "- Explain the idea behind it before the result.",
        "- Say which background matters here and why.",
        "- Cover the usual case first, then what differs from it.",
    )[pick]
    example = "- Show one call with its result." if seen.code else "- Give one concrete example."
    return [first, example, "- Name the assumptions that you make."]


def _constrained(seen: Cues, pick: int) -> list[str]:
    shape = "- Answer only what was asked, in at most 120 words."
    if seen.json:
        shape = "- Output valid JSON and nothing before or after it."
    elif seen.review:
        shape = "- Name each problem in one line: where it is, what is wrong, how to mend it."
    elif seen.code:
        shape = "- Output the code in one block and no other text; keep every name that is given."
    elif seen.yes_or_no:
        shape = "- Begin with yes or no."
    elif seen.number:
        shape = "- Put the result as a bare number on the last line."
    elif seen.listing:
        shape = "- Output one item per line and nothing else."
    second = (
        "- Add nothing that was not asked for.",
        "- Use no filler, preface or closing remark.",
        "- Keep names, numbers and quotations exactly as given.",
    )[pick]
    return [shape, second]


def _decomposed(seen: Cues, pick: int) -> list[str]:
    last = "Give the result in full." if seen.code or seen.json else "State the result in its last line."
    middle = [f"Do this part: {part}" for part in seen.parts] or [
        ("Solve it piece by piece.", "Take the parts one after another.", "Work out what comes first, then the rest.")[
            pick
        ]
    ]
    steps = ["Restate what is given and what is wanted.", *middle, "Check the result against what is wanted.", last]
    return [f"{number}. {step}" for number, step in enumerate(steps, 1)]


_BLOCKS = {
    "try-catch-style": _guarded,
    "expansion": _expanded,
    "constraint-addition": _constrained,
    "task-decomposition": _decomposed,
}


def _check(prompt: str, kind: str) -> None:
    if kind not in MUTATIONS:
        raise errors.UnknownName(
            f"There is no mutation {kind!r}.", code="unknown_mutation", hint=errors.did_you_mean(kind, MUTATIONS)
        )
    if not prompt.strip() or len(prompt) > LONGEST:
        raise errors.InvalidInput(
            f"The prompt has {len(prompt):,} characters, expected 1 to {LONGEST:,} and not only spaces.",
            code="bad_prompt",
            hint="Give the prompt's text.",
        )
