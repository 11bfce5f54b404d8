"""Outcomes joined with their decisions, and with the signals and raters behind them where a reader wants those."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from headway.nouns import Settled, ids
from headway.observe.database import Database, Row, chunks, placeholders
from headway.observe.rater_signals import RaterSignals, SignalsByRater
from headway.observe.rows import OUTCOME_WIDTH, STATUSES, decision_from_row, settled_of
from headway.observe.units import unit_signals

SignalValues = Mapping[bytes, Mapping[str, float]]  # subject → name → value

_NOBODY: SignalsByRater = {}


def with_decisions(
    database: Database,
    pages: Iterable[Sequence[Row]],
    *,
    values_of: Callable[[Sequence[bytes]], SignalValues] | None = None,
    raters: Collection[str] | bool = False,
) -> Iterator[Settled]:
    """Settled rows from pages of SETTLED_COLUMNS.

    `values_of` gives the live signal values of subjects; `raters` adds who gave them: the names of the signals that
    count, or True for all.
    """
    reader: RaterSignals | None = None
    for page in pages:
        rows = [(row, decision_from_row(row[OUTCOME_WIDTH:])) for row in page]
        values = {} if values_of is None else values_of([ids.raw(decision.id) for _, decision in rows])
        by_rater: Sequence[SignalsByRater] = ()
        if raters is not False:
            reader = RaterSignals(database, None if raters is True else raters) if reader is None else reader
            by_rater = reader.of(
                [
                    (ids.raw(decision.id), decision.situation.task, decision.situation.episode, STATUSES[row[2]])
                    for row, decision in rows
                ]
            )
        for place, (row, decision) in enumerate(rows):
            given = values.get(ids.raw(decision.id), {})
            yield settled_of(row, decision, given, by_rater[place] if by_rater else _NOBODY)


def signal_values(
    database: Database, subjects: Sequence[bytes], names: dict[int, str]
) -> dict[bytes, dict[str, float]]:
    """Live signal values per subject, averaged over raters; `names` remembers those of signals."""
    values: dict[bytes, dict[str, list[float]]] = {}
    for chunk in chunks(subjects, 1000):
        rows = database.query(
            "SELECT g.subject, n.name, g.value FROM signals g JOIN names n ON n.id = g.name_id "
            f"WHERE g.subject IN ({placeholders(chunk)}) AND g.withdrawn_by IS NULL AND g.value IS NOT NULL",
            chunk,
        )
        for subject, name, value in rows:
            values.setdefault(subject, {}).setdefault(name, []).append(value)
    for subject, folded in unit_signals(database, subjects).items():
        values[subject] = {}
        for _, number, value in folded:
            if number not in names:
                names[number] = database.query("SELECT name FROM names WHERE id = ?", (number,))[0][0]
            values[subject].setdefault(names[number], []).append(value)
    return {
        subject: {name: sum(sorted(ratings)) / len(ratings) for name, ratings in sorted(by_name.items())}
        for subject, by_name in values.items()
    }
