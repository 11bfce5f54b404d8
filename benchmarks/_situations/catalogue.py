"""Every situation: what happens, and the control which shows that a verdict is possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from _situations import (
    actions,
    beyond,
    budget,
    claimed,
    copies,
    corrected,
    deleted,
    late,
    order,
    ordinary,
    promise,
    propensities,
    raters,
    sharing,
    skewed,
    states,
    training,
    unlisted,
    votes,
)
from _situations.trial import Trial

__all__ = ["PARTS", "SITUATIONS", "Control", "Situation"]


@dataclass(frozen=True, slots=True)
class Control:
    """The same world with a candidate that is better and the cure in place: how often it is promoted."""

    about: str
    trial: Trial


@dataclass(frozen=True, slots=True)
class Situation:
    """A world in which the candidate is truly not better."""

    name: str
    about: str
    trial: Trial
    controls: Sequence[Control] = ()


def _changed(what: str, about: str, trial: Trial, again: Trial) -> Situation:
    return Situation(
        f"{what}_changed", f"PASS, then {about} changed, then promote", trial, [Control("proven again", again)]
    )


FIRST: tuple[Situation, ...] = (  # what an audit found or asked to hold
    Situation(
        "late_failures",
        "failures of one action arrive 6 h late",
        late.late_failures,
        [Control("traffic for four days", late.late_failures_waited_for)],
    ),
    Situation(
        "silent_failures",
        "failures of one action are never reported, within the day",
        late.silent_failures,
        [Control("on_censored = 0, reward_after_s = 3600", late.silent_failures_declared)],
    ),
    Situation("silent_failures_later", "the same, after the day", late.silent_failures_past_the_day),
    Situation(
        "missing_not_at_random",
        "40% missing for both actions: one's successes, the other's failures",
        late.missing_not_at_random,
        [
            Control('30% missing at random, missing = "at random"', late.missing_at_random_declared),
            Control("0.5% missing, nothing declared", late.few_missing),
        ],
    ),
    Situation("left_open", "attack: a decide-only agent leaves 52% open", late.left_open),
    Situation(
        "rescored",
        "all rewards rescored after training",
        training.rescored,
        [Control("better, rescored", training.rescored_and_better)],
    ),
    Situation("rated_again", "rated by a second person after training", training.rated_again),
    Situation("completed", "an optional signal arrives after training", training.completed),
    Situation("withdrawn_and_rated", "withdrawn after training and rated again", training.withdrawn_and_rated),
    Situation("live_current", "a current policy that learns online, against random choice", training.live_current),
    Situation("rolled_back", "a current policy as good as the one before (a rollback counts)", training.rolled_back),
    Situation("live_rolled_back", "the same, learning online", training.live_rolled_back),
    Situation(
        "registered_again",
        "`plan --register` again whenever used up",
        budget.registered_again,
        [Control("one plan, .3 better", budget.registered_and_better)],
    ),
    Situation(
        "built_ins",
        "six fixed actions tried after every 400 decisions",
        budget.built_ins,
        [Control("one is .3 better", budget.built_in_and_better)],
    ),
    Situation("proven_again", "rolled back and proven again, a new rival each time", budget.proven_again),
    Situation(
        "success_97",
        "97% success for all, eps .1",
        skewed.success_97,
        [Control("60% against 97%", skewed.success_and_better)],
    ),
    Situation(
        "disasters_1",
        "1% disasters of −1, eps .1",
        skewed.disasters_1,
        [Control("worth .38 more", skewed.disasters_and_better)],
    ),
    Situation("clicks_3", "3% clicks, eps .1", skewed.clicks_3, [Control("3% against 20%", skewed.clicks_and_better)]),
    _changed("fallback", "the fallback", promise.fallback_changed, promise.fallback_proven_again),
    _changed("epsilon", "the exploration", promise.epsilon_changed, promise.epsilon_proven_again),
    _changed("reward", "a reward weight", promise.reward_changed, promise.reward_proven_again),
    _changed("encoder", "the encoder", promise.encoder_changed, promise.encoder_proven_again),
    Situation("fixed_arm_changed", "`fixed@0` passes, its action changes, then promote", promise.fixed_arm_changed),
    Situation(
        "propensities_by_context",
        "client logs .5, acts by context",
        propensities.by_context,
        [Control("logs what it did, better", propensities.right_and_better)],
    ),
    Situation("propensities_by_user", "client logs .5, acts by user", propensities.by_user),
    Situation("propensities_greedy", "client never explores, logs eps .2", propensities.greedy_logged_as_epsilon),
    Situation(
        "clipped",
        "rewards cut off by the range",
        skewed.clipped,
        [Control("range = [-1, 3]", skewed.range_that_fits)],
    ),
    Situation(
        "guard_broken",
        "guard broken by three tolerances",
        skewed.guard_broken,
        [Control("guard kept", skewed.guard_kept)],
    ),
    Situation(
        "trigger", "attack: one key, 5% trigger texts", raters.trigger, [Control("without that key", raters.no_trigger)]
    ),
    Situation(
        "inverse_ratings",
        "attack: one key rates 40% inversely (a rollback counts)",
        raters.inverse_ratings,
        [Control("a worse policy is rolled back", raters.worse_rolled_back)],
    ),
    Situation("no_state", "no text, no state", states.no_state, [Control(".25 better", states.no_state_and_better)]),
    Situation(
        "three_states", "three states", states.three_states, [Control(".25 better", states.three_states_and_better)]
    ),
    Situation(
        "peeking",
        "two equal actions, a look after every 50 decisions",
        budget.peeking,
        [Control(".2 better", budget.peeking_and_better)],
    ),
    Situation(
        "season",
        "all actions drift together",
        ordinary.season,
        [Control(".25 better", ordinary.season_and_better)],
    ),
    Situation("sticky", "sticky episodes", ordinary.sticky, [Control(".3 better", ordinary.sticky_and_better)]),
    Situation("users", "correlated users", ordinary.users, [Control(".2 better", ordinary.users_and_better)]),
    Situation(
        "changing",
        "changing actions and canaries",
        ordinary.changing,
        [Control(".3 better", ordinary.changing_and_better)],
    ),
    Situation(
        "early_and_withdrawn",
        "early, late, withdrawn and repeated signals",
        ordinary.early_and_withdrawn,
        [Control(".25 better", ordinary.early_and_better)],
    ),
    Situation(
        "adaptive",
        "the logging policy learns",
        propensities.adaptive,
        [Control(".2 better", propensities.adaptive_and_better)],
    ),
)

SECOND: tuple[Situation, ...] = (  # what a second audit found
    Situation("corrected_2h", "one action's failures read 1 at first, corrected after 2 h", corrected.corrected_2h),
    Situation(
        "corrected_6h",
        "the same, corrected after 6 h",
        corrected.corrected_6h,
        [Control("better; the log is a day old", corrected.corrected_and_better)],
    ),
    Situation("corrected_equal", "the same, the actions are equal", corrected.corrected_equal),
    Situation("corrected_up", "one action's successes read 0 at first, for 6 h", corrected.corrected_up),
    Situation("few_corrected", "1.5% of one action's failures read 1 for 6 h", corrected.few_corrected),
    Situation(
        "judged_then_rated",
        "a judge says 1 at once, its word is withdrawn and a person says 0 after 6 h",
        corrected.judged_then_rated,
        [Control("better; the log is a day old", corrected.rated_and_better)],
    ),
    Situation(
        "conversions_late",
        "on_censored = 0 after 1 h; one action's conversions take 2 h",
        corrected.conversions_late,
        [Control("better, reward_after_s = 9000", corrected.conversions_in_time)],
    ),
    Situation(
        "flagged_later",
        "a nightly job sets safety_flag 20 h later",
        corrected.flagged_later,
        [Control("better; the log is older", corrected.flagged_and_better)],
    ),
    *(
        Situation(f"{name}_at_once", f"{about}; a person promotes as soon as it passes", trial)
        for name, about, trial in (
            ("corrected_2h", "failures corrected after 2 h", corrected.corrected_2h_at_once),
            ("corrected_6h", "failures corrected after 6 h", corrected.corrected_6h_at_once),
            ("judged_then_rated", "a person says 0 after 6 h", corrected.rated_at_once),
            ("flagged_later", "a nightly job sets safety_flag 20 h later", corrected.flagged_at_once),
        )
    ),
    Situation(
        "deleted_failures",
        "40% of the users whom one action failed are deleted",
        deleted.failures,
        [
            Control("2% of all, whatever came of it; better", deleted.few_of_better),
            Control("10% of all before it was learned; better", deleted.tenth_before_learning),
            Control('10% of all, missing = "at random"; better', deleted.tenth_declared),
        ],
    ),
    *(
        Situation(
            f"claimed_{name}",
            f"client logs false probabilities: {about}",
            partial(claimed.claimed, world),
            [
                Control(".2 better, an experiment that Headway draws", partial(claimed.drawn, world, gain=0.2)),
                Control("equal, an experiment that Headway draws", partial(claimed.drawn, world)),
            ],
        )
        for name, about, world in (
            ("hard_cases", "explores in hard cases only", claimed.hard_cases),
            ("hidden_context", "acts by what it does not log", claimed.hidden_context),
            ("user_hash", "arms by a hash of the user", claimed.user_hash),
        )
    ),
    Situation(
        "action_removed",
        "the candidate's favourite action is removed, then the proof",
        actions.removed,
        [Control("better without it", actions.removed_and_better)],
    ),
    Situation(
        "action_added",
        "an action is added that the candidate expects too much of, then the proof",
        actions.added,
        [Control("learned again", actions.added_and_better)],
    ),
    Situation(
        "episode_result",
        "one result for four steps of an episode, one `b` helps and four ruin it",
        sharing.steps,
        [Control("sticky = true, four are better", sharing.steps_sticky)],
    ),
    Situation(
        "request_result",
        "each attempt of a request is a decision, one action fails fast and is answered by another",
        sharing.attempts,
        [Control("0.4% of requests fail, better", sharing.attempts_rare)],
    ),
    Situation(
        "pareto_costs",
        "Pareto costs beyond the range",
        beyond.pareto_costs,
        [Control("capped = true", beyond.pareto_capped)],
    ),
    Situation(
        "log_normal_costs",
        "log-normal costs beyond the range",
        beyond.log_normal_costs,
        [Control("range = [-3, 0], which holds them", beyond.log_normal_better)],
    ),
    Situation(
        "disasters_beyond",
        "one disaster of −100 in 400, range [−1, 1]; one has happened",
        beyond.disasters_beyond,
        [
            Control("range = [-100, 40], worth it", beyond.disasters_within),
            Control("cuts that only hurt the candidate", beyond.cut_against),
            Control("cuts both ways, then the range that the verdict names", beyond.cut_both_ways),
        ],
    ),
    Situation("disasters_unseen", "the same; perhaps none has happened yet", beyond.disasters_unseen),
    Situation(
        "windfalls_beyond", "one windfall of 100 in 400, range [−1, 1]; one has happened", beyond.windfalls_beyond
    ),
    Situation("windfalls_hurt", "the same, cut from what the candidate always does", beyond.windfalls_hurt),
    Situation(
        "guard_silent",
        "slow calls never report the guard's metric",
        beyond.guard_silent,
        [Control("range = [0, 10], one in 500 silent", beyond.guard_few_silent)],
    ),
    Situation("guard_silent_bounded", "the same, with a declared range", beyond.guard_silent_bounded),
    Situation(
        "guard_huge",
        ".3% of calls hang 300 s",
        beyond.guard_huge,
        [Control("range = [0, 10], kept", beyond.guard_bounded_kept)],
    ),
    Situation("guard_huge_bounded", "the same, with a declared range", beyond.guard_huge_bounded),
    Situation(
        "losers_silent",
        "votes: three in four who dislike the candidate's reply do not answer",
        votes.losers_silent,
        [
            Control("everybody answers, 75% prefer it", votes.losers_answer),
            Control("one in four does not, 75% prefer it", votes.some_silent_and_better),
        ],
    ),
    Situation(
        "mute_key",
        "attack: one key asks for a third of the comparisons and never answers; others who dislike the reply leave",
        votes.mute_key,
        [Control("80% of the others prefer it", votes.mute_key_on_a_better_one)],
    ),
    Situation(
        "two_collude",
        "attack: two of six keys vote for the candidate, whatever it says",
        votes.two_collude,
        [Control("75% of the others prefer it too", votes.two_collude_on_a_better_one)],
    ),
    Situation(
        "first_player",
        "a world pays .2 more to the policy that plays an episode first",
        order.first_player,
        [Control("the candidate is .3 better", order.first_player_and_better)],
    ),
    Situation(
        "near_copies",
        "held-out rows are training rows with another number",
        copies.near_copies,
        [Control("prompts of their own; what they say matters", copies.word_matters)],
    ),
    Situation(
        "hidden_difficulty",
        "held-out rows without probabilities; actions were chosen by a difficulty that was not logged",
        copies.hidden_difficulty,
        [Control("what prompts say matters, --predicts-only", copies.word_matters)],
    ),
    Situation(
        "retries",
        "retries are stored under new ids, each with a request number in its state",
        copies.retries,
        [Control(".3 better", copies.retries_and_better)],
    ),
    Situation(
        "bounds_agreeing",
        "policies agree on 90% of the decisions, and the uplift is just below the margin",
        ordinary.agreeing,
        [Control(".95 better on 10% of the decisions", ordinary.agreeing_and_better)],
    ),
)

UNLISTED: tuple[Situation, ...] = (  # worlds that nobody asked for
    Situation("fished", "a new candidate of equal actions after every 150 decisions", unlisted.fished),
    Situation("rewards_tried", "the reward's weights are changed until something passes", unlisted.rewards_tried),
    Situation("ranges_tried", "the range is declared anew until something passes", unlisted.ranges_tried),
    Situation("novelty", "`b` is better for 1,500 decisions, then worse", unlisted.novelty),
    Situation("novelty_watched", "the same, and the loop goes on for 1,500 decisions", unlisted.novelty_watched),
    Situation("carried_over", "`b` spoils the decision that follows", unlisted.carried_over),
    Situation("four_days", "better on weekdays, worse at weekends; four days are logged", unlisted.four_days),
    Situation("weekend_watched", "the same, and the loop goes on at the weekend", unlisted.weekend_watched),
    Situation("levels_by_day", "every action has another level each day", unlisted.levels_by_day),
    Situation("after_the_fact", "the state was measured after the action", unlisted.after_the_fact),
    Situation("sybils", "attack: five keys of one person, 6% trigger texts", unlisted.sybils),
    Situation("canary_in_a_rise", "a canary's share grows while everything gets better", unlisted.canary_in_a_rise),
    Situation(
        "failures_taken_back", "the client takes failures of `b` back an hour later", unlisted.failures_taken_back
    ),
)

PARTS = {"first": FIRST, "second": SECOND, "unlisted": UNLISTED}  # of the page, each with a table
SITUATIONS = (*FIRST, *SECOND, *UNLISTED)
