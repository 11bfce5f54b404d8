"""prove — decides whether a policy is better, from logs, preferences, worlds and held-out rows.

Takes: arrays of logged decisions with their propensities, preferences, paired returns.   Gives: Evidence, pages, plans.
Never: trains a policy, reads a store, promotes, imports the trainer.
May import: observe, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.prove import intervals as intervals, report as report, sequential as sequential
    from headway.prove.about import RANGE_FROM_ROWS as RANGE_FROM_ROWS, About as About, compose as compose
    from headway.prove.betting import Bets as Bets
    from headway.prove.calibration import PLACES as PLACES
    from headway.prove.change import moved_by as moved_by
    from headway.prove.chunks import GONE as GONE, CheckColumns as CheckColumns, chunk as chunk, put as put
    from headway.prove.diagnostics import (
        Checks as Checks,
        Floors as Floors,
        Window as Window,
        missing_depends_on_action as missing_depends_on_action,
        missing_width as missing_width,
        overlap as overlap,
        unlogged as unlogged,
    )
    from headway.prove.estimators import cross_fitted as cross_fitted, effective_size as effective_size, terms as terms
    from headway.prove.evidence import from_log as from_log
    from headway.prove.guard_bets import GuardTally as GuardTally
    from headway.prove.guards import (
        GuardRule as GuardRule,
        guards_not_measured as guards_not_measured,
        judge_metrics as judge_metrics,
        judge_segments as judge_segments,
        unknown_guard as unknown_guard,
    )
    from headway.prove.intervals import bootstrap as bootstrap, normal as normal
    from headway.prove.leaks import LeakDetector as LeakDetector, Leaks as Leaks
    from headway.prove.limits import at_least as at_least, at_most as at_most
    from headway.prove.log import Floats as Floats, Integers as Integers, Log as Log, RowOrigin as RowOrigin
    from headway.prove.look import Look as Look, look_at as look_at
    from headway.prove.origin import OriginChecks as OriginChecks
    from headway.prove.page import Page as Page, page_of as page_of
    from headway.prove.power import (
        Planned as Planned,
        decisions_needed as decisions_needed,
        plan as plan,
        sequence_needed as sequence_needed,
    )
    from headway.prove.raters import with_regions as with_regions
    from headway.prove.regions import RatedChoices as RatedChoices
    from headway.prove.reward_model import ArmSums as ArmSums, narrow as narrow
    from headway.prove.sequential import (
        ALPHA as ALPHA,
        PREFERENCE_ALPHA as PREFERENCE_ALPHA,
        challenger_alpha as challenger_alpha,
        e_process as e_process,
        quantile as quantile,
    )
    from headway.prove.shares import (
        LEAST as LEAST,
        SHARES as SHARES,
        SharePilot as SharePilot,
        cheapest as cheapest,
        share_pilot as share_pilot,
    )
    from headway.prove.spread import ScoreSpread as ScoreSpread
    from headway.prove.streams import LIMIT as LIMIT, Known as Known, StreamRows as StreamRows, find as find
    from headway.prove.tally import (
        ColumnMean as ColumnMean,
        Groups as Groups,
        MetricTally as MetricTally,
        ScoreTally as ScoreTally,
    )
    from headway.prove.worth import (
        ComparedWorth as ComparedWorth,
        WorthRows as WorthRows,
        compare_worth as compare_worth,
    )
else:
    __all__, __getattr__ = door(__name__)
