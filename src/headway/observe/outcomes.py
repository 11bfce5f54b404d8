"""Outcomes joined with their decisions, and with the signals and raters behind them where a reader wants those."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from headway.nouns import Settled, id_bytes
from headway.observe.database import Database, Row, chunks, placeholders
from headway.observe.rater_signals import RaterSignals, SignalsByRater
from headway.observe.rows import OUTCOME_WIDTH, STATUSES, decision_from_row, decode_candidates, settled_of
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
        values = {} if values_of is None else values_of([id_bytes(decision.id) for _, decision in rows])
        by_rater: Sequence[SignalsByRater] = ()
        if raters is not False:
            reader = RaterSignals(database, None if raters is True else raters) if reader is None else reader
            by_rater = reader.of(
                [
                    (id_bytes(decision.id), decision.situation.task, decision.situation.episode, STATUSES[row[2]])
                    for row, decision in rows
                ]
            )
        for place, (row, decision) in enumerate(rows):
            given = values.get(id_bytes(decision.id), {})
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


def cut_rewards(database: Database, task_id: int, middle: float) -> dict[str, tuple[int, int]]:
    """How many rewards of each action lay below and above the range, and were cut to it."""
    cuts: dict[str, tuple[int, int]] = {}
    for body, action, above, count in database.query(
        "SELECT c.body, d.action, CASE WHEN s.reward > ? THEN 1 ELSE 0 END AS above, COUNT(*) FROM settled s "
        "JOIN decisions d ON d.seq = s.decision JOIN candidate_sets c ON c.id = d.candidate_set_id "
        "WHERE s.task_id = ? AND s.clipped = 1 AND NOT EXISTS (SELECT 1 FROM settled n WHERE n.replaces = s.seq) "
        "GROUP BY c.id, d.action, above",
        (middle, task_id),
    ):
        name = decode_candidates(body)[action].name
        below, higher = cuts.get(name, (0, 0))
        cuts[name] = (below, higher + count) if above else (below + count, higher)
    return cuts
