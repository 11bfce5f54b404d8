"""What policies are called, and what they learned: names for people, hashes for machines.

names = policy_names(project, "route")
names["bandit@4f2a"].text                     # "13 Nov: small for 53%, large for 47%", or the name it was given
said(names, "bandit@4f2a is better than …")   # "13 Nov (bandit@4f2a) is better than …"
name_policy(project, "bandit@4f2a", "cheap first")
learned_text(project, "route", "bandit@4f2a") # 'Prefers large for 93% of the texts with "prove", …'

A name is a row of the ledger, so backups and copies keep it. What a policy does is counted when it is learned, and
holds no word of any text. What it learned is read from the texts that are stored now, so it never quotes a deleted one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import log2
from typing import TYPE_CHECKING

from headway.nouns import PolicyRef, errors, plural

if TYPE_CHECKING:
    from headway.nouns import Decision, Situation
    from headway.project.project.folder import Opened
    from headway.settings import TaskSettings

_READ = 600  # decisions, the newest, that a policy is asked about
REFERENCE = re.compile(r"(?<![\w/:@-])[a-z][a-z0-9_]*@[0-9a-f]{4,64}\b")
_WORD = re.compile(r"[^\W\d_]{3,}")
_WORDS = 300  # the most frequent ones that are compared
_FEWEST = 0.03  # of the decisions that a word must divide off
_CLEAR = 0.15  # of the entropy of the choices: what explains less is not worth a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyName:
    """A policy for people: its name and what it does."""

    policy: str
    policy_hash: str
    name: str  # given, or the day on which it was learned: "13 Nov", and "13 Nov no. 2" for the next of that day
    does: str  # "small for 53%, large for 47%"; empty if unknown

    @property
    def text(self) -> str:
        return f"{self.name}: {self.does}" if self.does else self.name


def policy_names(project: Opened, task: str) -> dict[str, PolicyName]:
    """The name of every learned policy of a task, by reference."""
    names: dict[str, PolicyName] = {}
    days = Counter[str]()
    year = datetime.fromtimestamp(project.clock(), UTC).year
    for entry in project.ledger.entries(task, "candidate", "shadow", "name"):
        known = names.get(entry.policy)
        if known is None:
            on = datetime.fromtimestamp(entry.at, UTC)
            day = f"{on.day} {on:%b}" + ("" if on.year == year else f" {on.year}")
            days[day] += 1
            name = day if days[day] == 1 else f"{day} no. {days[day]}"
            does = _shares_text(entry.detail.get("does", {}))
            known = PolicyName(policy=entry.policy, policy_hash=entry.policy_hash, name=name, does=does)
        if entry.kind == "name":
            known = PolicyName(policy=entry.policy, policy_hash=known.policy_hash, name=entry.why, does=known.does)
        names[entry.policy] = known
    return names


def said(names: Mapping[str, PolicyName], text: str) -> str:
    """A sentence with the names of its policies, the hash second; a reference alone becomes name, deed and hash."""

    def named(match: re.Match[str]) -> str:
        known = names.get(match[0])
        if known is None:
            return match[0]
        return f"{known.text if match[0] == text else known.name} ({match[0]})"

    return REFERENCE.sub(named, text)


def deeds(project: Opened, settings: TaskSettings, ref: str, digest: str) -> dict[str, float]:
    """The share of the newest decisions for which a policy prefers each declared action; empty if that is unknown."""
    if settings.kind != "choice" or not settings.actions:
        return {}
    preferred = [action for _, action in _preferred(project, settings, ref, digest)]
    counts = Counter(action for action in preferred if action in settings.actions)
    return {action: round(count / len(preferred), 4) for action, count in counts.most_common()}


def _shares_text(shares: Mapping[str, float]) -> str:
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    if len(ordered) == 1 or (ordered and ordered[0][1] >= 0.995):
        return f"always {ordered[0][0]}"
    others = ", others" if len(ordered) > 2 else ""
    return ", ".join(f"{action} for {share:.0%}" for action, share in ordered[:2]) + others


def _preferred(project: Opened, settings: TaskSettings, ref: str, digest: str) -> list[tuple[Decision, str]]:
    """The newest decisions with the action that the policy prefers in each; none if it cannot be asked."""
    rows = [row for row in project.query.latest(settings.name, _READ) if len(row.candidates) > 1]
    try:
        pipeline = project.servings.pipeline(settings.name, project.servings.body(settings), ref, digest)
        asked = pipeline.distributions(
            [row.situation for row in rows], [row.candidates for row in rows], [row.seed for row in rows]
        )
    except errors.HeadwayError:
        return []
    return [
        (row, row.candidates[int(shares[: len(row.candidates)].argmax())].name)
        for row, shares in zip(rows, asked, strict=True)
    ]


# -- what it learned


def learned_text(project: Opened, task: str, policy: str) -> str:
    """Which word, role or field best explains what a policy prefers, in one sentence; says so if none does."""
    settings = project.settings.task(task)
    ref, digest = project.servings.resolve(settings, policy)
    family = PolicyRef.parse(ref).family
    if PolicyRef.parse(ref).built_in:
        return "It is built in: it learned nothing."
    if settings.kind != "choice":
        return f"The family {family!r} has no summary of what it learned: it does not choose among named actions."
    rows = _preferred(project, settings, ref, digest)
    if not rows:
        return "Unknown: there is no decision to ask it about, or it cannot be loaded."
    actions = [action for _, action in rows]
    often = Counter(actions).most_common()
    if len(often) == 1:
        return f"Prefers {often[0][0]} for all of the newest {plural(len(rows), 'request')}."
    best = max(_divisions([row.situation for row, _ in rows]), key=lambda one: _gain(actions, one[1]), default=None)
    if best is None or _gain(actions, best[1]) < _CLEAR * _entropy(actions):
        first = ", ".join(f"{action} for {count / len(rows):.0%}" for action, count in often[:3])
        return f"Prefers {first}; no single word, role or field explains when."
    name, inside = best
    within = Counter(action for action, member in zip(actions, inside, strict=True) if member)
    outside = Counter(action for action, member in zip(actions, inside, strict=True) if not member)
    action = max(within, key=lambda one: within[one] / within.total() - outside[one] / outside.total())
    there, elsewhere = within[action] / within.total(), outside[action] / outside.total()
    return f"Prefers {action} for {there:.0%} of the requests {name}, and for {elsewhere:.0%} of the others."


def _divisions(situations: Sequence[Situation]) -> Iterator[tuple[str, list[bool]]]:
    """What divides the requests in two, with its words: a word of the text, a role, a value or half of a field."""
    texts = [set(_WORD.findall(situation.text.lower())) for situation in situations]
    common = Counter(word for words in texts for word in words).most_common(_WORDS)
    yield from ((f'with "{word}"', [word in words for words in texts]) for word, _ in common)
    for role in {situation.role for situation in situations if situation.role}:
        yield f"of the role {role}", [situation.role == role for situation in situations]
    for field in {name for situation in situations for name in situation.state}:
        values = [situation.state.get(field) for situation in situations]
        numbers = sorted(value for value in values if isinstance(value, int | float) and not isinstance(value, bool))
        if numbers:
            for cut in {float(f"{numbers[len(numbers) * part // 4]:.3g}") for part in (1, 2, 3)}:  # as it is said
                yield f"with {field} of {cut:.3g} or more", [isinstance(v, int | float) and v >= cut for v in values]
        for value, _ in Counter(value for value in values if isinstance(value, str | bool)).most_common(20):
            yield f"with {field} = {value}", [each == value for each in values]


def _gain(actions: Sequence[str], inside: Sequence[bool]) -> float:
    """How much a division tells about the choices, in bits; 0 where one side is almost nothing."""
    parts = [
        [action for action, member in zip(actions, inside, strict=True) if member == side] for side in (True, False)
    ]
    if min(map(len, parts)) < max(2.0, _FEWEST * len(actions)):
        return 0.0
    return _entropy(actions) - sum(len(part) / len(actions) * _entropy(part) for part in parts)


def _entropy(actions: Sequence[str]) -> float:
    return -sum(count / len(actions) * log2(count / len(actions)) for count in Counter(actions).values())
