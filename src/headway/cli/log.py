"""`headway log`: the story of a task."""

from __future__ import annotations

from dataclasses import replace

import click

from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, renders
from headway.cli.verbs import Session, task_argument, verb
from headway.cli.written import minute
from headway.nouns import StoryEvent, TaskStory


@verb("log", "headway log route", "headway log route --last 10 --json")
@task_argument()
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the newest N events.")
def log(session: Session, task: str, last: int | None) -> None:
    """Tell what happened to a task: learned, proven, promoted, rolled back, changed.

    One line per event, oldest first, times in UTC. Proofs that came to the same verdict as before are told once.
    """
    from headway.project import task_story

    with session.project() as project:
        story = task_story(project, task)
        step = project.next_step(task)
        synthetic = session.synthetic(project, task)
        session.name_policies(project, task)
    if last is not None:
        story = replace(story, events=story.events[-last:])
    session.show(story, synthetic=synthetic)
    session.next(step.command)


_EVENTS = RecordTable[StoryEvent](
    Column.text("when", lambda event: minute(event.at)),
    Column.text("who", lambda event: event.who or None),
    Column.text("what happened", lambda event: event.text),
)


@renders(TaskStory)
def _story(out: Output, story: TaskStory) -> None:
    if not story.events:
        out.line(f"Nothing has happened to {story.task} yet.")
    _EVENTS.print(out, story.events)
