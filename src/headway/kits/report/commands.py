"""`headway report`: the verdict on one page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import click

from headway.cli import Output, Session, document_of, renders, task_argument, verb
from headway.files import write_whole
from headway.nouns import TaskWorth, Verdict, errors


@verb("report", "headway report route", "headway report route --html verdict.html")
@task_argument()
@click.option(
    "--policy", metavar="REF", help="The candidate that was proven; the one that status speaks of by default."
)
@click.option(
    "--html", "html_file", type=click.Path(path_type=Path), metavar="FILE", help="Write a page with its plot."
)
@click.option("--markdown", "markdown_file", type=click.Path(path_type=Path), metavar="FILE", help="Write Markdown.")
def report(session: Session, task: str, policy: str | None, html_file: Path | None, markdown_file: Path | None) -> None:
    """Show the latest verdict on a task, on one page.

    It is about the candidate, or else about what made the current policy current. The page shows stored evidence;
    `headway prove` computes new evidence.
    """
    from headway.kits.report import pages
    from headway.project import learned_text, task_evidence, task_worth

    with session.project() as project:
        settings = project.settings.task(task)
        if policy is None:
            identifier = task_evidence(project, settings.name)
        else:
            identifier = project.ledger.latest_evidence(task, project.servings.resolve(settings, policy)[1])
        if identifier is None:
            raise errors.UnknownName(
                f"Nothing was proven for {task!r} yet.", code="no_evidence", hint=f"Run: headway prove {task}"
            )
        verdict = project.verdict(identifier)
        step = project.report(identifier).next
        worth = task_worth(project, task)
        synthetic = session.synthetic(project, task)
        candidate = verdict.evidence.candidate if verdict.evidence else ""
        learned = learned_text(project, task, candidate) if candidate else ""
        session.name_policies(project, task)
    written = {}
    for kind, path, page in (("html", html_file, pages.html), ("markdown", markdown_file, pages.markdown)):
        if path is not None:
            write_whole(path, page(verdict).encode())
            written[kind] = str(path)
    session.show(VerdictPage(worth=worth, verdict=verdict, learned=learned, written=written, synthetic=synthetic))
    if step.verb != "report":
        session.next(step.command)
    elif not written:
        session.next(f"headway report {task} --html {quote(f'{task}.html')}")
    else:
        session.next("headway status")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictPage:
    """A stored verdict, and the files it was written to; without files the page is printed."""

    worth: TaskWorth
    verdict: Verdict
    learned: str  # what moves its candidate, in a sentence
    written: Mapping[str, str]
    synthetic: int

    def document(self) -> dict[str, Any]:
        return {
            "worth": asdict(self.worth),
            **document_of(self.verdict),
            "learned": self.learned,
            "written": dict(self.written),
            "synthetic": self.synthetic,
        }


@renders(VerdictPage)
def _page(out: Output, page: VerdictPage) -> None:
    from headway.kits.report import pages

    out.line(page.worth.text, style="bold")
    if not page.written:
        out.line(pages.text(page.verdict).rstrip())
        if page.learned:
            out.line(f"\nWhat it learned: {page.learned}")
    for name in page.written.values():
        out.line(f"{name} written.")
