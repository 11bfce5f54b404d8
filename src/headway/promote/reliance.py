"""What a verdict rests on that only a person may accept: in words, with the flag that accepts it and a better way."""

from __future__ import annotations

from headway.nouns import Evidence, Reliance, lasting

FLAGS: dict[Reliance, str] = {"claims": "--trust-claims", "predictions": "--predicts-only"}


def reliance_words(evidence: Evidence) -> tuple[str, ...]:
    """What the evidence rests on; empty if nobody needs to accept it."""
    match evidence.reliance:
        case "predictions":
            return ("That does not show that it earns more.",)
        case "claims":
            assert evidence.claims is not None
            drawn, claimed = evidence.claims.drawn, evidence.claims.rows
            rests = f"It rests on {claimed:,} decisions whose probabilities a client sent, and holds if these are true"
            own = f"the {drawn:,} that Headway drew do not show it alone" if drawn else "Headway drew none"
            return (f"{rests}; {own}.",)
    return ()


def better_way(evidence: Evidence) -> str:
    """How to get evidence that needs no trust."""
    if evidence.reliance == "predictions":
        return "To show what it earns, let Headway decide, and prove it on those decisions."
    start = f"headway experiment start {evidence.task} --policy {evidence.candidate}"
    return f"For a proof that needs no trust, let Headway decide in an experiment ({start})."


def too_young(evidence: Evidence, final_after_s: float) -> bool:
    """Whether the log was too young to show that outcomes change: then only a person promotes."""
    return evidence.kind == "log" and evidence.seen_s < final_after_s


def unseen_changes(evidence: Evidence, final_after_s: float) -> tuple[str, ...]:
    """The sentence of a verdict about that."""
    if not too_young(evidence, final_after_s):
        return ()
    why = f"the log is {lasting(evidence.seen_s)} old, and final_after_s is {lasting(final_after_s)}"
    return (f"Outcomes may still change: {why}. Until then, only a person promotes.",)
