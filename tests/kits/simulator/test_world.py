"""The world `sim`: what a policy sees, what actions do, and what an episode is worth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headway.encode.hashing import HashingEncoder
from headway.kits.prompts.mutations import mutate
from headway.kits.simulator.oracle import Oracle, cells
from headway.kits.simulator.problem import traits_of, undressed
from headway.kits.simulator.report import played_by
from headway.kits.simulator.solvers import SCRIPTED, Subjects, chance_of, drafts, scripted, sources
from headway.kits.simulator.split import HELD_OUT, ProblemPart, part_of, problem_part, reworded, sim
from headway.kits.simulator.world import ACTIONS, MOST_STEPS, PRICES, SimWorld, position
from headway.nouns.errors import HeadwayError
from headway.testing import world_contract


def begun(part: ProblemPart, count: int = 200) -> SimWorld:
    world = part.world(count)
    world.reset(seed=3)
    return world


def always(world: SimWorld, action: str) -> np.ndarray:
    return np.full(world.num_envs, position(action))


def test_the_world_keeps_the_contract(problem_file: Path) -> None:
    world_contract(lambda count: sim("train", count=count, tasks=str(problem_file)))


def test_observations_are_the_vectors_of_the_situations(practice_part: ProblemPart) -> None:
    world, rng = begun(practice_part, 40), np.random.default_rng(1)
    encoder = HashingEncoder(128)
    observations, _ = world.reset(seed=4)
    for _ in range(12):
        expected = world.features.vectors(world.situations(), encoder)[:, 1:]
        assert (observations == expected.astype(np.float32)).all()
        masks = world.action_masks()
        actions = [int(rng.choice(np.flatnonzero(row))) for row in masks]
        observations = world.step(actions)[0]


def test_some_practised_statements_are_disguised_and_no_others(problem_file: Path) -> None:
    practised, tested = (sim(part, count=400, tasks=str(problem_file)) for part in ("train", "test"))
    for world, least, most in ((practised, 0.1, 0.3), (tested, 0.0, 0.0)):
        observations, _ = world.reset(seed=2)
        plain = world.features.vectors(world.situations(), HashingEncoder(128))[:, 1:].astype(np.float32)
        assert least <= (observations != plain).any(axis=1).mean() <= most


def test_practised_problems_are_worded_in_several_ways_and_no_others(
    problem_file: Path, practice_part: ProblemPart
) -> None:
    several = reworded(practice_part, 3)
    assert several.problems[::3] == practice_part.problems
    for place, problem in enumerate(practice_part.problems):
        own = several.problems[3 * place : 3 * place + 3]
        assert {undressed(other.statement) for other in own} == {undressed(problem.statement)}
        assert (several.table.hidden[3 * place : 3 * place + 3] == practice_part.table.hidden[place]).all()
        assert not traits_of(undressed(problem.statement))
    assert several.subjects.traits.tolist() == Subjects.of(several.problems).traits.tolist()
    assert len({problem.statement for problem in several.problems}) > 2 * len(practice_part.problems)
    statements = sim("test", count=1, tasks=str(problem_file)).statements
    assert statements == [problem.statement for problem in problem_part(problem_file, "test").problems]


def test_a_policy_sees_no_label_and_no_hidden_result(practice_part: ProblemPart) -> None:
    world = begun(practice_part)
    world.step(always(world, "large"))
    for situation in world.situations():
        assert not {"family", "difficulty", "hidden", "id"} & set(situation.state)
    right = practice_part.table.hidden[world.at, world.draft]
    drafted = [situation.state for situation in world.situations()]
    assert len({str(sorted(state.items())) for state in drafted}) == 1  # unchecked drafts look alike, right or wrong
    assert 0 < right.sum() < len(right)


def test_stop_pays_for_hidden_tests_and_every_action_costs(practice_part: ProblemPart) -> None:
    world = begun(practice_part)
    _, rewards, over, _, _ = world.step(always(world, "large"))
    assert rewards == pytest.approx(-0.25)
    assert not over.any()
    right = practice_part.table.hidden[world.at, world.draft].copy()
    _, rewards, over, _, info = world.step(always(world, "stop"))
    assert over.all()
    assert (rewards == right).all()
    assert (info["metrics"]["solved"] == right).all()


def test_verify_tells_the_visible_tests_only(practice_part: ProblemPart) -> None:
    world = begun(practice_part)
    assert not world.action_masks()[:, position("verify")].any()
    world.step(always(world, "small"))
    visible = practice_part.table.visible[world.at, world.draft]
    world.step(always(world, "verify"))
    assert [situation.state["check"] == "passed" for situation in world.situations()] == visible.tolist()
    assert not world.action_masks()[:, position("verify")].any()


def test_an_episode_ends_after_the_last_step(practice_part: ProblemPart) -> None:
    world = begun(practice_part, 8)
    for step in range(MOST_STEPS):
        _, rewards, over, _, _ = world.step(always(world, "small"))
        assert over.all() == (step == MOST_STEPS - 1)
        assert ((world.returns[0] <= rewards) & (rewards <= world.returns[1])).all()


def test_parts_hold_whole_families_out(problem_file: Path) -> None:
    parts = {name: problem_part(problem_file, name) for name in ("train", "test", "families")}
    assert {problem.family for problem in parts["families"].problems} == set(HELD_OUT)
    for name in ("train", "test"):
        assert not {problem.family for problem in parts[name].problems} & set(HELD_OUT)
        assert all(part_of(problem) == name for problem in parts[name].problems)
    ids = [problem.id for part in parts.values() for problem in part.problems]
    assert len(ids) == len(set(ids)) == 180


def test_scripted_solvers_are_as_good_as_their_margin_says(practice_part: ProblemPart) -> None:
    problem = practice_part.problems[0]
    subjects, count = Subjects.of([problem]), 40_000
    row = np.zeros(count, dtype=np.int64)
    for arm, solver in enumerate(SCRIPTED.values()):
        numbers = drafts(subjects, row, row + arm, row, row, row, np.arange(count, dtype=np.uint64))
        skill = solver.skills.get(problem.family, solver.other)
        chance = float(chance_of(skill - problem.difficulty - len(traits_of(problem.statement))))
        assert (numbers == 0).mean() == pytest.approx(chance, abs=5 * (0.25 / count) ** 0.5)
        assert set(numbers) <= set(range(len(sources(problem))))


def test_a_scripted_solver_writes_the_same_source_again_and_reads_the_prompt(practice_part: ProblemPart) -> None:
    from random import Random

    for problem in practice_part.problems[:30]:
        assert scripted("small", problem, problem.statement) == scripted("small", problem, problem.statement)
        assert scripted("small", problem, problem.statement) in sources(problem)
    padded = next(problem for problem in practice_part.problems if 1 in traits_of(problem.statement))
    reduced = mutate(padded.statement, "context-reduction", Random(0)).text
    assert 1 not in traits_of(reduced)  # the mutation of the kit `prompts` really removes what trips solvers up
    with pytest.raises(HeadwayError, match="Did you mean 'small'"):
        scripted("smal", padded, padded.statement)


def test_the_oracle_is_worth_what_it_computes_and_more_than_any_fixed_arm(practice_part: ProblemPart) -> None:
    oracle = Oracle(cells(practice_part.problems, practice_part.subjects, practice_part.table))
    levels = np.zeros(len(practice_part.problems) * 40, dtype=np.int64)
    played = played_by(practice_part, lambda world, _: oracle.choose(world, levels), attempts=40, seed=1)
    means = played.values.mean(axis=1)
    error = means.std() / len(means) ** 0.5
    assert played.values.mean() == pytest.approx(oracle.values().mean(), abs=6 * 0.4 / played.values.size**0.5 + error)
    for arm in SCRIPTED:
        fixed = played_by(
            practice_part,
            lambda world, _, arm=arm: np.where(world.draft >= 0, position("stop"), position(arm)),
            attempts=40,
            seed=1,
        )
        assert fixed.values.mean() < 0.85 * played.values.mean()


def test_bad_worlds_are_refused(tmp_path: Path, problem_file: Path) -> None:
    with pytest.raises(HeadwayError, match="needs a file of problems"):
        sim(count=2)
    with pytest.raises(HeadwayError) as refused:
        sim(count=2, tasks=str(tmp_path / "none.jsonl"))
    assert refused.value.code == "bad_problem"
    alone = tmp_path / "problems.jsonl"
    alone.write_bytes(problem_file.read_bytes())
    with pytest.raises(HeadwayError) as refused:
        sim(count=2, tasks=str(alone))
    assert refused.value.code == "not_judged"


def test_every_action_has_a_price() -> None:
    assert len(PRICES) == len(ACTIONS)
    assert (PRICES[:-1] > 0).all()
