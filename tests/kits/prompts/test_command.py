"""`headway mutate` and `headway demo mutate`."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.kits.prompts import MUTATIONS
from headway.kits.prompts.practise_synthetic import learn_mutations
from tests.cli.terminal import headway


def test_a_named_mutation_needs_no_project_and_logs_nothing(empty: Path) -> None:
    report = headway("-C", empty, "mutate", "Please write a slogan.", "--kind", "context-reduction", "--json").json
    assert (report["text"], report["no_op"]) == ("Write a slogan.", False)
    again = headway("-C", empty, "mutate", report["text"], "--kind", "context-reduction", "--json").json
    assert (again["text"], again["no_op"], again["change"]) == (report["text"], True, "nothing can be left out")
    assert not (empty / ".headway").exists()


def test_without_a_kind_the_task_decides_among_applicable_mutations(empty: Path) -> None:
    seen = set()
    for _ in range(12):
        done = headway("-C", empty, "mutate", "Write a slogan.", "--json")
        seen.add(done.json["kind"])
        assert done.json["propensity"] == pytest.approx(1 / 4)
        assert not done.json["no_op"]
    assert len(seen) > 1
    assert "context-reduction" not in seen
    signal = done.json["next"].split()
    assert headway(*signal[1:]).code == 0


def test_an_unknown_kind_is_a_usage_error(empty: Path) -> None:
    done = headway("-C", empty, "mutate", "Write a slogan.", "--kind", "expantion")
    assert done.code == 2
    assert all(kind in done.err for kind in MUTATIONS)


@pytest.mark.slow
def test_the_mutation_demo_compares_with_the_optimum_plots_and_publishes_a_candidate(empty: Path) -> None:
    done = headway("demo", "mutate", "--out", empty, "--steps", "4096", "--json")
    report = done.json
    run = report["runs"][0]
    assert set(report) == {"world", "source", "folder", "policy", "within_5_percent", "runs", "plot", "next"}
    assert set(run) == {
        *("seed", "steps", "seconds", "value", "sampled", "optimum", "share", "fixed", "fixed_order", "fixed_action"),
        *("uniform", "over_fixed", "shares"),
    }
    assert done.code == (0 if report["within_5_percent"] else 1)
    assert run["uniform"] < run["fixed"] < run["optimum"]
    assert set(run["shares"]) >= {"marketing", "code review"}
    assert (empty / "mutate.png").read_bytes().startswith(b"\x89PNG")
    assert report["policy"].startswith("actor_critic@")
    assert report["policy"] in headway("-C", empty, "status").out
    # It acts on text as any other policy of the task.
    import headway as package

    with package.open(empty) as project:
        settings = project.settings.task("mutate")
        ref, digest = project.servings.resolve(settings, report["policy"])
        pipeline = project.servings.pipeline("mutate", project.servings.body(settings), ref, digest)
        assert pipeline is not None


@pytest.mark.slow
def test_the_same_seed_learns_the_same_policy() -> None:
    first, second = (learn_mutations(seed=3, steps=4096) for _ in range(2))
    assert (first.value, first.shares, first.curve) == (second.value, second.shares, second.curve)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_five_seeds_end_within_five_percent_of_the_optimum_on_held_out_prompts() -> None:
    for seed in range(5):
        run = learn_mutations(seed=seed)
        assert run.share > 0.95, (seed, run.share)
        assert run.sampled > 0.95 * run.optimum, (seed, run.sampled)
        assert run.gain[1] > 0.1, "the interval over the best fixed order"


@pytest.mark.slow
def test_the_demo_candidate_is_proven_promoted_served_and_rolled_back(empty: Path) -> None:
    demo = headway("demo", "mutate", "--out", empty, "--steps", "49152", "--json").json
    assert demo["next"].endswith("prove mutate")
    verdict = headway("-C", empty, "prove", "mutate", "--json").json
    assert verdict["passed"], verdict["reasons"]
    assert verdict["evidence"]["kind"] == "world"
    assert headway("-C", empty, "promote", "mutate").code == 0
    asked = ("decide", "mutate", "Please write a slogan for a bakery", "--json")
    assert headway("-C", empty, *asked).json["policy"] == demo["policy"]
    assert headway("-C", empty, "rollback", "mutate").code == 0
    assert headway("-C", empty, *asked).json["policy"] == "uniform@0"
