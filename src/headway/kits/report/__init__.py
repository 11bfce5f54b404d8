"""report — a verdict as one page: text for a terminal, Markdown, or an HTML file; `headway report`; plots.

Takes: a verdict, or a page.   Gives: text; and a page for each cycle of the loop, in .headway/reports.
Never: computes evidence.
May import: cli, loop, project, prove, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Command, Kit, door

if TYPE_CHECKING:
    from headway.kits.report.pages import html as html, markdown as markdown, text as text
    from headway.kits.report.picture import plot_figure as plot_figure
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="report",
    summary="Show a verdict on one page, as text, Markdown or HTML.",
    commands={
        "report": Command("headway.kits.report.commands:report", "Show the latest verdict on a task, on one page.")
    },
    cycles=("headway.kits.report.cycles:write",),
)
