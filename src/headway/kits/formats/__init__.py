"""formats — reads and writes other programs' logs.

Takes: rows of a file.   Gives: records for `headway data import`; exports in the other program's form.
Never: guesses a propensity, mixes mined labels with measured ones.
May import: observe, nouns.
"""

from headway.nouns import Kit

KIT = Kit(
    name="formats",
    summary="Import jfl, SAGE and chat logs and any table; export SAGE rows.",
    needs=("data",),
    formats={
        "jfl-buffer": "headway.kits.formats.jfl_events:BUFFER",
        "jfl-journal": "headway.kits.formats.jfl_events:JOURNAL",
        "jfl-events": "headway.kits.formats.jfl_events:EVENTS",
        "sage-routing": "headway.kits.formats.sage:ROUTING",
        "sage-journal": "headway.kits.formats.sage:JOURNAL",
        "interactions": "headway.kits.formats.chat:INTERACTIONS",
        "openai-chat": "headway.kits.formats.chat:CHAT",
        "wide": "headway.kits.formats.wide:WIDE",
        "columns": "headway.kits.formats.columns:COLUMNS",
    },
    exports={"sage-routing": "headway.kits.formats.export_sage:writer"},
)
