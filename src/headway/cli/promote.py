"""`headway promote` and `headway rollback`: who decides."""

from __future__ import annotations

import click

from headway.cli.verb import Session, task_argument, verb

__all__ = ["promote", "rollback"]


@verb("promote", "headway promote route", "headway promote route --policy bandit@4f2a --canary 0.2")
@task_argument()
@click.option("--policy", metavar="REF", help="The candidate; the newest one by default.")
@click.option("--canary", "share", type=float, metavar="SHARE", help="Only on this share of decisions, without proof.")
@click.option(
    "--trust-key", "trust", multiple=True, metavar="NAME", help="This key's ratings alone may decide it; repeatable."
)
@click.option("--who", default="", help="Whose decision it is, for the ledger; your user name by default.")
def promote(
    session: Session, task: str, policy: str | None, share: float | None, trust: tuple[str, ...], who: str
) -> None:
    """Make a proven candidate decide.

    Refused, with the reasons, unless the stored evidence against the policy that decides now carries it; evidence that
    falls without the ratings of a single key does not, unless you trust that key. With --canary 0.2 the candidate gets
    a fifth of the decisions, which makes a proof come sooner; --canary 0 ends it.
    """
    if share is not None:
        if trust:
            raise click.UsageError("--canary needs no proof, so that --trust-key does not go with it.")
        _canary(session, task, policy, share, who)
        return
    with session.project() as project:
        before = project.current(task).ref
        entry = project.promote(policy, task=task, who=who, trust_keys=trust)
        made_up = session.synthetic(project, task)
    session.out.document(
        {
            "task": task,
            "current": entry.policy,
            "current_hash": entry.policy_hash,
            "was": before,
            "why": entry.why,
            "evidence": entry.evidence_id,
            "trusted_keys": entry.detail.get("trusted_keys", []),
            "synthetic": made_up,
        }
    )
    session.out.line(f"{task} now {entry.policy} (was {before}).", style="bold green")
    session.out.line(f"Because: {entry.why}")
    session.undo(f"headway rollback {task}")


def _canary(session: Session, task: str, policy: str | None, share: float, who: str) -> None:
    with session.project() as project:
        entry = project.canary(policy, share=share, task=task, who=who)
        step = project.next_step(task, entry.policy)
        made_up = session.synthetic(project, task)
    session.out.document({"task": task, "canary": entry.policy, "share": share, "why": entry.why, "synthetic": made_up})
    if share > 0:
        session.out.line(f"{entry.policy} now decides on {share:.0%} of {task}.", style="bold")
        session.next(step.command)
        session.undo(f"headway promote {task} --policy {entry.policy} --canary 0")
    else:
        session.out.line(f"{entry.policy} no longer decides on a share of {task}.")
        session.next(step.command)


@verb("rollback", "headway rollback route", 'headway rollback route --to rules@0 --why "costs went up"')
@task_argument()
@click.option("--to", metavar="REF", help="Back to this policy; to the one before by default.")
@click.option("--why", default="", help="The reason, for the ledger.")
@click.option("--who", default="", help="Whose decision it is; your user name by default.")
def rollback(session: Session, task: str, to: str | None, why: str, who: str) -> None:
    """Make the previous policy decide again.

    Nothing is deleted: a rollback is one more row of the ledger. It needs no evidence.
    """
    with session.project() as project:
        before = project.current(task).ref
        entry = project.rollback(task, to=to, why=why, who=who)
        made_up = session.synthetic(project, task)
    session.out.document(
        {
            "task": task,
            "current": entry.policy,
            "current_hash": entry.policy_hash,
            "was": before,
            "why": entry.why,
            "synthetic": made_up,
        }
    )
    session.out.line(f"{task} now {entry.policy} (was {before}).", style="bold")
    session.undo(f"headway rollback {task} --to {before}")
