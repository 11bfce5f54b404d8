"""`headway report`: the verdict on one page."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from headway.cli import verdict as verdicts
from headway.cli.verb import Session, quoted, task_argument, verb
from headway.nouns.errors import UnknownName

__all__ = ["report", "write_text"]


@verb("report", "headway report route", "headway report route --html verdict.html")
@task_argument()
@click.option("--policy", metavar="REF", help="The candidate that was proven; the latest proof by default.")
@click.option(
    "--html", "html_file", type=click.Path(path_type=Path), metavar="FILE", help="Write a page with its plot."
)
@click.option("--markdown", "markdown_file", type=click.Path(path_type=Path), metavar="FILE", help="Write Markdown.")
def report(session: Session, task: str, policy: str | None, html_file: Path | None, markdown_file: Path | None) -> None:
    """The latest verdict on a task, on one page.

    It shows stored evidence and estimates nothing again: `headway prove` does.
    """
    from headway.prove import report as pages

    with session.project() as project:
        settings = project.settings.task(task)
        digest = None if policy is None else project.servings.resolve(settings, policy)[1]
        identifier = project.ledger.latest_evidence(task, digest)
        if identifier is None:
            raise UnknownName(
                f"Nothing was proven for {task!r} yet.", code="no_evidence", hint=f"Run: headway prove {task}"
            )
        found = project.verdict(identifier)
        step = project.report(identifier).next
        made_up = session.synthetic(project, task)
    written = {}
    for kind, path, render in (("html", html_file, pages.html), ("markdown", markdown_file, pages.markdown)):
        if path is not None:
            write_text(path, render(found))
            written[kind] = str(path)
    session.out.document({**verdicts.as_document(found), "written": written, "synthetic": made_up})
    if not written:
        session.out.line(pages.text(found).rstrip())
    for name in written.values():
        session.out.line(f"{name} written.")
    if step.verb != "report":
        session.next(step.command)
    elif not written:
        session.next(f"headway report {task} --html {quoted(f'{task}.html')}")
    else:
        session.next("headway status")


def write_text(path: Path, text: str) -> None:
    """The whole file or none of it."""
    handle, scratch = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(scratch).chmod(0o644)
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
