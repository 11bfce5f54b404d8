"""prove — decides whether a policy is better, from logs, preferences, worlds and held-out rows.

Takes: arrays of logged decisions with their propensities, preferences, paired returns.   Gives: Evidence, pages, plans.
Never: trains a policy, reads a store, promotes, imports the trainer.
May import: observe, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.prove.about import About as About
    from headway.prove.betting import Bets as Bets
    from headway.prove.calibration import PLACES as PLACES
    from headway.prove.change import moved_by as moved_by
    from headway.prove.chunks import DrawnPolicy as DrawnPolicy, chunk as chunk, put as put
    from headway.prove.diagnostics import (
        Checks as Checks,
        Floors as Floors,
        Window as Window,
        missing_width as missing_width,
    )
    from headway.prove.evidence import LogStream as LogStream, from_log as from_log
    from headway.prove.guard_bets import GuardRule as GuardRule
    from headway.prove.guards import judge_pairs as judge_pairs, unknown_guard as unknown_guard
    from headway.prove.leaks import LeakDetector as LeakDetector, Leaks as Leaks
    from headway.prove.log import Integers as Integers, Log as Log, RowOrigin as RowOrigin
    from headway.prove.look import Look as Look, look_at as look_at
    from headway.prove.page import Line as Line, Page as Page
    from headway.prove.power import Planned as Planned, likely_range as likely_range, plan as plan
    from headway.prove.raters import with_regions as with_regions
    from headway.prove.regions import RatedChoices as RatedChoices
    from headway.prove.reward_model import held_out_predictions as held_out_predictions
    from headway.prove.sequential import E_PROCESS as E_PROCESS, e_process as e_process
    from headway.prove.shares import (
        LEAST as LEAST,
        SHARES as SHARES,
        SharePilot as SharePilot,
        cheapest as cheapest,
        share_pilot as share_pilot,
    )
    from headway.prove.streams import LIMIT as LIMIT, Known as Known, StreamRows as StreamRows, find as find
    from headway.prove.tally import ColumnMean as ColumnMean, ScoreTally as ScoreTally
    from headway.prove.worth import (
        ComparedWorth as ComparedWorth,
        WorthRows as WorthRows,
        compare_worth as compare_worth,
    )
else:
    __all__, __getattr__ = door(__name__)
