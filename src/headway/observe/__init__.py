"""observe — stores what happened and reads it back.

Takes: Decision, Signal, outcomes.   Gives: rows, streamed in the store's own order.
Never: chooses an action, computes a reward, changes a weight.
May import: files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.observe import erase as erase
    from headway.observe.damage import UNREADABLE as UNREADABLE, damaged as damaged
    from headway.observe.database import (
        Connection as Connection,
        Database as Database,
        Durability as Durability,
        Row as Row,
        StoreTable as StoreTable,
        Waiting as Waiting,
    )
    from headway.observe.deleted import (
        DAY as DAY,
        DeletedDraws as DeletedDraws,
        action_code as action_code,
        deleted_draws as deleted_draws,
    )
    from headway.observe.details import checked as checked
    from headway.observe.drawn import (
        DrawnRows as DrawnRows,
        join_drawn as join_drawn,
        lacking as lacking,
        read_drawn as read_drawn,
    )
    from headway.observe.draws import Draws as Draws, draws_of as draws_of, ordered as ordered
    from headway.observe.engines import open_database as open_database
    from headway.observe.erase import (
        DELETIONS as DELETIONS,
        DeletionFilter as DeletionFilter,
        MatchedRows as MatchedRows,
    )
    from headway.observe.erased_words import (
        Gone as Gone,
        documents as documents,
        remaining as remaining,
        rewrite as rewrite,
        strings as strings,
        words_of_rows as words_of_rows,
        words_of_text as words_of_text,
    )
    from headway.observe.erasing import Erasing as Erasing
    from headway.observe.experience import (
        LEARNED_PARTS as LEARNED_PARTS,
        PARTS as PARTS,
        Kin as Kin,
        Recorded as Recorded,
        SplitBy as SplitBy,
        newest_trained as newest_trained,
        outcomes_upto as outcomes_upto,
        part_of as part_of,
        part_of_group as part_of_group,
        parts_of as parts_of,
        read_by as read_by,
        split_by as split_by,
        spread_trained as spread_trained,
        spread_windows as spread_windows,
        unrepeated as unrepeated,
    )
    from headway.observe.frame import (
        PROOF as PROOF,
        Block as Block,
        Flags as Flags,
        TaskFrame as TaskFrame,
        Whole as Whole,
        joined as joined,
        seal as seal,
    )
    from headway.observe.insert import encode_candidates as encode_candidates, request_of as request_of
    from headway.observe.jobs import Job as Job, Jobs as Jobs, at_work as at_work, worker_there as worker_there
    from headway.observe.keys import (
        PREFIX as PREFIX,
        SCOPES as SCOPES,
        Key as Key,
        Keys as Keys,
        Links as Links,
        digest_of as digest_of,
        new_secret as new_secret,
    )
    from headway.observe.lags import (
        ChangeLags as ChangeLags,
        change_lags as change_lags,
        first_signals as first_signals,
        same_moment as same_moment,
    )
    from headway.observe.migrations import EVEN_PAIR as EVEN_PAIR
    from headway.observe.part_blocks import (
        Batch as Batch,
        FirstRows as FirstRows,
        PartBlock as PartBlock,
        blocks_of as blocks_of,
        situation_without as situation_without,
        without as without,
    )
    from headway.observe.query import Query as Query
    from headway.observe.rater_signals import RaterSignals as RaterSignals
    from headway.observe.recent_rows import Recent as Recent, recent as recent
    from headway.observe.redact import Redactor as Redactor
    from headway.observe.rows import (
        BLOCK as BLOCK,
        LEADS as LEADS,
        STATUSES as STATUSES,
        decode_candidates as decode_candidates,
        dumps as dumps,
        loads as loads,
        microseconds as microseconds,
    )
    from headway.observe.run_log import RunLog as RunLog, drop_old_runs as drop_old_runs
    from headway.observe.search import (
        DecisionFilter as DecisionFilter,
        all_decisions as all_decisions,
        find_decisions as find_decisions,
        stored_rows as stored_rows,
    )
    from headway.observe.served import MatureRows as MatureRows, ServedRows as ServedRows
    from headway.observe.settler import (
        Agree as Agree,
        outcome_now as outcome_now,
        settle as settle,
        waiting_signals as waiting_signals,
    )
    from headway.observe.signals import signals_given as signals_given
    from headway.observe.since import (
        Changes as Changes,
        config_changes as config_changes,
        count_since as count_since,
        first_decision as first_decision,
        latest_draws as latest_draws,
    )
    from headway.observe.store import Store as Store, WriteTransaction as WriteTransaction
    from headway.observe.totals import (
        Counts as Counts,
        Day as Day,
        by_day as by_day,
        keep_totals as keep_totals,
        unreadable as unreadable,
    )
    from headway.observe.units import (
        decisions_about as decisions_about,
        rated_as_a_whole as rated_as_a_whole,
        shared_results as shared_results,
        unpriced as unpriced,
    )
    from headway.observe.writer import Writer as Writer
else:
    __all__, __getattr__ = door(__name__)
