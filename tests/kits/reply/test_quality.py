"""Checks of a trained adapter, safety detectors, probes, and rewards without a rater."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.kits.reply.policy import quality_checks
from headway.kits.reply.probes import PROBES, ReplyStatistics, repetition, statistics_of
from headway.kits.reply.rewards import Style, length, relevance
from headway.kits.reply.safety import LinearDetector, flagged, flags
from headway.nouns.errors import Damaged, InvalidInput

PASSING = {
    "kl": 0.03, "perplexity_ratio": 1.01, "perplexity_liked": 0.98, "logprob_gap": 0.001, "auc": 0.7, "auc_low": 0.55,
    "auc_high": 0.85, "held_out_good": 25.0, "held_out_bad": 25.0, "probe_count": 20.0,
}  # fmt: skip
for _name, _mean, _sd in (
    ("empty", 0.0, 0.0), ("repetition", 0.1, 0.1), ("ended", 0.8, 0.4), ("refusal", 0.2, 0.4), ("length", 40.0, 10.0),
    ("flagged", 0.05, 0.2),
):  # fmt: skip
    PASSING |= {f"probe_{_name}": _mean, f"champion_{_name}": _mean, f"champion_{_name}_sd": _sd}


def failed(preferred: bool = False, **changed: float) -> set[str]:
    checks = quality_checks({**PASSING, **changed}, preferred=preferred)
    return {one.name for one in (*checks.diagnostics, *checks.guards) if not one.ok}


def test_a_good_adapter_passes_every_check() -> None:
    assert quality_checks(PASSING).ok
    assert not failed(perplexity_liked=1.02, held_out_good=7.0)  # a few replies say little


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"kl": 0.051}, "kl"),
        ({"perplexity_ratio": 1.06}, "perplexity"),
        ({"perplexity_liked": 1.01}, "perplexity_liked"),
        ({"perplexity_liked": 1.11, "held_out_good": 7.0}, "perplexity_liked"),
        ({"auc_low": 0.49}, "ranking"),
        ({"probe_empty": 0.3}, "empty"),
        ({"probe_repetition": 0.5}, "repetition"),
        ({"probe_ended": 0.0, "champion_ended": 1.0, "champion_ended_sd": 0.0}, "ended"),
        ({"probe_length": 20.0}, "length"),
        ({"probe_length": 80.0}, "length"),
        ({"probe_flagged": 0.1}, "safety"),
        ({"logprob_gap": 0.03}, "integrity"),
        ({"kl": float("nan")}, "integrity"),
    ],
)
def test_each_limit_refuses_and_says_why(changed: dict[str, float], name: str) -> None:
    assert name in failed(**changed)
    checks = quality_checks({**PASSING, **changed})
    assert all(len(one.message) > 20 for one in (*checks.diagnostics, *checks.guards) if not one.ok)


def test_few_held_out_ratings_refuse_only_a_ranking_that_is_upside_down() -> None:
    few = {"held_out_good": 6.0, "held_out_bad": 6.0, "auc_low": 0.2}
    assert failed(**few) == set()
    assert failed(**few, auc=0.2, auc_high=0.4) == {"ranking"}
    assert failed(held_out_good=2.0, auc_high=0.1) == set()


def test_votes_that_prefer_another_length_allow_it() -> None:
    assert failed(probe_length=20.0) == {"length"}
    assert failed(preferred=True, probe_length=20.0) == set()
    assert failed(preferred=True, kl=0.2) == {"kl"}, "votes never excuse the rest"


def test_an_adapter_that_was_not_measured_is_refused() -> None:
    assert not quality_checks({}).ok


def test_the_rules_flag_harm_and_not_ordinary_text() -> None:
    harmful = (
        "First combine the powder with an explosive and a fuse.",
        "I will hurt your dog.",
        "Take a whole bottle of them.",
        "The key is sk-abcdefghijklmnopqrstuvwxyz123456.",
        "All immigrants are criminals.",
    )
    assert [flags(text) != [] for text in harmful] == [True] * 5
    harmless = ("Combine the flour with an egg.", "I will help you.", "The bomb was found in 1945.", "", "a" * 200_000)
    assert not any(flagged(text) for text in harmless)
    with pytest.raises(InvalidInput) as raised:
        flags("x", {"bad": r"(?=a)"})
    assert raised.value.code == "bad_safety_rule"


def test_a_linear_detector_learns_is_stored_without_pickles_and_reads_back(tmp_path: Path) -> None:
    unsafe = [f"you are a stupid {noun} and I hate you" for noun in ("man", "woman", "dog", "thing", "person")]
    safe = [f"here is a recipe for {noun} with salt" for noun in ("bread", "soup", "cake", "rice", "fish")]
    detector = LinearDetector.learn([*unsafe, *safe], [True] * 5 + [False] * 5)
    assert detector.score("I hate you, stupid neighbour") > 0.7
    assert detector.score("a recipe for pasta with salt") < 0.3
    detector.write(tmp_path)
    assert LinearDetector.read(tmp_path).score("I hate you") == pytest.approx(detector.score("I hate you"), abs=1e-6)
    (tmp_path / "detector.safetensors").write_bytes(b"broken")
    with pytest.raises(Damaged) as raised:
        LinearDetector.read(tmp_path)
    assert raised.value.code == "detector_damaged"


def test_statistics_see_degeneration() -> None:
    assert repetition("go on and on " * 10) > 0.8
    assert repetition("a plain sentence without any run that repeats itself at all") == 0.0
    empty = ReplyStatistics.of("  ", tokens=1, ended=True)
    assert (empty.empty, empty.ended) == (1.0, 1.0)
    assert ReplyStatistics.of("I'm sorry, I can't.", tokens=6, ended=True).refusal == 1.0
    made_up = next(probe for probe in PROBES if probe.kind == "hallucination")
    assert ReplyStatistics.of("Italy won it.", tokens=4, ended=True, probe=made_up).hallucinated == 1.0
    assert (
        ReplyStatistics.of("There was no world cup in 1937.", tokens=8, ended=True, probe=made_up).hallucinated == 0.0
    )
    both = statistics_of([empty, ReplyStatistics.of("Yes.", tokens=3, ended=False)])
    assert (both.means["empty"], both.deviations["empty"], both.means["length"]) == (0.5, 0.5, 2.0)


class _Letters:
    """An encoder by letters."""

    version, width = "letters", 26

    def encode(self, texts: Sequence[str]) -> Any:
        return np.array([[text.lower().count(chr(97 + place)) for place in range(26)] for text in texts], float)


def test_relevance_is_the_cosine_of_embeddings() -> None:
    values = relevance(_Letters(), [("abc", "cab"), ("abc", "xyz"), ("abc", "")])
    assert values == pytest.approx([1.0, 0.0, 0.0])
    assert relevance(_Letters(), []) == []


def test_style_learns_what_a_rater_likes() -> None:
    style = Style.learn(_Letters(), ["aaaa", "aaab", "zzzz", "zzzy"], [1.0, 1.0, -1.0, -1.0])
    liked, disliked = style.score(["aaaa", "zzzz"])
    assert liked > 0.5 > -0.2 > disliked
    assert Style.learn(_Letters(), [], []).score(["aaaa"]) == [0.0]


def test_a_length_reward_falls_outside_its_limits() -> None:
    assert [length(tokens, low=10, high=20) for tokens in (0, 5, 10, 20, 30, 40, 99)] == [-1, 0, 1, 1, 0, -1, -1]
    with pytest.raises(InvalidInput):
        length(5, low=0, high=3)
