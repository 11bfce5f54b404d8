"""project — the facade: one method per verb; it wires the rooms, mints ids and reads the clock.

The command line, the server and kits import from here, and from no module inside.

Takes: the arguments of callers.   Gives: records, verdicts, reports.
Never: does maths, uses SQL, HTTP or a terminal.
May import: settings, promote, learn, prove, decide, reward, observe, encode, client, nouns.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headway.project.project import Opened, Project

if TYPE_CHECKING:
    from headway.project.data.erase import DeletionReport
    from headway.project.data.leaks import leaks_document
    from headway.project.decide.consider import Ask, Considered, source_of
    from headway.project.decide.elsewhere import recorded
    from headway.project.decide.inputs import Details, Offer, situation_of
    from headway.project.decide.serving import Serving, Servings, acting_floor
    from headway.project.inspect import JudgedEvidence, task_evidence, task_status
    from headway.project.inspect.story import task_story
    from headway.project.inspect.worth import task_worth
    from headway.project.learn import encoder_spec, labelled_rows, readable
    from headway.project.prove.budget import budget_place
    from headway.project.prove.examine import Examined, examine
    from headway.project.prove.finality import changing_outcomes
    from headway.project.prove.fitting import unfit_sentences
    from headway.project.prove.kinds.kind import ProofKind, ProofQuestion
    from headway.project.prove.logged import logged
    from headway.project.prove.rows import speaking
    from headway.project.prove.subject import candidate_policy
    from headway.project.prove.unread import Unread
    from headway.project.publish import (
        Published,
        add_bundle,
        add_candidate,
        publish_policy,
        record_change,
        versions,
    )
    from headway.project.weight import WrittenWeight, write_weight

__all__ = [
    "Ask",
    "Considered",
    "DeletionReport",
    "Details",
    "Examined",
    "JudgedEvidence",
    "Offer",
    "Opened",
    "Project",
    "ProofKind",
    "ProofQuestion",
    "Published",
    "Serving",
    "Servings",
    "Unread",
    "WrittenWeight",
    "acting_floor",
    "add_bundle",
    "add_candidate",
    "budget_place",
    "candidate_policy",
    "changing_outcomes",
    "encoder_spec",
    "examine",
    "labelled_rows",
    "leaks_document",
    "logged",
    "publish_policy",
    "readable",
    "record_change",
    "recorded",
    "situation_of",
    "source_of",
    "speaking",
    "task_evidence",
    "task_status",
    "task_story",
    "task_worth",
    "unfit_sentences",
    "versions",
    "write_weight",
]

# Loaded on first use: a deciding server needs no code that learns, proves, imports or deletes.
_WHERE = {
    "data.erase": ("DeletionReport",),
    "data.leaks": ("leaks_document",),
    "decide.consider": ("Ask", "Considered", "source_of"),
    "decide.inputs": ("Details", "Offer", "situation_of"),
    "inspect": ("JudgedEvidence", "task_evidence", "task_status"),
    "learn": ("encoder_spec", "labelled_rows", "readable"),
    "prove.examine": ("Examined", "examine"),
    "prove.finality": ("changing_outcomes",),
    "prove.kinds.kind": ("ProofKind", "ProofQuestion"),
    "prove.logged": ("logged",),
    "prove.rows": ("speaking",),
    "prove.subject": ("candidate_policy",),
    "prove.budget": ("budget_place",),
    "prove.unread": ("Unread",),
    "publish": ("Published", "add_bundle", "add_candidate", "publish_policy", "record_change", "versions"),
    "inspect.story": ("task_story",),
    "inspect.worth": ("task_worth",),
    "prove.fitting": ("unfit_sentences",),
    "decide.elsewhere": ("recorded",),
    "decide.serving": ("Serving", "Servings", "acting_floor"),
    "weight": ("WrittenWeight", "write_weight"),
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
