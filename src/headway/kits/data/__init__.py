"""data — counts, lists and exports what was recorded, imports history from elsewhere, copies a store into another.

    from headway.kits.data import import_file

    import_file(project, "training-buffer.jsonl").stored    # also project.import_file("training-buffer.jsonl")

files.py, text_files.py, parquet.py   the rows of a file: JSON lines, CSV, Parquet, also gzipped
fields.py, records.py, formats.py     what a format reads of a row; kits add formats
importer.py, intake.py                a file into the store, in columns
record_keys.py, store_records.py      each record once
exporter.py, export_files.py          decisions with their outcomes into a file, and a manifest
training_rows.py                      the input of `learn` as a file
copy_store.py                         a whole store into another, row for row

A reader changes nothing and does not use the current configuration: candidates, models and rewards come from the row.
Missing values (above all the probability of the action) stay unknown. Not covered: files over a network, archives other
than gzip, spreadsheets.

Takes: files, or a store.   Gives: records in the store, files, a copy.
Never: guesses a propensity; stores a part of a file that has a bad line, unless it is told to skip.
May import: cli, project, settings, prove, reward, observe, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Command, Kit, door

if TYPE_CHECKING:
    from headway.kits.data.cell import guarded as guarded
    from headway.kits.data.contract import format_contract as format_contract
    from headway.kits.data.exporter import ExportFilter as ExportFilter, export as export
    from headway.kits.data.fields import (
        MOST_NAME as MOST_NAME,
        MOST_TEXT as MOST_TEXT,
        Wrong as Wrong,
        checked_text as checked_text,
        fields_left as fields_left,
        finite as finite,
        flag as flag,
        flat as flat,
        integer as integer,
        moment as moment,
        name_of as name_of,
        number as number,
        object_of as object_of,
        parsed_time as parsed_time,
        shown as shown,
        text_of as text_of,
    )
    from headway.kits.data.files import digest_of as digest_of, kind_of as kind_of, rows_of as rows_of
    from headway.kits.data.formats import (
        Format as Format,
        Item as Item,
        by_line as by_line,
        detect as detect,
        read as read,
    )
    from headway.kits.data.importer import ImportReport as ImportReport, import_file as import_file
    from headway.kits.data.intake import RecordIntake as RecordIntake
    from headway.kits.data.records import (
        ImportedSignal as ImportedSignal,
        Options as Options,
        Problem as Problem,
        Record as Record,
        Records as Records,
        Row as Row,
        Skipped as Skipped,
    )
    from headway.kits.data.store_records import Origin as Origin, RecordWriter as RecordWriter
    from headway.kits.data.training_rows import TransformReport as TransformReport, transform as transform
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="data",
    summary="Count, list, import, export and copy what was recorded.",
    formats={"headway": "headway.kits.data.headway_format:HEADWAY_FORMAT"},
    verbs={
        "import_file": "headway.kits.data.importer:import_file",
        "transform": "headway.kits.data.training_rows:transform",
    },
    contracts={"format_contract": "headway.kits.data.contract:format_contract"},
    commands={
        "data": Command(
            "headway.kits.data.commands.delete:data", "Count, list, export, import and delete what was recorded."
        ),
        "data stats": Command(
            "headway.kits.data.commands.recorded:stats", "Count decisions, signals and outcomes, by source and action."
        ),
        "data log": Command("headway.kits.data.commands.recorded:log", "List the latest decisions, newest first."),
        "data leaks": Command(
            "headway.kits.data.commands.recorded:leaks",
            "Find fields that give the outcome away, and other flaws that flatter a policy.",
        ),
        "data import": Command(
            "headway.kits.data.commands.imports:import_",
            "Import history from elsewhere: logs, training buffers, journals, tables.",
        ),
        "data mine": Command(
            "headway.kits.data.commands.imports:mine",
            "Mine weak labels from jfl journals and events; a folder is searched for them.",
        ),
        "data export": Command(
            "headway.kits.data.commands.exports:export",
            "Write decisions with their signals and outcomes to a file, and a manifest next to it.",
        ),
        "data transform": Command(
            "headway.kits.data.commands.exports:transform",
            "Write the input of `learn`: one JSON object per row with its part of the split, without leaky fields.",
        ),
        "data copy": Command(
            "headway.kits.data.commands.copy:copy",
            "Copy a whole store into another, SQLite or PostgreSQL, row for row.",
        ),
    },
)
