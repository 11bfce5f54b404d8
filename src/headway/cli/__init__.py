"""cli — the terminal door: one command per verb, for people and for scripts.

Takes: command lines.   Gives: tables and colour on a terminal, plain lines elsewhere, one JSON document with --json.
Never: decides, learns or judges by itself; prints anywhere but in output.py; loads numpy or rich to show a help page.
May import: serve, loop, project, settings, promote, prove, decide, reward, observe, encode, client, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.cli import written as written
    from headway.cli.decide import situation_options as situation_options
    from headway.cli.in_use import known as known
    from headway.cli.output import Output as Output
    from headway.cli.show import (
        Column as Column,
        RecordTable as RecordTable,
        document_of as document_of,
        render as render,
        renders as renders,
    )
    from headway.cli.verbs import (
        OptionHook as OptionHook,
        Session as Session,
        Verbs as Verbs,
        pairs as pairs,
        task_argument as task_argument,
        verb as verb,
    )
else:
    __all__, __getattr__ = door(__name__)
