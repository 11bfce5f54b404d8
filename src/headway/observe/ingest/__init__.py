"""Other people's history, read line by line into records that the store can keep. One file per family of formats.

    found = detect(Path("training-buffer.jsonl"), formats)   # the format that most of its rows look like
    for each in read(path, found, Options()):
        ...                                                  # Record, Skipped or Problem, in the order of the lines

A reader changes nothing and knows nothing of today's configuration: candidates, models and rewards are what the row
says. What a row does not say (above all the probability of its action) stays unknown. Not covered: files over a
network, archives other than gzip, spreadsheets.
"""

from headway.observe.ingest.formats import Format, by_line, detect, read
from headway.observe.ingest.records import Options, Problem, Record, Skipped

__all__ = ["Format", "Options", "Problem", "Record", "Skipped", "by_line", "detect", "read"]
