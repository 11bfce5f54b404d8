"""The core's own passport, so that every name is looked up in the same way."""

from __future__ import annotations

from headway.nouns.kind import Kind
from headway.nouns.kit import Command, Family, Kit

# Tables of headway.toml that the core reads; a kit cannot declare one of these.
TABLES = ("tasks", "upstreams", "server", "store", "watch", "kits")


def _command(target: str, summary: str, group: str = "More") -> Command:
    module, _, name = target.partition(":")
    return Command(f"headway.cli.{module}:{name or module}", summary, group)


# A choice among candidates: the kind of every task that names none.
CHOICE = Kind(
    summary="Choose one of several candidates.",
    keys=(
        "actions", "rules", "fallback", "roles", "explore", "floor", "confidence_floor", "most_exploration", "sticky",
        "keep_replies", "online", "costs", "cost_weight", "canary", "experiment", "most_share", "decide_within",
        "decide_within_days",
    ),
    knobs="headway.project.learn:choice_knobs",
    shared=True,
    template={},
)  # fmt: skip

CORE = Kit(
    name="core",
    summary="The loop itself: decide, signal, learn, prove, promote.",
    kinds={"choice": CHOICE},
    families={
        "bandit": Family(
            kinds=("choice",),
            policy="headway.decide.bandit:read",
            learner="headway.learn.bandit:BanditLearner",
            knobs="headway.learn.bandit:BanditKnobs",
            online=True,
        ),
    },
    encoders={
        "hashing": "headway.encode.hashing:make",
        "structure": "headway.encode.build:make",
    },
    evidence={
        "log": "headway.project.prove.logged:LOGGED",
    },
    # The lines are here so that --help imports no command; a test compares them with the commands.
    commands={
        "up": _command("up", "Start everything: the server, the loop that learns, and the page.", "Start"),
        "demo": _command("demo", "Play the whole loop on synthetic traffic, from an empty folder.", "Start"),
        "init": _command("init", "Create a project: headway.toml and .headway/ in a folder.", "Start"),
        "status": _command("status", "Show every task: who decides, what was recorded, what to do next.", "Look"),
        "log": _command(
            "log", "Tell what happened to a task: learned, proven, promoted, rolled back, changed.", "Look"
        ),
        "open": _command("open_page:open_page", "Print a fresh link to the page of the running server."),
        "doctor": _command("doctor", "Check the installation, the settings and the project.", "Look"),
        "decide": _command("decide", "Choose one of the candidates and log the choice with its probability.", "Loop"),
        "signal": _command("signal", "Record how a decision or an episode went.", "Loop"),
        "learn": _command("learn", "Learn a candidate policy from settled decisions.", "Loop"),
        "prove": _command("prove", "Is the candidate better than the current policy?", "Loop"),
        "promote": _command("promote", "Make a proven candidate the current policy.", "Loop"),
        "rollback": _command("promote:rollback", "Make the previous policy current again.", "Loop"),
        "name": _command("promote:name_", "Give a learned policy a name for people."),
        "explain": _command(
            "explain", "Show who made a decision, why, with which probabilities, and how it went.", "Look"
        ),
        "plan": _command("plan", "Compute how many decisions a proof needs, before they are collected."),
        "experiment": _command("experiment", "Give a candidate a share of the traffic until its test has a verdict."),
        "settle": _command("settle", "Bring outcomes up to date with the signals."),
        "keys": _command("keys", "Create, replace and revoke the keys that callers of the server need."),
        "serve": _command("serve", "Serve decisions and signals over HTTP; every one is durably logged."),
        "watch": _command("watch", "Learn, prove, and promote or wait, whenever there are enough new outcomes."),
        "kits": _command("kits", "List kits, what each of them adds, and what is wrong with a broken one."),
        "help": _command("help:help_", "Explain every command in a line, one command, or a term."),
        "completion": _command("completion", "Print the script that makes your shell complete headway commands."),
    },
)
