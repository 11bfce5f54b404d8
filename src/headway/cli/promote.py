"""`headway promote` and `headway rollback`: change which policy decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from headway.cli.output import Output
from headway.cli.show import renders
from headway.cli.verbs import Session, task_argument, verb

if TYPE_CHECKING:
    from headway.nouns import RampState
    from headway.promote import CurrentPolicy, Entry


@verb("promote", "headway promote route", "headway promote route --policy bandit@4f2a --canary 0.2")
@task_argument()
@click.option("--policy", metavar="REF", help="The candidate; the newest one by default.")
@click.option("--canary", "share", type=float, metavar="SHARE", help="Only this share of decisions; needs no proof.")
@click.option(
    "--trust-key", "trust", multiple=True, metavar="NAME", help="Let this key's ratings alone decide it; repeatable."
)
@click.option("--trust-claims", is_flag=True, help="Believe the probabilities that your client sent.")
@click.option("--predicts-only", is_flag=True, help="Accept better predictions of held-out rows as the proof.")
@click.option("--at-once", is_flag=True, help="All of the traffic now, without steps.")
@click.option("--who", default="", help="Who made this choice, for the ledger; your user name by default.")
def promote(
    session: Session,
    task: str,
    policy: str | None,
    share: float | None,
    trust: tuple[str, ...],
    trust_claims: bool,
    predicts_only: bool,
    at_once: bool,
    who: str,
) -> None:
    """Make a proven candidate the current policy.

    Refused, with reasons, unless stored evidence shows that the candidate beats the current policy. Evidence that
    depends on the ratings of a single key, on probabilities that a client sent or on predictions alone is not enough,
    unless you accept that. The candidate takes over 10, 25, 50 and 100% of the traffic, beginning above the share that
    it had when it was proven; a step that turns out worse ends the promotion. With --canary 0.2 the candidate makes a
    fifth of the decisions, so that a proof takes less time; --canary 0 ends it.
    """
    if share is not None:
        if trust or trust_claims or predicts_only or at_once:
            raise click.UsageError(
                "--canary needs no proof: omit --trust-key, --trust-claims, --predicts-only and --at-once."
            )
        _canary(session, task, policy, share, who)
        return
    with session.project() as project:
        before = project.current(task)
        entry = project.promote(
            policy,
            task=task,
            who=who,
            trust_keys=trust,
            trust_claims=trust_claims,
            predicts_only=predicts_only,
            at_once=at_once,
        )
        ramp = project.standing(task).ramp
        synthetic = session.synthetic(project, task)
        session.name_policies(project, task)
    if entry.kind == "retire":  # the look at its running step ended it
        session.show(_back(before, entry, synthetic))
        return
    session.show(
        Promotion(
            task=task,
            current=entry.policy if ramp is None else before.ref,
            current_hash=entry.policy_hash if ramp is None else before.digest,
            was=before.ref,
            why=entry.why,
            evidence=entry.evidence_id,
            trusted_keys=entry.detail.get("trusted_keys", []),
            accepted=entry.detail.get("accepted"),
            synthetic=synthetic,
            ramp=ramp,
        )
    )
    session.undo(f"headway rollback {task}")


def _canary(session: Session, task: str, policy: str | None, share: float, who: str) -> None:
    with session.project() as project:
        entry = project.canary(policy, share=share, task=task, who=who)
        step = project.next_step(task, entry.policy)
        synthetic = session.synthetic(project, task)
    session.show(Canary(task=task, canary=entry.policy, share=share, why=entry.why, synthetic=synthetic))
    session.next(step.command)
    if share > 0:
        session.undo(f"headway promote {task} --policy {entry.policy} --canary 0")


@verb("rollback", "headway rollback route", 'headway rollback route --to rules@0 --why "costs went up"')
@task_argument()
@click.option("--to", metavar="REF", help="Return to this policy; the previous one by default.")
@click.option("--why", default="", help="The reason, for the ledger.")
@click.option("--who", default="", help="Who made this choice, for the ledger; your user name by default.")
def rollback(session: Session, task: str, to: str | None, why: str, who: str) -> None:
    """Make the previous policy current again.

    A promotion on its way ends. Nothing is deleted: a rollback adds a row to the ledger. It needs no evidence.
    """
    with session.project() as project:
        before = project.current(task)
        entry = project.rollback(task, to=to, why=why, who=who)
        synthetic = session.synthetic(project, task)
        session.name_policies(project, task)
    session.show(_back(before, entry, synthetic))
    ended = entry.kind == "retire"
    session.undo(
        f"headway promote {task} --policy {entry.policy}" if ended else f"headway rollback {task} --to {before.ref}"
    )


def _back(before: CurrentPolicy, entry: Entry, synthetic: int) -> Rollback:
    """After a rollback. Where that ended a promotion on its way (`retire`), the current policy stays."""
    ref, digest = (before.ref, before.digest) if entry.kind == "retire" else (entry.policy, entry.policy_hash)
    was = entry.policy if entry.kind == "retire" else before.ref
    return Rollback(task=entry.task, current=ref, current_hash=digest, was=was, why=entry.why, synthetic=synthetic)


@verb("name", 'headway name bandit@4f2a "cheap first"', 'headway name bandit@4f2a "cheap first" --who ada')
@click.argument("policy")
@click.argument("name")
@click.option("--who", default="", help="Who made this choice, for the ledger; your user name by default.")
def name_(session: Session, policy: str, name: str, who: str) -> None:
    """Give a learned policy a name for people.

    Without one it is shown by the day on which it was learned and by what it does. `status`, `log`, `report` and the
    page show the name first and the hash second. The name is a row of the ledger, so backups keep it.
    """
    from headway.project import name_policy

    with session.project() as project:
        entry = name_policy(project, policy, name, who=who)
    session.show(NamedPolicy(task=entry.task, policy=entry.policy, policy_hash=entry.policy_hash, name=entry.why))
    session.next(f"headway log {entry.task}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPolicy:
    """A policy and the name that it was given."""

    task: str
    policy: str
    policy_hash: str
    name: str


@renders(NamedPolicy)
def _named(out: Output, named: NamedPolicy) -> None:
    out.line(f"{named.policy} of {named.task} is called {named.name} now.", style="bold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """A policy that became current again."""

    task: str
    current: str
    current_hash: str
    was: str
    why: str
    synthetic: int


@renders(Rollback)
def _rollback(out: Output, rollback: Rollback) -> None:
    out.line(f"{rollback.task} now {rollback.current} (was {rollback.was}).", style="bold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion(Rollback):
    """A policy that became current on its evidence."""

    evidence: str | None
    trusted_keys: Sequence[Any]
    accepted: str | None  # "claims" or "predictions": what the evidence rests on
    ramp: RampState | None = None  # where the promotion is; None: complete


@renders(Promotion)
def _promotion(out: Output, promotion: Promotion) -> None:
    if promotion.ramp is not None:
        out.line(promotion.ramp.text, style="bold green")
    else:
        out.line(f"{promotion.task} now {promotion.current} (was {promotion.was}).", style="bold green")
    out.line(f"Because: {promotion.why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A candidate that decides for a share of the traffic; 0: no longer."""

    task: str
    canary: str
    share: float
    why: str
    synthetic: int


@renders(Canary)
def _canary_text(out: Output, canary: Canary) -> None:
    if canary.share > 0:
        out.line(f"{canary.canary} now decides on {canary.share:.0%} of {canary.task}.", style="bold")
    else:
        out.line(f"{canary.canary} no longer decides on a share of {canary.task}.")
