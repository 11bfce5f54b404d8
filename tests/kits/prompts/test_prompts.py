"""Mutations, corpus, checks, classes and the prompts world."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from headway.encode.hashing import HashingEncoder
from headway.kits.models.language import Completion, Delta, Prompt as Asked, Scored
from headway.kits.prompts.checked_prompts import CLASSES, corpus, simple_tasks, validated
from headway.kits.prompts.mutations import HEADINGS, MUTATIONS, allowed, mutate
from headway.kits.prompts.outcomes import TOKEN_COST, Outcomes
from headway.kits.prompts.synthetic import CHANCES, COST, Synthetic, examples, synthetic
from headway.kits.prompts.world import PromptsWorld
from headway.kits.sandbox import Limits, Result, sandbox
from headway.kits.sandbox.checks import check, code_in, json_in
from headway.nouns.errors import InvalidInput, Unavailable, UnknownName

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=300).filter(str.strip)
PYTHON_ONLY = re.compile(r"\b(python|javascript|typescript|java|rust|go|try/except|try-except)\b", re.IGNORECASE)


# Mutations


def test_the_five_mutations_differ_on_the_whole_corpus_or_report_a_no_op() -> None:
    prompts = corpus()
    distinct = 0
    for prompt in prompts:
        mutations = [mutate(prompt.text, kind, Random(7)) for kind in MUTATIONS]
        real = [mutation.text for mutation in mutations if not mutation.no_op]
        assert prompt.text not in real
        assert all(mutation.text == prompt.text for mutation in mutations if mutation.no_op)
        distinct += len(set(real)) == len(real)
    assert len(prompts) >= 60
    assert distinct == len(prompts)


@pytest.mark.parametrize("kind", MUTATIONS)
def test_a_second_application_is_a_no_op(kind: str) -> None:
    for prompt in corpus():
        once = mutate(prompt.text, kind, Random(1))
        again = mutate(once.text, kind, Random(2))
        assert again.no_op
        assert again.text == once.text


def test_repeated_mutations_in_any_order_do_not_grow_the_prompt_without_bound() -> None:
    rng = Random(3)
    for prompt in corpus():
        text = prompt.text
        for _ in range(50):
            text = mutate(text, rng.choice(MUTATIONS), rng).text
        assert len(text) < len(prompt.text) + 1800
        assert not any(allowed(text))


@settings(max_examples=40)
@given(TEXT, st.sampled_from(MUTATIONS), st.integers(0, 99))
def test_any_text_is_mutated_purely_and_at_most_once(text: str, kind: str, seed: int) -> None:
    once = mutate(text, kind, Random(seed))
    assert once == mutate(text, kind, Random(seed))
    assert once.no_op == (once.text == text)
    assert allowed(text)[MUTATIONS.index(kind)] != once.no_op
    assert mutate(once.text, kind, Random(seed + 1)).text == once.text
    assert all(map(math.isfinite, (once.impact.quality, once.impact.cost, once.impact.latency)))


def test_no_content_is_lost() -> None:
    for prompt in corpus():
        for kind in MUTATIONS:
            text = mutate(prompt.text, kind, Random(5)).text
            if kind != "context-reduction":
                assert text.startswith(prompt.text.rstrip())
                continue
            assert len(text) <= len(prompt.text)
            for kept in re.findall(r"```.*?```|`[^`]+`|'[^']{2,}'|\d+", prompt.text, re.DOTALL):
                assert kept in text


def test_reduction_removes_fillers_and_keeps_quotations_and_code() -> None:
    text = "Hello! Could you please write `please(very)` and say 'thank you very much'? Keep it. Thanks in advance!"
    mutated = mutate(text, "context-reduction", Random(1))
    assert mutated.text == "Write `please(very)` and say 'thank you very much'? Keep it."
    assert mutated.change == "took out 3 fillers"


def test_repeated_sentences_are_removed() -> None:
    mutated = mutate("Count the red apples. Be quick. Count the red apples.", "context-reduction", Random(1))
    assert mutated.text == "Count the red apples. Be quick."


def test_no_programming_language_is_assumed() -> None:
    for prompt in corpus():
        if PYTHON_ONLY.search(prompt.text):
            continue
        for kind in MUTATIONS:
            assert not PYTHON_ONLY.search(mutate(prompt.text, kind, Random(1)).text)


def test_seeds_choose_among_wordings() -> None:
    texts = {mutate("Name a river.", "expansion", Random(seed)).text for seed in range(30)}
    assert len(texts) == 3


def test_unknown_kinds_and_empty_prompts_are_refused() -> None:
    with pytest.raises(UnknownName, match="expansion"):
        mutate("Name a river.", "expansoin", Random(1))
    with pytest.raises(InvalidInput):
        mutate("  ", "expansion", Random(1))


# Checks


@pytest.mark.parametrize(
    ("answer", "wanted", "passes"),
    [
        ("The answer is: Blue.", {"kind": "exact", "value": "blue"}, True),
        ("I think so.\nblue", {"kind": "exact", "value": ["blue", "navy"]}, True),
        ("bluebird", {"kind": "exact", "value": "blue"}, False),
        ("It is Paris, of course", {"kind": "includes", "all": ["paris"]}, True),
        ("Parisian", {"kind": "includes", "all": ["paris"]}, False),
        ("Paris and Lyon", {"kind": "includes", "all": ["paris"], "none": ["lyon"]}, False),
        ("a or c", {"kind": "includes", "any": ["b", "c"]}, True),
        ("2024-03-09", {"kind": "regex", "pattern": r"^\d{4}-\d\d-\d\d$"}, True),
        ("3 + 4 = 7", {"kind": "numeric", "value": 7}, True),
        ("7 is 3 + 4", {"kind": "numeric", "value": 7}, False),
        ("7 is 3 + 4", {"kind": "numeric", "value": 7, "anywhere": True}, True),
        ("It costs 1,234.50 euros", {"kind": "numeric", "value": 1234.5}, True),
        ("about 3.14", {"kind": "numeric", "value": 3.1416, "tolerance": 0.01}, True),
        ("−5 degrees", {"kind": "numeric", "value": -5}, True),
        ("none", {"kind": "numeric", "value": 0}, False),
        ('Here: {"a": [1, 2]} bye', {"kind": "json", "schema": {"required": ["a"]}}, True),
        ('{"a": true}', {"kind": "json", "schema": {"properties": {"a": {"type": "integer"}}}}, False),
        ("[1, 2, 3]", {"kind": "json", "schema": {"type": "array", "maxItems": 2}}, False),
        (
            '{"a": 1, "b": 2}',
            {"kind": "json", "schema": {"properties": {"a": {}}, "additionalProperties": False}},
            False,
        ),
        ("no json", {"kind": "json", "schema": {"type": "object"}}, False),
        ("one two three", {"kind": "words", "most": 2}, False),
        ("7", {"kind": "all", "checks": [{"kind": "numeric", "value": 7}, {"kind": "words", "most": 1}]}, True),
    ],
)
def test_an_answer_is_judged_by_its_check(answer: str, wanted: dict[str, object], passes: bool) -> None:
    assert check(answer, wanted).passed is passes


@pytest.mark.parametrize(
    "wanted",
    [
        {"kind": "nothing"},
        {"kind": "exact"},
        {"kind": "regex", "pattern": "(?=a)b"},
        {"kind": "regex", "pattern": "("},
        {"kind": "regex", "pattern": "a)(b"},
        {"kind": "regex", "pattern": r"(a)\1"},
        {"kind": "regex", "pattern": "a{1000}{1000}"},
        {"kind": "regex", "pattern": "a" * 501},
        {"kind": "regex", "pattern": 5},
        {"kind": "includes"},
        {"kind": "code", "cases": [[[1], 1]], "function": "os.system"},
        {"kind": "all", "checks": [{"kind": "nothing"}]},
    ],
)
def test_a_check_that_cannot_be_run_is_refused(wanted: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        check("x", wanted)
    assert caught.value.code == "bad_check"


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*)(.*)(.*)(.*)(.*)(.*)b", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_a_catastrophic_pattern_runs_in_linear_time(pattern: str) -> None:
    answer = "a" * 60_000 + "\ud800!"
    assert not check(answer, {"kind": "regex", "pattern": pattern}).passed  # by backtracking it would take years


def test_code_and_json_are_found_in_an_answer() -> None:
    assert code_in("Sure:\n```python\nx = 1\n```\nand\n```\ny = 2\n```") == "x = 1\n\ny = 2\n"
    assert code_in("x = 1") == "x = 1"
    assert json_in('```json\n{"a": 1}\n```') == {"a": 1}


def test_code_is_judged_by_its_results_in_a_sandbox(need_tool: Callable[..., str]) -> None:
    need_tool("bwrap", package="bubblewrap")
    box = sandbox("bubblewrap")
    wanted = {"kind": "code", "function": "double", "cases": [[[2], 4], [[0], 0], [["ab"], "abab"]]}
    assert check("def double(x):\n    print('chatter')\n    return 2 * x", wanted, box).passed
    half = check("def double(x):\n    return 4 if x == 2 else None", wanted, box)
    assert (half.status, round(half.score, 2)) == ("failed", 0.33)
    # The expected results are not in the sandbox, so a program cannot print them to pass.
    for cheat in ("print('{\"value\": 4}')\nraise SystemExit(0)", "import os\nos._exit(0)", "def double(x): return x"):
        assert check(cheat, wanted, box).status == "failed"
    brief = Limits(wall_s=5, cpu_s=0.5, memory_bytes=256 << 20, processes=8)
    assert check("def double(x):\n    while True: pass", wanted, box, brief).status == "timeout"
    assert check("def double(x): return 2 * x", wanted).status == "error"  # without a sandbox there is no verdict


@pytest.mark.slow
def test_every_check_of_the_corpus_accepts_its_good_answer_and_rejects_its_bad_one(
    need_tool: Callable[..., str],
) -> None:
    need_tool("bwrap", package="bubblewrap")
    prompts = corpus()
    assert {prompt.kind for prompt in prompts} == set(CLASSES)
    assert validated(prompts, sandbox("bubblewrap")) == []


def test_the_simple_tasks_are_different_checkable_and_equal_in_number(need_tool: Callable[..., str]) -> None:
    need_tool("bwrap", package="bubblewrap")
    made = simple_tasks()
    assert Counter(task.kind for task in made) == dict.fromkeys(CLASSES, 12)
    assert len({task.text for task in made}) == 84
    assert all(all(allowed(task.text)) for task in made)
    assert validated(made[:14], sandbox("bubblewrap")) == []


# The real-model mode, with a model whose answers are known


class Scripted:
    """Answers correctly if the prompt has its requirements, else 'no idea'."""

    model = "scripted"

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers, self.asked = answers, 0

    def generate(self, prompts: Sequence[Asked]) -> list[Completion]:
        self.asked += len(prompts)
        return [self._reply(prompt.turns[0].content) for prompt in prompts]

    def _reply(self, text: str) -> Completion:
        own = next(key for key in self.answers if text.startswith(key))
        helped = any(line in text for line in HEADINGS["constraint-addition"])
        reply = self.answers[own] if helped else "no idea"
        return Completion(text=reply, tokens=(1,) * 10, logprob_model=(), logprob_acting=(), finish="stop",
                          prompt_tokens=(1,) * 40)  # fmt: skip

    def stream(self, prompt: Asked) -> Iterator[Delta]:
        raise AssertionError(prompt)

    def score(self, prompt: Asked, reply: str | Sequence[int], *, ended: bool = False) -> Scored:
        raise AssertionError(prompt)


def test_a_mutation_earns_the_checked_result_and_a_text_is_sent_once() -> None:
    prompts = [task for task in simple_tasks()[:28] if not task.needs_sandbox]
    model = Scripted({prompt.text: prompt.good for prompt in prompts})
    outcomes = Outcomes(model, sandbox("process"))
    world = PromptsWorld(8, prompts, HashingEncoder(64), outcomes, most_steps=1)
    world.reset(seed=1)
    _, rewards, over, _, info = world.step(np.full(8, MUTATIONS.index("constraint-addition")))
    assert rewards == pytest.approx(1.0 - 50 * TOKEN_COST)
    assert over.all()
    assert info["solved"].all()
    _, rewards, _, _, _ = world.step(np.full(8, MUTATIONS.index("expansion")))
    assert rewards == pytest.approx(-50 * TOKEN_COST)
    before = model.asked
    outcomes.ask([(prompt, text) for (key, text) in outcomes.known for prompt in prompts if prompt.id == key])
    assert model.asked == before


def test_an_answer_that_cannot_be_checked_is_an_error_and_not_a_failure() -> None:
    class Broken:
        name = "broken"

        def run(self, *_: object, **__: object) -> Result:
            return Result(status="error", why="no engine")

    prompt = simple_tasks()[0]
    outcomes = Outcomes(Scripted({prompt.text: prompt.good}), Broken())
    with pytest.raises(Unavailable, match="no engine"):
        outcomes.outcome(prompt, prompt.text)


# The world


def test_the_same_seed_gives_the_same_prompts_and_parts_share_none() -> None:
    train, test = examples("train", 700, seed=1), examples("test", 210, seed=1)
    assert train == examples("train", 700, seed=1) != examples("train", 700, seed=2)
    assert not {prompt.text for prompt in train} & {prompt.text for prompt in test}
    assert all(all(allowed(prompt.text)) for prompt in (*train, *test))
    assert {prompt.kind for prompt in test} == set(CLASSES)


def test_the_optimum_equals_an_exhaustive_search() -> None:
    from itertools import permutations

    truth = Synthetic()
    for place, kind in enumerate(CLASSES):
        values = []
        for order in permutations(range(5)):
            value, alive = 0.0, 1.0
            for mutation in order:
                value += alive * (CHANCES[place, mutation] - COST[mutation])
                alive *= 1 - CHANCES[place, mutation]
            values.append(value)
        assert truth.optimum(kind) == pytest.approx(max(values))
    value, order = truth.fixed()
    assert value < truth.optimum() - 0.1
    prompts = examples("test", 70, seed=3)
    chosen = [MUTATIONS.index(name) for name in order]

    def follow(texts: object, masks: np.ndarray) -> np.ndarray:
        probabilities = np.zeros(masks.shape)
        for row, mask in enumerate(masks):
            probabilities[row, next(mutation for mutation in chosen if mask[mutation])] = 1.0
        return probabilities

    assert truth.value(follow, prompts).mean() == pytest.approx(value)


def test_episode_rewards_agree_with_the_exact_value() -> None:
    world = synthetic("test", count=128, prompts=70, seed=5)
    rng, paid = np.random.default_rng(0), []
    world.reset(seed=5)
    total = np.zeros(128)
    for _ in range(160):
        masks = world.action_masks()
        draws = np.where(masks, rng.random(masks.shape), -1.0)
        _, rewards, over, cut, _ = world.step(draws.argmax(axis=1))
        total += rewards
        paid += total[over].tolist()
        total[over] = 0.0
        assert not cut.any()
    exact = Synthetic().value(lambda _, masks: masks / masks.sum(axis=1, keepdims=True), examples("test", 70, seed=5))
    error = np.std(paid) / math.sqrt(len(paid))
    assert abs(np.mean(paid) - exact.mean()) < 6 * error + 1e-3


def test_a_world_gives_embeddings_masks_and_final_observations() -> None:
    encoder = HashingEncoder(64)
    world = PromptsWorld(8, examples("train", 70, seed=1), encoder, Synthetic())
    observations, info = world.reset(seed=3)
    assert observations.shape == (8, 64)
    assert info == {}
    assert world.action_masks().all()
    again = PromptsWorld(8, examples("train", 70, seed=1), encoder, Synthetic())
    assert (again.reset(seed=3)[0] == observations).all()
    for step in range(12):
        actions = world.action_masks().argmax(axis=1)
        ours, theirs = world.step(actions), again.step(actions)
        assert (ours[0] == theirs[0]).all(), step
        assert (ours[1] == theirs[1]).all(), step
        if ours[2].any():
            assert np.abs(ours[4]["final_obs"][ours[2]]).sum() > 0
            assert (ours[4]["_final_obs"] == ours[2]).all()
    masks = world.action_masks()
    assert masks.any(axis=1).all()


def test_an_episode_has_at_most_five_mutations_and_a_masked_one_solves_nothing() -> None:
    world = synthetic("train", count=4, prompts=7, seed=1)
    world.reset(seed=1)
    world.step(np.zeros(4, dtype=np.int64))
    longest, steps = 0, np.ones(4)
    for _ in range(200):
        _, _, over, _, _ = world.step(np.zeros(4, dtype=np.int64))  # no-ops, once the first was applied
        steps += 1
        longest = max(longest, int(steps[over].max(initial=0)))
        steps[over] = 0
    assert longest == 5


@pytest.mark.parametrize("answer", ["9" * 5000, "1e999999", "[" * 64_000, '{"a":' * 30_000, "[" * 900 + "]" * 900])
@pytest.mark.parametrize(
    "wanted",
    [
        {"kind": "numeric", "value": 3},
        {"kind": "json", "schema": {"type": "object"}},
        {"kind": "exact", "value": "blue"},
        {"kind": "includes", "all": ["blue"]},
        {"kind": "all", "checks": [{"kind": "json", "schema": {"type": "object"}}, {"kind": "words", "most": 3}]},
    ],
    ids=lambda wanted: str(wanted["kind"]),
)
def test_answers_that_overflow_or_nest_are_failures(answer: str, wanted: dict[str, object]) -> None:
    assert check(answer, wanted).status == "failed"


@pytest.mark.parametrize("source", ["return 10 ** 400", "return 1e308 * 10", "return eval('[' * 90 + ']' * 90)"])
def test_values_that_overflow_or_nest_are_failures(source: str) -> None:
    wanted = {"kind": "code", "function": "f", "cases": [[[], 1.5]]}
    assert check(f"def f():\n    {source}", wanted, sandbox("process")).status == "failed"


def test_a_check_that_failed_decides_where_another_could_not_run() -> None:
    code = {"kind": "code", "function": "f", "cases": [[[], 1]]}
    wanted = {"kind": "all", "checks": [code, {"kind": "exact", "value": "blue"}]}
    assert check("red", wanted).status == "failed"
    assert check("blue", wanted).status == "error"
