"""`headway prove`: is the candidate better?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from headway.cli.verbs import Session, task_argument, verb

if TYPE_CHECKING:
    from headway.nouns import Crew

NOT_PASSED = 3


def _of_a_log(command: Callable[..., int]) -> Callable[..., int]:
    """The options of `prove --log FILE` in earlier versions, answered with the command that replaced it."""

    def moved(_context: click.Context, option: click.Parameter, value: object) -> None:
        if value:
            file = value if option.name == "log" else "FILE"
            raise click.UsageError(
                f"a log of another program is judged by `headway audit {file}`. --reward, --propensity, --range and "
                "--missing stay as they are; --target is --policy there, and --baseline is --against."
            )

    for name in ("--reward", "--propensity", "--target", "--baseline", "--map", "--range", "--missing"):
        count = 2 if name == "--range" else 1
        command = click.option(name, nargs=count, hidden=True, expose_value=False, callback=moved)(command)
    return click.option("--log", hidden=True, is_eager=True, expose_value=False, callback=moved)(command)


@verb("prove", "headway prove route", "headway prove --policy bandit@4f2a --against rules@0 --check", extended=True)
@task_argument(required=False)
@click.option("--policy", metavar="REF", help="The candidate; the newest one by default.")
@click.option("--against", metavar="REF", default="current", show_default=True, help="What it is compared with.")
@_of_a_log
@click.option(
    "--trust-key",
    "trust",
    multiple=True,
    metavar="NAME",
    help="Accept evidence that rests on this key's ratings alone; repeatable.",
)
@click.option("--check", is_flag=True, help="Exit status 3 unless the verdict is BETTER.")
def prove(
    session: Session, task: str | None, policy: str | None, against: str, trust: tuple[str, ...], check: bool,
    crew: Crew | None = None,
) -> int:  # fmt: skip
    """Is the candidate better than the current policy?

    Estimates use logged decisions that learning never read; proving often does not distort them. For a log of another
    program, use `headway audit`.
    """
    if task is None and policy is None:
        raise click.UsageError("Name the TASK or a --policy.")
    with session.project() as project:
        verdict = project.prove(
            policy, against=against, task=task, progress=session.out.progress, trust_keys=trust, crew=crew
        )
        assert verdict.evidence is not None
        name = verdict.evidence.task
        step = project.next_step(name, verdict.evidence.candidate)
        synthetic = session.synthetic(project, name)
    session.show(verdict, synthetic=synthetic)
    session.next(step.command)
    return NOT_PASSED if check and not verdict.passed else 0
