"""The words of the world `projects`: three vocabularies that share no template and almost no word.

Rows that are trained on, rows that models are picked on and rows that are held out are described with different
vocabularies, so that a model has to know what words mean, and not which of them it has seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DIMENSIONS = ("correctness", "speed", "coverage", "readability", "security", "docs")
TYPES = ("fix", "refactor", "feature", "test", "config", "experiment")
SCOPES = ("small", "medium", "large")
AGENTS = ("ada", "bo", "cyd", "dan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """How one part of the rows speaks: verbs per type, subjects per dimension, and how bold a change is."""

    templates: tuple[str, ...]  # with {verb}, {subject} and {manner}
    verbs: Mapping[str, tuple[str, ...]]
    subjects: Mapping[str, tuple[str, ...]]
    components: tuple[str, ...]
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
        "correctness": ("the crash", "wrong totals", "the off-by-one error", "broken date parsing",
                        "a null pointer exception", "inaccurate results", "the race condition",
                        "incorrect validation"),
        "speed": ("slow queries", "a cache", "high latency", "faster sorting", "excessive memory use",
                  "long loading times", "parallel processing", "an expensive loop"),
        "coverage": ("untested branches", "unit tests", "missing test cases", "test coverage", "a flaky test",
                     "integration tests", "assertions", "mocks and fixtures"),
        "readability": ("a long function", "confusing variable names", "duplicated code", "messy helpers",
                        "deep nesting", "dead code", "inconsistent style", "a giant class"),
        "security": ("password hashing", "SQL injection", "permission checks", "leaked secrets", "weak encryption",
                     "user authentication", "unsafe input", "an expired certificate"),
        "docs": ("the README", "API documentation", "docstrings", "the installation guide", "outdated comments",
                 "usage examples", "the changelog", "a getting-started page"),
    },
    components=("the login handler", "billing", "the importer", "search", "the scheduler", "the upload endpoint",
                "the admin page", "the report generator", "the mobile client", "the payment gateway",
                "the settings dialog", "the notification service"),
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
        "correctness": ("an exception", "incorrect rounding", "a time zone bug", "a logic mistake", "bad output"),
        "speed": ("quicker lookups", "response times", "poor performance", "a slow pipeline", "batching of requests"),
        "coverage": ("code without a test", "a test suite", "regression tests", "test doubles",
                     "untested edge cases"),
        "readability": ("an unclear class hierarchy", "copy-pasted blocks", "cryptic names", "spaghetti code",
                        "overlong methods"),
        "security": ("a vulnerability", "login sessions", "encryption of tokens", "access control",
                     "an injection attack"),
        "docs": ("a tutorial", "code comments", "the reference manual", "documentation pages", "the user guide"),
    },
    components=("checkout", "the exporter", "the router", "the solver", "webhooks", "the image converter"),
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
        "correctness": ("faulty arithmetic", "a failure on empty input", "a defect", "an erroneous calculation",
                        "unexpected errors"),
        "speed": ("sluggish rendering", "throughput", "a performance bottleneck", "slowness",
                  "optimised computation"),
        "coverage": ("end-to-end testing", "modules lacking any test", "a missing test suite",
                     "checks of failure modes", "unverified code paths"),
        "readability": ("tangled control flow", "repetition", "obscure abbreviations", "unreadable code",
                        "a bloated module"),
        "security": ("cross-site scripting", "access rights", "credentials in plain text",
                     "an attack on passwords", "insecure sessions"),
        "docs": ("a handbook", "manual pages", "an explanation of the architecture",
                 "documentation for contributors", "tutorial examples"),
    },
    components=("the dashboard", "signup", "the message queue", "currency conversion", "guest carts",
                "the recommendation engine"),
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
