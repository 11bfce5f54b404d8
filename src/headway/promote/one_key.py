"""The rule that no single key decides a verdict, and its words: `gate` applies it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from shlex import quote

from headway.nouns import Diagnostic, Evidence, RaterShare

ONE_KEY = "one_key"
ONE_KEY_REGION = "one_key_region"
KEY_CHECKS = (ONE_KEY, ONE_KEY_REGION)


def with_key_checks(evidence: Evidence, trusted: frozenset[str]) -> tuple[Evidence, tuple[str, ...]]:
    """The evidence with the check that no key decides it, nor two who voted, and the trusted keys that do.

    Applies to a pass; `gate.accusers` is the same for a policy that is proven worse.
    """
    named = [rater for rater in evidence.raters if not rater.own]
    if not named:
        return evidence, ()
    deciding = evidence.deciding()
    allowed = trusted | frozenset(evidence.trusted)
    bad = [rater for rater in named if rater.name in deciding and not rater.excused(allowed)]
    check = Diagnostic(
        name=ONE_KEY,
        value=float(len(bad)),
        limit=0.0,
        ok=not bad,
        blocks=True,
        message=_decided(evidence, bad) if bad else _shared(named, deciding),
        cure=_untrusted(evidence, bad) if bad else "",
    )
    local = _local(evidence, [rater for rater in named if rater.region and rater.name not in allowed])
    others = tuple(diagnostic for diagnostic in evidence.diagnostics if diagnostic.name not in KEY_CHECKS)
    return replace(evidence, diagnostics=(*others, check, *local)), rests_on(evidence, allowed)


def rests_on(evidence: Evidence, trusted: Collection[str]) -> tuple[str, ...]:
    """The trusted keys that a pass depends on, alone or with others."""
    deciding = evidence.deciding()
    found = (rater for rater in evidence.raters if not rater.own and (rater.name in deciding or rater.region))
    names = (name for rater in found for name in rater.members or (rater.name,))
    return tuple(dict.fromkeys(name for name in names if name in trusted))


def _local(evidence: Evidence, bad: Sequence[RaterShare]) -> tuple[Diagnostic, ...]:
    """The check that no key alone decides what the candidate chooses somewhere, if one does."""
    if not bad:
        return ()
    where = "; ".join(f"the key {rater.name!r} alone decides where {rater.region}" for rater in bad)
    return (
        Diagnostic(
            name=ONE_KEY_REGION, value=float(len(bad)), limit=0.0, ok=False, blocks=True, message=where,
            cure=_untrusted(evidence, bad),
        ),
    )  # fmt: skip


def _decided(evidence: Evidence, bad: Sequence[RaterShare]) -> str:
    rater = bad[0]
    gave = f"the key {rater.name!r} rated {rater.share:.0%} of {evidence.n:,} {evidence.unit}"
    if rater.members:
        names = " and ".join(map(repr, rater.members))
        agree = " agree far more with one another than with the others; they" if len(rater.members) > 2 else ""
        gave = f"the keys {names}{agree} rated {rater.share:.0%} of {evidence.n:,} {evidence.unit}"
    whose = "their" if rater.members else "its"
    proven = "better" if rater.statistic <= 0.0 < evidence.statistic else "proven better"
    what = f"and without {whose} ratings {evidence.candidate} is not {proven} ({rater.others:,} {evidence.unit})"
    if rater.others == 0:
        what = "and no other key rated any" + "; a third one is needed" * (len(rater.members) == 2)
    more = f"; the same applies to {', '.join(repr(other.name) for other in bad[1:])}" if len(bad) > 1 else ""
    return f"{gave}, {what}{more}"


def _shared(named: Sequence[RaterShare], deciding: Sequence[str]) -> str:
    if deciding:
        return f"it depends on {', '.join(map(repr, deciding))}, which is trusted to decide it"
    most = named[0]
    given = f"the largest share, {most.share:.0%}, was rated by {most.name!r}"
    return f"none of {len(named)} keys decides it alone: {given}" if len(named) > 1 else given


def _untrusted(evidence: Evidence, bad: Sequence[RaterShare]) -> str:
    keys = list(dict.fromkeys(name for rater in bad for name in rater.members or (rater.name,)))
    trust = " ".join(f"--trust-key {quote(key)}" for key in keys)
    names = ", ".join(f'"{key}"' for key in keys)
    return (
        f"Inspect its ratings (`headway rewards analyze {evidence.task}`). Collect ratings from other keys, "
        "so that the proof does not depend on so few; or delete its ratings (`headway data delete --rater "
        f"{quote(bad[0].name)}`). If you trust it: headway promote {evidence.task} {trust}, or "
        f"trust_keys = [{names}] in the task's settings."
    )


def depends_on(trusted: Sequence[str]) -> tuple[str, ...]:
    if not trusted:
        return ()
    who = f"the key {trusted[0]!r}" if len(trusted) == 1 else f"the keys {', '.join(map(repr, trusted))}"
    return (f"It depends on {who}, which you trust.",)
