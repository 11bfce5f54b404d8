"""`headway status`: where every task stands."""

from __future__ import annotations

from typing import Any

from headway.cli.verb import Session, verb

__all__ = ["next_step", "status"]


@verb("status", "headway status", "headway -C demo status --json")
def status(session: Session) -> None:
    """Every task: who decides, what has come in, what to do next."""
    with session.project() as project:
        found = project.status()
        evidence = {
            row["task"]: project.ledger.evidence(row["evidence"])
            for row in found["tasks"]
            if row["evidence"] is not None
        }
        for row in found["tasks"]:
            session.synthetic(project, row["task"])
    session.out.document(found)
    if found["store"]["engine"] == "postgresql":
        session.out.line(f"The store is PostgreSQL: {found['store']['name']}, {found['store']['bytes']:,} bytes.")
    if not found["tasks"]:
        session.out.line("Nothing is declared and nothing was decided yet.")
        session.next('headway decide route "Summarise this page" --candidates small,large')
        return
    session.out.table(
        ("task", "current", "canary", "decisions", "rewarded", "failed", "censored", "pending", "candidates"),
        [
            (
                row["task"],
                row["current"],
                row["canary"] or "–",
                f"{row['decisions']:,}",
                *(f"{row['outcomes'].get(name, 0):,}" for name in ("rewarded", "failed", "censored", "pending")),
                ", ".join(row["candidates"]) or "–",
            )
            for row in found["tasks"]
        ],
        right=("decisions", "rewarded", "failed", "censored", "pending"),
    )
    session.next(next_step(found["tasks"], evidence))


def next_step(tasks: list[dict[str, Any]], evidence: dict[str, Any]) -> str:
    """The command that brings the loop forward: the first task that waits for one."""
    for row in tasks:
        task = row["task"]
        if row["candidates"]:
            newest = row["candidates"][-1]
            known = evidence.get(task)
            if known is None or known["candidate"] != newest:
                return f"headway prove {task}"
            if known["statistic"] > known["threshold"] and all(
                each["ok"] or not each["blocks"] for each in known["diagnostics"]
            ):
                return f"headway promote {task}"
    for row in tasks:
        if row["decisions"] and row["until_retrain"] == 0:
            return f"headway learn {row['task']}"
    for row in tasks:
        if row["outcomes"].get("pending", 0):
            return f"headway data log {row['task']}"
    return f"headway decide {tasks[0]['task']} …"
