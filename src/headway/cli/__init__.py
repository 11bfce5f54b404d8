"""cli — the terminal door: one command per verb, for people and for scripts.

Takes: command lines.   Gives: tables and colour on a terminal, plain lines elsewhere, one JSON document with --json.
Never: decides, learns or judges by itself; prints anywhere but in output.py; loads numpy or rich to show a help page.
May import: serve, loop, project, settings, promote, prove, decide, reward, observe, encode, client, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.cli.decide import (
        offered as offered,
        read_text as read_text,
        situation_options as situation_options,
        typed_state as typed_state,
    )
    from headway.cli.demo import empty_folder as empty_folder
    from headway.cli.executable import program as program, program_file as program_file
    from headway.cli.format import (
        clean as clean,
        counts as counts,
        day as day,
        interval as interval,
        megabytes as megabytes,
        minute as minute,
        number as number,
        percent as percent,
        short as short,
        signed as signed,
    )
    from headway.cli.in_use import known as known
    from headway.cli.init import keep_out_of_git as keep_out_of_git
    from headway.cli.output import Output as Output
    from headway.cli.picture import (
        BLUE as BLUE,
        GREEN as GREEN,
        GREY as GREY,
        INK as INK,
        ORANGE as ORANGE,
        figure_class as figure_class,
    )
    from headway.cli.report import write_text as write_text
    from headway.cli.show import (
        Column as Column,
        RecordTable as RecordTable,
        document_of as document_of,
        render as render,
        renders as renders,
        text as text,
        value as value,
    )
    from headway.cli.times import parse_time as parse_time
    from headway.cli.up import start as start
    from headway.cli.verbs import (
        WORKERS as WORKERS,
        OptionHook as OptionHook,
        Session as Session,
        Verbs as Verbs,
        again as again,
        pairs as pairs,
        quoted as quoted,
        task_argument as task_argument,
        typed as typed,
        verb as verb,
    )
    from headway.cli.verdict import verdict_document as verdict_document
else:
    __all__, __getattr__ = door(__name__)
