"""The words of the world `projects`: three vocabularies that share no template and almost no word.

Rows that are trained on, rows that models are picked on and rows that are held out are described with different
vocabularies, so that a model has to know what words mean, and not which of them it has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["AGENTS", "DIMENSIONS", "SCOPES", "TYPES", "VOCABULARIES", "Vocabulary"]

DIMENSIONS = ("correctness", "speed", "coverage", "readability", "security", "docs")
TYPES = ("fix", "refactor", "feature", "test", "config", "experiment")
SCOPES = ("small", "medium", "large")
AGENTS = ("ada", "bo", "cyd", "dan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """How one part of the rows speaks: a verb per type, subjects per dimension, and how bold a change is."""

    templates: tuple[str, ...]  # with {verb}, {subject} and {manner}
    verbs: Mapping[str, tuple[str, ...]]
    subjects: Mapping[str, tuple[str, ...]]
    careful: tuple[str, ...]
    bold: tuple[str, ...]
    goals: Mapping[str, tuple[str, ...]]  # what the project wants next, the text of a state


_SEEN = Vocabulary(
    templates=("{verb} {subject}, {manner}", "{verb} {subject} {manner}"),
    verbs={
        "fix": ("Fix", "Repair", "Correct"),
        "refactor": ("Refactor", "Restructure", "Tidy"),
        "feature": ("Add", "Implement", "Build"),
        "test": ("Test", "Write tests for", "Add assertions for"),
        "config": ("Configure", "Set up", "Adjust settings of"),
        "experiment": ("Try", "Experiment with", "Prototype"),
    },
    subjects={
        "correctness": ("the crash in the login handler", "wrong totals on invoices", "the off-by-one error in paging",
                        "the broken date parser"),
        "speed": ("the slow search query", "a cache for product pages", "the latency of the upload endpoint",
                  "faster sorting of results"),
        "coverage": ("untested branches of the parser", "unit tests of the importer", "the missing test of refunds",
                     "test coverage of the scheduler"),
        "readability": ("the long function in billing", "confusing variable names", "duplicated code in the views",
                        "the messy helper module"),
        "security": ("password hashing at login", "the SQL injection in reports", "permission checks of the admin page",
                     "leaked secrets in the log"),
        "docs": ("the README of the client", "documentation of the API", "docstrings of the scheduler",
                 "the installation guide"),
    },
    careful=("one step at a time", "carefully and with a way back", "in a minimal change"),
    bold=("in one big rewrite", "all at once", "replacing everything around it"),
    goals={
        "correctness": ("Users report wrong results.", "Too many errors in production."),
        "speed": ("Pages load too slowly.", "Requests take too long."),
        "coverage": ("Too little of the code is tested.", "Tests miss important cases."),
        "readability": ("Nobody understands this code.", "The code is hard to change."),
        "security": ("An audit found weak access control.", "Passwords must be protected better."),
        "docs": ("New users do not know how to start.", "The manual is out of date."),
    },
)  # fmt: skip

_TUNING = Vocabulary(
    templates=("We should {verb} {subject}: {manner}", "Next, {verb} {subject} ({manner})"),
    verbs={
        "fix": ("resolve", "mend"),
        "refactor": ("reorganise", "simplify"),
        "feature": ("introduce", "create"),
        "test": ("verify with a test", "check by tests"),
        "config": ("change the configuration of", "tune the options of"),
        "experiment": ("explore", "trial"),
    },
    subjects={
        "correctness": ("the exception during checkout", "incorrect rounding of taxes", "the bug in time zones"),
        "speed": ("an index for quicker lookups", "response times of the feed", "performance of the image pipeline"),
        "coverage": ("code paths without a test", "a test suite for payments", "regression tests of the exporter"),
        "readability": ("an unclear class hierarchy", "copy-pasted blocks in the router",
                        "cryptic names in the solver"),
        "security": ("the vulnerability in sessions", "authentication of webhooks", "encryption of stored tokens"),
        "docs": ("a tutorial for beginners", "comments on public functions", "the reference manual"),
    },
    careful=("a cautious, tiny edit", "gradually, easy to undo"),
    bold=("a sweeping overhaul", "a total rewrite of the module"),
    goals={
        "correctness": ("Bugs annoy customers.",),
        "speed": ("Performance is poor.",),
        "coverage": ("The test suite has gaps.",),
        "readability": ("The code base is a mess.",),
        "security": ("There are known vulnerabilities.",),
        "docs": ("Documentation is lacking.",),
    },
)  # fmt: skip

_HELD_OUT = Vocabulary(
    templates=("Proposal: {manner} to {verb} {subject}", "{subject}: {verb} it with {manner}"),
    verbs={
        "fix": ("patch", "remedy"),
        "refactor": ("clean up", "rework"),
        "feature": ("develop", "provide"),
        "test": ("cover with checks", "exercise in a test case"),
        "config": ("alter parameters for", "switch flags on"),
        "experiment": ("investigate", "pilot"),
    },
    subjects={
        "correctness": ("faulty arithmetic in discounts", "a failure when carts are empty",
                        "the defect in currency conversion"),
        "speed": ("the sluggish dashboard", "throughput of the message queue", "a bottleneck in rendering"),
        "coverage": ("modules lacking any test case", "end-to-end tests of signup", "untested failure modes"),
        "readability": ("a tangled control flow", "repetition across the handlers",
                        "obscure abbreviations in the model"),
        "security": ("cross-site scripting in forms", "access rights of guests", "credentials kept in plain text"),
        "docs": ("a handbook for contributors", "examples in the manual pages", "an explanation of the architecture"),
    },
    careful=("a prudent incremental tweak", "a modest reversible adjustment"),
    bold=("a radical redesign", "a massive replacement"),
    goals={
        "correctness": ("Defects keep coming back.",),
        "speed": ("Everything feels sluggish.",),
        "coverage": ("Nobody trusts the test cases.",),
        "readability": ("The source is tangled.",),
        "security": ("Attackers could get in.",),
        "docs": ("Contributors ask for a handbook.",),
    },
)  # fmt: skip

# By the part of the split that a row falls into.
VOCABULARIES: Mapping[str, Vocabulary] = {"train": _SEEN, "tune": _TUNING, "prove": _HELD_OUT}
