"""Read the store: single records, pages of decisions, counts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headway.nouns import SOURCES, Decision, Detail, Ending, Outcome, Settled, Signal, Source, State, errors, ids
from headway.observe.database import Database
from headway.observe.details import read as read_details, read_many
from headway.observe.keys import secret_of
from headway.observe.outcomes import signal_values, with_decisions
from headway.observe.rows import (
    DECISION_COLUMNS,
    DECISION_TABLES,
    LEADS,
    SETTLED_COLUMNS,
    SETTLED_TABLES,
    STATUSES,
    decision_from_row,
    decode_candidates,
    settled_from_row,
    situation_of,
)
from headway.observe.totals import Counts, action_totals, daily_totals, row_counts
from headway.observe.units import has_units

if TYPE_CHECKING:
    from headway.observe.frame import TaskFrame


class Query:
    """The reading half of the store; every method is a separate short read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids: dict[tuple[str, str], int] = {}
        self._signals: dict[int, str] = {}
        self._secret = b""

    def keyed_id(self, task: str, key: str, name: str) -> str:
        """The id of a decision that this key names by a word of its own."""
        self._secret = self._secret or secret_of(self._database)
        return ids.keyed(task, key, name, secret=self._secret)

    def name_id(self, kind: str, name: str) -> int:
        """The interned id, or 0 (which no row has) if the store does not know the name."""
        known = self._ids.get((kind, name))
        if known is None:
            rows = self._database.query("SELECT id FROM names WHERE kind = ? AND name = ?", (kind, name))
            if not rows:
                return 0
            known = rows[0][0]
            if kind == "task":  # other names go with their last row
                self._ids[kind, name] = known
        return known

    def names(self, kind: str) -> list[str]:
        return [row[0] for row in self._database.query("SELECT name FROM names WHERE kind = ? ORDER BY name", (kind,))]

    def endings(self, task: str) -> dict[str, Ending]:
        """How a task's episodes ended, by name; open episodes are not included."""
        rows = self._database.query(
            "SELECT name, ending FROM episodes WHERE task_id = ? AND ending IS NOT NULL", (self.name_id("task", task),)
        )
        return {row[0]: row[1] for row in rows}

    # -- decisions

    def _where(self, condition: str, *values: Any) -> list[Decision]:
        rows = self._database.query(f"SELECT {DECISION_COLUMNS} FROM {DECISION_TABLES} WHERE {condition}", values)
        return [decision_from_row(row) for row in rows]

    def find(self, decision: str) -> Decision | None:
        return next(iter(self._where("d.id = ?", ids.raw(decision))), None)

    def decision(self, decision: str) -> Decision:
        stored = self.find(decision)
        if stored is None:
            raise errors.UnknownName(
                f"There is no decision {decision!r}.",
                code="unknown_decision",
                hint="`headway data log` lists the latest ones.",
            )
        return stored

    def request(self, decision: str) -> list[Decision]:
        """The decisions of a request, first the one of this id, then its later attempts; none if there is none."""
        raw = ids.raw(decision)
        of = "d.id IN (SELECT id FROM decisions WHERE id = ? UNION ALL SELECT id FROM decisions WHERE unit = ?)"
        return self._where(f"{of} ORDER BY COALESCE(d.position, 0), d.seq", raw, raw)

    def by_seq(self, seq: int) -> Decision:
        return self._where("d.seq = ?", seq)[0]

    def task_of(self, subject: str) -> str | None:
        """The task that a decision or an episode belongs to."""
        table = "episodes" if ids.is_episode(subject) else "decisions"
        rows = self._database.query(
            f"SELECT t.name FROM {table} s JOIN names t ON t.id = s.task_id WHERE s.id = ?", (ids.raw(subject),)
        )
        return rows[0][0] if rows else None

    def config(self, digest: str) -> str:
        """The configuration body that a decision's config hash stands for."""
        rows = self._database.query("SELECT body FROM configs WHERE hash = ?", (digest,))
        return str(rows[0][0])

    def arms(self, task: str) -> list[str]:
        """Every name that was ever a candidate of the task, sorted."""
        rows = self._database.query(
            "SELECT c.body FROM candidate_sets c WHERE c.id IN "
            "(SELECT DISTINCT candidate_set_id FROM decisions WHERE task_id = ?)",
            (self.name_id("task", task),),
        )
        return sorted({decode_candidate.name for (body,) in rows for decode_candidate in decode_candidates(body)})

    def opening(self, task: str, episode: str) -> Decision | None:
        """The latest draw of a sticky episode, or attempt after it: the decision whose action later ones repeat."""
        return self._step(task, episode, "AND (d.draw IS NULL OR d.position IS NOT NULL) ORDER BY d.step DESC")

    def decisions(self, task: str, *, after: int = 0) -> Iterator[Decision]:
        """Every decision of a task in the store's order, in bounded memory."""
        of = f"FROM {DECISION_TABLES} WHERE d.task_id = ? AND d.seq > ? ORDER BY d.seq LIMIT ?"
        task_id = self.name_id("task", task)
        for page in self._database.pages(f"SELECT {DECISION_COLUMNS} {of}", (task_id,), after=after):
            yield from map(decision_from_row, page)

    def _step(self, task: str, episode: str, which: str) -> Decision | None:
        return next(iter(self._where(f"d.episode = ? {which} LIMIT 1", ids.raw(ids.episode(task, episode)))), None)

    def first_step(self, task: str, episode: str) -> Decision | None:
        """The first decision of an episode; None if it has none."""
        return self._step(task, episode, "ORDER BY d.position IS NOT NULL, d.step")

    def last_step(self, task: str, episode: str) -> Decision | None:
        """The latest decision of an episode; None if it has none."""
        return self._step(task, episode, "ORDER BY d.step DESC")

    def steps(self, task: str, episode: str, *, first: int = 0, before: int | None = None) -> list[Decision]:
        """The decisions of an episode from step `first`, up to (without) step `before`, in their order."""
        of, until = ids.raw(ids.episode(task, episode)), () if before is None else (before,)
        some = "d.episode = ? AND d.step >= ?" + " AND d.step < ?" * len(until)
        return self._where(f"{some} ORDER BY d.step", of, first, *until)

    def count_groups(self, task: str, *, most: int) -> int:
        """Different texts (or states, without a text) of decisions outside of episodes; stops counting at `most`."""
        rows = self._database.query(
            "SELECT COUNT(*) FROM (SELECT DISTINCT CASE WHEN d.text <> '' THEN d.text ELSE d.state END AS name "
            "FROM decisions d WHERE d.task_id = ? AND d.episode IS NULL LIMIT ?) AS groups",
            (self.name_id("task", task), most),
        )
        return int(rows[0][0])

    def latest(self, task: str | None, limit: int) -> list[Decision]:
        some, values = ("d.task_id = ?", (self.name_id("task", task),)) if task else ("1 = 1", ())
        return self._where(f"{some} ORDER BY d.seq DESC LIMIT ?", *values, limit)

    def latest_states(self, task: str, limit: int) -> list[State]:
        rows = self._database.query(
            "SELECT seq, state FROM decisions WHERE task_id = ? ORDER BY seq DESC LIMIT ?",
            (self.name_id("task", task), limit),
        )
        return [situation_of(seq, task, None, None, "", state, "").state for seq, state in rows]

    def details(self, decision: str, kit: str) -> dict[str, bytes]:
        """The details that a kit stored with a decision, by name; see `Store.keep_details`."""
        return {detail.name: detail.data for detail in read_details(self._database, decision, kit)}

    def all_details(self, decision: str) -> list[Detail]:
        """Everything that kits stored with a decision, sorted by kit and name."""
        return read_details(self._database, decision)

    def details_of(self, decisions: Sequence[str], kit: str) -> dict[str, dict[str, bytes]]:
        """The same for many decisions, by id."""
        return read_many(self._database, decisions, kit)

    # -- signals

    def signals(self, subject: str, *, live: bool = False) -> list[Signal]:
        """The signals of a decision or an episode, withdrawn and replaced ones too unless `live`."""
        only = " AND g.withdrawn_by IS NULL AND g.value IS NOT NULL" if live else ""
        rows = self._database.query(
            "SELECT g.seq, n.name, g.value, g.label, r.name, g.key, g.at, g.subject FROM signals g "
            "JOIN names n ON n.id = g.name_id JOIN names r ON r.id = g.rater_id "
            f"WHERE g.subject = ?{only} ORDER BY g.seq",
            (ids.raw(subject),),
        )
        return [
            Signal(
                seq=seq,
                subject=ids.text(raw),
                name=name,
                value=value,
                label=label or "",
                rater=rater,
                key=key,
                at=at / 1e6,
            )
            for seq, name, value, label, rater, key, at, raw in rows
        ]

    # -- outcomes

    def frame(self, task: str) -> TaskFrame:
        """The columns of a task's decisions and outcomes."""
        from headway.observe.frame import TaskFrame  # numpy, which a reader of single records does not load

        return TaskFrame(self._database, self.name_id("task", task), task)

    def settled(self, task: str, *, signals: bool = False, raters: Collection[str] | bool = False) -> Iterator[Settled]:
        """Every decision with an outcome, in the order in which these became known. See `outcomes`."""
        from headway.observe.draws import known  # numpy

        return self.outcomes(known(self.frame(task)), signals=signals, raters=raters)

    def log(self, task: str, *, after: int = 0) -> Iterator[Settled]:
        """The log of outcomes after one of its rows, with rows that were replaced and their replacements."""
        sql = f"SELECT {SETTLED_COLUMNS} FROM {SETTLED_TABLES} WHERE s.task_id = ? AND s.seq > ? ORDER BY s.seq LIMIT ?"
        pages = self._database.pages(sql, (self.name_id("task", task),), after=after)
        return with_decisions(self._database, pages)

    def outcomes(
        self, seqs: Sequence[int], *, signals: bool = False, raters: Collection[str] | bool = False
    ) -> Iterator[Settled]:
        """These decisions in this order, each with its present outcome: pending if it is open. See `draws_of`.

        `signals` adds the live signal values of each row; `raters` who gave them: the names of the signals that count,
        or True for all.
        """
        from headway.observe.draws import outcome_pages

        pages = outcome_pages(self._database, seqs)
        return with_decisions(self._database, pages, values_of=self.values if signals else None, raters=raters)

    def settled_row(self, seq: int) -> Settled:
        """One row of the log, replaced or not."""
        rows = self._database.query(f"SELECT {SETTLED_COLUMNS} FROM {SETTLED_TABLES} WHERE s.seq = ?", (seq,))
        return settled_from_row(rows[0])

    def values(self, subjects: Sequence[bytes]) -> dict[bytes, dict[str, float]]:
        """Live signal values per subject, averaged over raters; of its whole request or episode if it has one."""
        return signal_values(self._database, subjects, self._signals)

    def signal_names(self, task: str, *, most: int = 1000) -> list[str]:
        """The signals that the latest decisions of a task have got, by name."""
        rows = self._database.query(
            "SELECT DISTINCT n.name FROM (SELECT id FROM decisions WHERE task_id = ? ORDER BY seq DESC LIMIT ?) d "
            "JOIN signals g ON g.subject = d.id JOIN names n ON n.id = g.name_id ORDER BY n.name",
            (self.name_id("task", task), most),
        )
        return [str(name) for (name,) in rows]

    def count_signals(self, task: str, name: str) -> int:
        """How often a signal was given to decisions of a task, with values that were replaced or withdrawn since."""
        rows = self._database.query(
            "SELECT COUNT(*) FROM decisions d JOIN signals g ON g.subject = d.id WHERE d.task_id = ? AND g.name_id = ?",
            (self.name_id("task", task), self.name_id("signal", name)),
        )
        return int(rows[0][0])

    def withdrawn_raters(self, task: str) -> dict[str, frozenset[str]]:
        """By decision: who has withdrawn or replaced a rating of it."""
        raters: dict[str, frozenset[str]] = {}
        for subject, rater in self._database.query(
            "SELECT DISTINCT g.subject, r.name FROM signals g JOIN decisions d ON d.id = g.subject "
            "JOIN names r ON r.id = g.rater_id WHERE d.task_id = ? AND g.withdrawn_by IS NOT NULL",
            (self.name_id("task", task),),
        ):
            raters[ids.text(subject)] = raters.get(ids.text(subject), frozenset()) | {rater}
        return raters

    def outcome(self, decision: Decision) -> Outcome:
        """The current outcome of a decision: the last row that settled it, or pending."""
        rows = self._database.query(
            "SELECT reward, status, clipped, weight FROM settled WHERE decision = ? ORDER BY seq DESC LIMIT 1",
            (decision.seq,),
        )
        if not rows:
            return Outcome(status="pending", reward=None)
        reward, status, clipped, weight = rows[0]
        return Outcome(
            status=STATUSES[status], reward=reward, clipped=bool(clipped), weight=1.0 if weight is None else weight
        )

    def last_settled(self, task: str) -> int:
        rows = self._database.query("SELECT MAX(seq) FROM settled WHERE task_id = ?", (self.name_id("task", task),))
        return int(rows[0][0] or 0)

    def last_signal(self) -> int:
        """Of all tasks: what is said or taken back later has a higher number."""
        return int(self._database.query("SELECT MAX(seq) FROM signals")[0][0] or 0)

    def last_decision(self, task: str) -> int:
        rows = self._database.query("SELECT MAX(seq) FROM decisions WHERE task_id = ?", (self.name_id("task", task),))
        return int(rows[0][0] or 0)

    def count_settled(self, task: str, *, after: int = 0) -> int:
        """Decisions that became settled after a mark; without corrections of earlier ones and mined decisions."""
        task_id, mined = self.name_id("task", task), SOURCES.index("mined")
        totals = daily_totals(self._database, task_id)
        if not after:
            return sum(total.settled for total in totals if total.source != mined)
        values: tuple[Any, ...] = (task_id, after)
        sql = "SELECT COUNT(*) FROM settled s WHERE s.task_id = ? AND s.seq > ? AND s.replaces IS NULL"
        # Else the decisions need not be read.
        if has_units(self._database) or any(total.source == mined or total.repeats for total in totals):
            sql += f" AND EXISTS (SELECT 1 FROM decisions d WHERE d.seq = s.decision AND d.source <> ? AND {LEADS})"
            values += (mined,)
        return int(self._database.query(sql, values)[0][0])

    def count_judged(self, task: str, *, known: bool, most: int) -> int:
        """Settled decisions whose propensity is known, or is not, without mined ones; counting stops at `most`."""
        rows = self._database.query(
            "SELECT COUNT(*) FROM (SELECT 1 FROM settled s JOIN decisions d ON d.seq = s.decision "
            f"WHERE s.task_id = ? AND s.replaces IS NULL AND d.source <> ? AND {LEADS} "
            f"AND d.propensity {'>' if known else '='} 0 "
            "LIMIT ?) AS judged",
            (self.name_id("task", task), SOURCES.index("mined"), most),
        )
        return int(rows[0][0])

    # -- counts

    def count_units(self, task: str, *, after: int, upto: int | None = None) -> int:
        """Units that began after a decision, up to another."""
        task_id = self.name_id("task", task)
        sql = "SELECT COUNT(*) FROM decisions d WHERE d.task_id = ? AND d.seq > ? AND d.seq <= ?"
        if has_units(self._database) or any(total.repeats for total in daily_totals(self._database, task_id)):
            sql += f" AND {LEADS}"
        return int(self._database.query(sql, (task_id, after, 2**62 if upto is None else upto))[0][0])

    def count_source(self, task: str, source: Source) -> int:
        """Decisions of a task from one source, so that every view can label synthetic data."""
        return self.counts(task).by_source.get(source, 0)

    def counts(self, task: str) -> Counts:
        """Counts of a task, from its totals by day."""
        return row_counts(self._database, self.name_id("task", task))

    def by_action(self, task: str) -> dict[str, int]:
        """Decisions for each action of a task, by name."""
        counts: dict[str, int] = {}
        for body, action, count in action_totals(self._database, self.name_id("task", task)):
            name = decode_candidates(body)[action].name
            counts[name] = counts.get(name, 0) + count
        return dict(sorted(counts.items()))
