"""The vocabulary of the sample world: eight kinds of work, each in three grades of difficulty.

A prompt is an opening of its kind with the blanks filled in, then one or two requirements of its grade. The graded
blank (`work`) and the requirements tell how hard the prompt is; the other blanks (`SETTING`) are noise. A model can
therefore learn the grade from the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of work: its openings, its tasks per grade, its difficulty, and the shares of the grades."""

    name: str
    role: str
    openings: tuple[str, ...]  # {work} is the graded blank, the others come from SETTING
    work: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]  # easy, moderate, hard
    difficulty: float  # added to the grade's
    share: float  # of all prompts
    grades: tuple[float, float, float]  # sums to one


SETTING: Mapping[str, tuple[str, ...]] = {
    "who": (
        "a customer", "my manager", "the new colleague", "our landlord", "a supplier in Lisbon", "the support team",
        "a volunteer", "the conference organisers", "a first-year student", "the finance department", "our neighbours",
        "a returning guest", "the board", "an auditor", "two interns", "the night shift",
    ),
    "where": (
        "the billing service", "our web shop", "the booking system", "the warehouse scanner", "the mobile app",
        "the reporting pipeline", "the search index", "the payroll import", "the login page", "the sensor gateway",
        "the invoice archive", "the chat backend", "the staging cluster", "the recommendation feed", "the tax module",
    ),
    "language": ("Python", "TypeScript", "Go", "Rust", "Java", "SQL", "Kotlin", "C", "Ruby", "Swift"),
    "document": (
        "this e-mail thread", "the attached contract", "the meeting notes", "this research paper", "the survey answers",
        "the user interviews", "this product manual", "the quarterly report", "this court ruling", "the release notes",
        "the incident report", "this grant application", "the maintenance log", "the insurance policy",
    ),
    "topic": (
        "migrating birds", "heat pumps", "the Hanseatic League", "sourdough", "tidal power", "typeface design",
        "railway timetables", "coffee roasting", "coral reefs", "medieval guilds", "bicycle gears", "lithium batteries",
        "public libraries", "volcanic soil", "glass making", "urban trees", "weather balloons", "opera houses",
    ),
    "organisation": (
        "a bakery with three shops", "a regional hospital", "a museum", "a software start-up", "a wind farm operator",
        "a secondary school", "a food bank", "a shipping company", "a city council", "a climbing gym", "a law firm",
        "a textile mill", "an airline caterer", "a housing cooperative",
    ),
}  # fmt: skip

REQUIREMENTS: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] = (
    (
        "Keep it short.", "One sentence is enough.", "A rough draft is fine.", "Nothing fancy.", "Just the basics.",
        "Plain words, please.", "A quick answer will do.", "Skip the details.", "No more than two lines.",
    ),
    (
        "Include one worked example.", "Explain the main trade-off.", "Give three options and pick one.",
        "Mention what could go wrong.", "Use a small table.", "Say which assumptions you made.",
        "Add a sensible default.", "Name your sources.",
    ),
    (
        "Justify every step rigorously.", "Cover all edge cases, including adversarial input.",
        "Prove that nothing is lost when two processes race.", "Derive the worst-case bound.",
        "Reconcile the contradicting sources.", "It must survive a partial failure at any point.",
        "Quantify the uncertainty of each claim.", "Weigh the second-order consequences.",
    ),
)  # fmt: skip

