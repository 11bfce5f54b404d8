"""Read logs of other programs line by line into records for the store. One file per family of formats.

    format = detect(Path("training-buffer.jsonl"), formats)   # the format that most of its rows match
    for item in read(path, format, Options()):
        ...                                                   # Record, Skipped or Problem, in the order of the lines

A reader changes nothing and does not use the current configuration: candidates, models and rewards come from the row.
Missing values (above all the probability of the action) stay unknown. Not covered: files over a network, archives other
than gzip, spreadsheets.
"""

from headway.observe.ingest.formats import Format, by_line, detect, read
from headway.observe.ingest.records import Options, Problem, Record, Skipped

__all__ = ["Format", "Options", "Problem", "Record", "Skipped", "by_line", "detect", "read"]
