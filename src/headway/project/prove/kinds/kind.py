"""The registry of kinds of evidence: which one a proof uses, and why one cannot be made.

    pick(question)                 # the first kind of the candidate's family that applies: "log"
    kind_named(catalogue, "world") # the ProofKind that a kit registered under this name
    provable(question)             # that ProofKind, or what is missing is raised

A kit registers a kind in its passport, `evidence={"votes": "acme.votes:VOTES"}`. A family names the kinds that can
judge it, in order of preference: `Family(…, evidence=("votes", "log"))`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from headway.nouns import Catalogue, PolicyRef, errors, load

if TYPE_CHECKING:
    from headway.nouns import Crew, Evidence, Progress
    from headway.observe import ChangeLags
    from headway.project.project.folder import Opened
    from headway.promote import CandidatePolicy, CurrentPolicy
    from headway.prove import About, GuardRule, Log, Planned, Window
    from headway.settings import TaskSettings


LOG = "log"  # what is used where no kind of a family applies: its errors name the cure


@dataclass(slots=True)
class SeenRows:
    """What a proof from logged decisions was computed from: it can be computed again."""

    chunks: list[Log] = field(default_factory=list)
    training: Window | None = None  # what drift is measured from


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofQuestion:
    """Is this candidate better than the other policy, for this task?"""

    project: Opened
    settings: TaskSettings
    candidate: tuple[str, str]  # reference, content hash
    other: tuple[str, str]
    progress: Progress | None = None
    seen: SeenRows | None = None  # keeps the logged rows
    after: int | None = None  # the last decision before the candidate's experiment: only later ones count
    left: Counter[str] = field(default_factory=Counter)  # rows that cannot be evidence, by what they lack
    since: float = 0.0  # only decisions after this time are evidence
    final_s: float = 0.0  # the age from which decisions count
    lags: ChangeLags | None = None  # how long outcomes change
    crew: Crew | None = None  # plays episodes side by side; none: this process

    def trained_on(self, policy: tuple[str, str]) -> Mapping[str, Any]:
        """What the header of a policy says about its training; empty for a built-in one."""
        ref, digest = policy
        return {} if PolicyRef.parse(ref).built_in else self.project.registry.header(digest).trained_on


class ProofKind(Protocol):
    """One kind of evidence. `headway.testing.evidence_contract` states what it keeps."""

    @property
    def name(self) -> str:
        """Its name in the passport, and the `kind` of the evidence that it makes."""
        ...

    @property
    def grows(self) -> bool:
        """Whether new outcomes of the task add to it."""
        ...

    def applies(self, question: ProofQuestion) -> bool:
        """Whether this question can be answered in this way at all. Cheap: `status` asks it."""
        ...

    def missing(self, question: ProofQuestion) -> errors.HeadwayError | None:
        """Why there can be no evidence now (a package, a row), with the cure; None if there can. Cheap."""
        ...

    def evidence(self, question: ProofQuestion, about: About, guards: Sequence[GuardRule]) -> Evidence:
        """The evidence. The same question on the same data gives the same evidence."""
        ...

    def plan(self, question: ProofQuestion, about: About, *, uplift: float, power: float) -> Planned:
        """The size of a test for this uplift, not registered yet; InvalidInput if this kind has no such plan."""
        ...


def kind_named(catalogue: Catalogue, name: str) -> ProofKind:
    """The kind that a kit registered under a name."""
    kind: ProofKind = load(catalogue.look_up("evidence", name, called="kind of evidence", code="unknown_evidence"))
    return kind


def pick(question: ProofQuestion, *, outcomes: bool = False) -> str:
    """The name of the first kind of the family that applies; "log" if none does.

    `outcomes`: only kinds that new outcomes add to. A guard asks how decisions went, not how a world's episodes go.
    """
    catalogue = question.project.catalogue
    known = catalogue.all("evidence")
    for name in (name for name in catalogue.family(_family(question)).evidence if name in known):
        kind = kind_named(catalogue, name)
        if (kind.grows or not outcomes) and kind.applies(question):
            return name
    return LOG


def provable(question: ProofQuestion, *, outcomes: bool = False) -> ProofKind:
    """The kind that answers a question; raises what is missing."""
    kind = kind_named(question.project.catalogue, pick(question, outcomes=outcomes))
    absent = kind.missing(question)
    if absent is not None:
        raise absent
    return kind


def unprovable(
    project: Opened, settings: TaskSettings, candidate: CandidatePolicy, current: CurrentPolicy
) -> errors.HeadwayError | None:
    """Why no proof of the candidate can be made now; None if one can."""
    if candidate.digest == current.digest:
        return None
    question = ProofQuestion(
        project=project,
        settings=settings,
        candidate=(candidate.ref, candidate.digest),
        other=(current.ref, current.digest),
    )
    try:
        provable(question)
    except errors.HeadwayError as error:  # what is missing, or why a policy cannot be loaded
        return error
    return None


def _family(question: ProofQuestion) -> str:
    """The family of the candidate, of the other policy if the candidate is built in, or else of the task."""
    for ref, _ in (question.candidate, question.other):
        parsed = PolicyRef.parse(ref)
        if not parsed.built_in:
            return parsed.family
    return question.settings.family