KINDS: tuple[Kind, ...] = (
    Kind(
        "message", "documentation",
        ("Write {work} to {who}.", "Draft {work} for {who}.", "Please phrase {work} to {who}.",
         "I need {work} for {who} by tonight."),
        (
            ("a friendly thank-you note", "a short reminder", "a birthday greeting", "an out-of-office reply",
             "a polite confirmation", "a one-line apology"),
            ("a complaint about a late delivery", "an invitation with travel directions", "a letter of recommendation",
             "a price increase announcement"),
            ("a settlement offer with conditions", "a public statement after a data leak",
             "a negotiation reply that concedes nothing"),
        ),
        -1.0, 0.16, (0.60, 0.28, 0.12),
    ),
    Kind(
        "question", "memory_optimizer",
        ("{work} {topic}?", "Quick question: {work} {topic}?", "For {who}: {work} {topic}?",
         "Somebody asked me: {work} {topic}?"),
        (
            ("What is a good one-line definition of", "Where do people usually learn about", "What is another word for",
             "Who is known for", "When did people start with"),
            ("How would you compare two common views of", "What are the main costs of", "Which numbers matter most for",
             "What do beginners get wrong about"),
            ("Which causal evidence would settle the dispute about", "What would falsify the leading theory of",
             "How do second-order effects change the economics of"),
        ),
        -0.8, 0.14, (0.55, 0.30, 0.15),
    ),
    Kind(
        "extract", "memory_optimizer",
        ("From {document}, {work}.", "Read {document} and {work}.", "Take {document}; {work}.",
         "Given {document} for {organisation}, {work}."),
        (
            ("list the dates", "copy out the names", "count the items", "pull the e-mail addresses", "find the total"),
            ("return the obligations as JSON", "tabulate amounts by month", "match each complaint with a product",
             "label every paragraph by topic"),
            ("reconstruct the timeline from contradicting statements", "find clauses that void one another",
             "infer which figures were restated and why"),
        ),
        -0.5, 0.12, (0.50, 0.32, 0.18),
    ),
    Kind(
        "summary", "documentation",
        ("Summarise {document} {work}.", "Condense {document} {work}.", "Rewrite {document} {work}, about {topic}.",
         "Retell {document} for {who} {work}."),
        (
            ("in one sentence", "as three bullet points", "for a newsletter", "for children", "as a headline"),
            ("for a technical audience", "with the open questions", "and keep all the figures",
             "next to last year's version"),
            ("and separate evidence from opinion claim by claim", "and expose the statistical flaws of its argument",
             "and reconcile it with the three opposing studies"),
        ),
        -0.3, 0.12, (0.45, 0.35, 0.20),
    ),
    Kind(
        "code", "coder",
        ("Write {language} code for {where} that {work}.", "In {language}: something for {where} that {work}.",
         "Implement in {language} a part of {where} that {work}.", "Add to {where} a {language} function that {work}."),
        (
            ("reverses a list", "formats a date", "adds two columns", "reads a text file", "trims blank lines",
             "renames a field"),
            ("parses nested configuration", "retries with a time limit", "paginates an API", "caches recent results",
             "merges sorted streams"),
            ("replicates a log across unreliable nodes", "merges concurrent edits without a lock",
             "compacts a tree on disk during writes", "schedules a dependency graph under memory limits"),
        ),
        0.3, 0.16, (0.32, 0.36, 0.32),
    ),
    Kind(
        "debug", "debugger",
        ("{where} {work}. Find out why.", "Since Monday {where} {work}. What is the cause?",
         "Why is it that {where} {work}? It is written in {language}.", "Debug this: {where} {work}."),
        (
            ("shows a missing import", "prints a wrong label", "rejects a blank field", "has a typo in its settings"),
            ("times out on large uploads", "returns stale results after a deploy", "double-counts some rows",
             "leaks file handles slowly"),
            ("deadlocks once a week under concurrent load", "corrupts memory only with optimisation on",
             "loses acknowledged writes after a failover", "diverges between replicas without an error"),
        ),
        0.6, 0.12, (0.25, 0.37, 0.38),
    ),
    Kind(
        "maths", "reviewer",
        ("{work}.", "For a seminar paper: {work}.", "{work}, as you would for {who}.",
         "Please {work}; it is about {topic}."),
        (
            ("add up a column of prices", "convert miles into kilometres", "work out a percentage",
             "round these figures"),
            ("solve a system of linear equations", "fit a line and interpret the slope", "integrate by parts",
             "compute a conditional probability"),
            ("prove convergence of the series uniformly", "derive the estimator's asymptotic variance",
             "show that the problem is NP-hard by reduction", "construct a counterexample to the converse"),
        ),
        0.8, 0.09, (0.25, 0.35, 0.40),
    ),
    Kind(
        "plan", "planner",
        ("Plan {work} for {organisation}.", "Design {work} for {organisation}.",
         "Propose {work} for {organisation} and {who}.", "We run {organisation}. Outline {work}."),
        (
            ("a packing list", "a weekly rota", "a simple agenda", "a birthday outing"),
            ("a marketing calendar", "a budget with reserves", "a move to new offices", "a hiring process"),
            ("a migration of live data without downtime", "a security architecture against insiders",
             "a capacity model under uncertain demand", "a merger of two incompatible systems"),
        ),
        0.5, 0.09, (0.28, 0.36, 0.36),
    ),
)  # fmt: skip
