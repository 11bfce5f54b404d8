"""audit — is the router in this log really better? For logs of other programs, without a project.

Takes: log files of LiteLLM, Langfuse, GrowthBook and others, traces, or any table.   Gives: a verdict on one page.
Never: invents a propensity, stores anything, needs a project.
May import: cli, promote, prove, observe, files, nouns.
"""

from headway.nouns import Command, Kit

KIT = Kit(
    name="audit",
    summary="Audit a log of LiteLLM, Langfuse, GrowthBook and others, traces, or any table, without a project.",
    needs=("data", "heldout", "otel", "report"),
    commands={
        "audit": Command("headway.kits.audit.commands:audit", "Is the router in this log really better?"),
    },
)
