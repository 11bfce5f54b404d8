"""`headway tally TASK`."""

from headway.cli import task_argument, verb
from headway_tally.means import means


@verb("tally", "headway tally route", "headway tally route --json")
@task_argument()
def tally(session, task):
    """The mean reward of each action so far."""
    with session.project() as project:
        rows = means(project, task)
    session.out.document({"means": rows})
    session.out.table(("action", "mean reward"), [(name, f"{mean:.3f}") for name, mean in rows.items()])
    session.next(f"headway learn {task} --family tally")
