"""The words of a forecast: a range, about how long, and "not soon" instead of a number that means nothing."""

from __future__ import annotations

import pytest

from headway.nouns import VerdictForecast


@pytest.mark.parametrize(
    ("low", "expected", "high", "seen", "per_day", "words"),
    [
        (121, 250, 398, 600, 125.0, "120 to 400 more decisions, about 42 h"),
        (120, 250, 1_000, 600, 125.0, "120 to 1,000 more decisions, 23 h to 8 days"),
        (140, 140, 140, 60, None, "about 140 more decisions"),
        (1, 1, 1, 60, None, "about 1 more decision"),
        (120, 250, None, 600, 125.0, "at least 120 more decisions, at least 23 h"),
        (120, 250, 12_001, 600, None, "at least 120 more decisions"),
        (4, 20, 30, 600, 1_000_000.0, "4 to 30 more decisions, less than a minute"),
        (1, 90, 265, 243, 54.0, "up to 270 more decisions, at most 4.9 days"),
    ],
)
def test_a_forecast_is_a_range_in_decisions_and_a_time(
    low: int, expected: int, high: int | None, seen: int, per_day: float | None, words: str
) -> None:
    told = VerdictForecast.of(low, expected, high, seen=seen, unit="decisions", per_day=per_day)
    assert told.soon
    assert told.text == words


def test_more_than_twenty_times_what_was_seen_is_not_soon() -> None:
    at = VerdictForecast.of(100, 20 * 600, None, seen=600, unit="decisions")
    beyond = VerdictForecast.of(100, 20 * 600 + 1, None, seen=600, unit="decisions", per_day=10.0)
    assert at.text == "at least 100 more decisions"
    assert beyond.text == "not soon, more than 20 times the decisions so far are needed"


def test_what_only_waits_for_outcomes_says_until_when() -> None:
    told = VerdictForecast(low=0, high=0, soon=True, unit="decisions", open=1, until=1_795_000_000.0)
    assert told.text == "waiting for 1 outcome, at the latest until 18 November 2026, 11:06 UTC"
