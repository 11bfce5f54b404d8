"""What every kind of evidence keeps: it answers alike each time, survives storage, and can be shown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from headway.nouns import errors

if TYPE_CHECKING:
    from headway.project import Project, ProofKind


def evidence_contract(project: Project, kind: ProofKind, task: str, policy: str | None = None) -> None:
    """`prove` uses this kind for the candidate of the task, and the evidence can be judged, stored and shown.

    Checked: the kind's own answers, the same evidence twice, finite numbers, what is read back from the store, and a
    page for it. Not checked: whether the test is valid. Prove that with a world in which no policy is better.
    """
    from headway.prove import Page

    registered = project.catalogue.all("evidence")
    assert kind.name in registered, f"no kit in use registers the kind {kind.name!r}: {sorted(registered)}"
    verdict, again = project.prove(policy, task=task), project.prove(policy, task=task)
    evidence, twin = verdict.evidence, again.evidence
    assert evidence is not None
    assert twin is not None
    assert evidence.kind == kind.name, f"`prove` uses {evidence.kind!r} for this candidate, not {kind.name!r}"
    assert (evidence.id, evidence.data_hash) == (twin.id, twin.data_hash), "proving twice gives other evidence"
    for name in ("statistic", "statistic_worse", "threshold", "alpha", "margin"):
        value = getattr(evidence, name)
        assert math.isfinite(value), f"{name} is {value!r}"
    assert evidence.n >= 0, f"n is {evidence.n!r}"
    assert 0.0 < evidence.alpha < 1.0, f"alpha is {evidence.alpha!r}"
    assert evidence.rule, "the evidence does not name its rule"
    assert evidence.data_hash, "the evidence has no hash of its data"
    made, stored = (
        msgspec.json.decode(msgspec.json.encode(one)) for one in (twin, project.verdict(evidence.id).evidence)
    )
    changed = [name for name in made if made[name] != stored.get(name)]
    assert not changed, f"the stored evidence differs from the one that was made: {changed}"
    page = Page.of(project.verdict(evidence.id))
    assert evidence.candidate in page.title, "the page does not name the candidate"
    missing = project.standing(task).unprovable
    assert missing is None or isinstance(missing, errors.HeadwayError), f"`missing` gives {missing!r}"
