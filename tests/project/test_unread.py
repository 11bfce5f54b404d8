"""No decision that a policy was trained on is evidence about it, whatever happens to the decision later."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as some

from headway.kits.data.exporter import ExportFilter, export
from headway.nouns import Floats
from headway.nouns.errors import HeadwayError, InvalidInput
from headway.observe import experience
from headway.observe.erase import DeletionFilter
from headway.observe.experience import Recorded, part_of
from headway.observe.frame import Block
from headway.project import Project
from headway.project.alarm import AlarmDetail, raise_alarm
from headway.project.prove.unread import Unread

ARMS = ["small", "large"]
STORE = '[store]\ndurability = "process"\n'
TOML = f"""{STORE}
[tasks.route]
actions = ["small", "large"]
reward = {{ solved = WEIGHT, kind = 0.5, reward = 1.0 }}
required = []
gate = "off"
"""


@dataclass
class Traffic:
    """A project under a clock of its own, and the ids of what its learners really read."""

    folder: Path
    project: Project
    clock: list[float]
    ids: list[str] = field(default_factory=list)
    read: dict[str, set[str]] = field(default_factory=dict)  # by policy
    reading: set[str] = field(default_factory=set)
    tick: float = 1.0  # seconds between two steps; 0: a clock that stands still, so that no date tells anything

    def decide(self, n: int = 1, **details: Any) -> list[str]:
        made = []
        for _ in range(n):
            self.clock[0] += self.tick
            text = details.pop("text", f"ask {len(self.ids) + len(made)}")
            made.append(self.project.decide("route", text, **details).id)
        self.ids += made
        return made

    def rate(self, identifier: str, *, rater: str = "", **signals: float) -> None:
        self.clock[0] += self.tick
        if self.project.query.find(identifier) is not None:
            self.project.signal(identifier, signals, rater=rater)

    def play(self, n: int) -> list[str]:
        made = self.decide(n)
        for place, identifier in enumerate(made):
            self.rate(identifier, solved=place % 7 / 7)
        return made

    def learn(self) -> str:
        self.clock[0] += self.tick
        self.reading.clear()
        ref = f"bandit@{self.project.registry.find(self.project.learn('route'))}"  # whole: it stays unambiguous
        self.read.setdefault(ref, set()).update(self.reading)
        return ref

    def weigh(self, weight: float) -> None:
        """Redefine the reward and derive all of them again."""
        self.project.close()
        (self.folder / "headway.toml").write_text(TOML.replace("WEIGHT", str(weight)))
        self.project = opened(self.folder, self.clock)
        self.project.rescore("route")

    def import_again(self, which: str) -> None:
        """Export everything, delete one decision, and import the file."""
        if not self.tick:
            return
        path = self.folder / "all.jsonl"
        export(self.project.database, self.project.query, path, ExportFilter(), now=self.clock[0], overwrite=True)
        if self.project.query.find(which) is not None:
            self.project.erase(DeletionFilter(decision=which), rewrite=False)
        self.clock[0] += self.tick
        self.project.import_file(path)

    def speaking(self, ref: str, other: str = "uniform@0") -> set[str]:
        project = self.project
        project.settle("route")
        task = project.settings.task("route")
        unread = Unread(project, task, project.servings.resolve(task, ref), project.servings.resolve(task, other))
        rows = project.query.settled("route")
        return {row.decision.id for row in rows if unread.speaks(row.decision, row.first)}


def opened(folder: Path, clock: list[float]) -> Project:
    return Project(folder, environ={}, seed=3, clock=lambda: clock[0])


@contextmanager
def watched_traffic(folder: Path) -> Iterator[Traffic]:
    (folder / "headway.toml").write_text(TOML.replace("WEIGHT", "1.0"))
    clock = [1_790_000_000.0]
    traffic = Traffic(folder, opened(folder, clock), clock)
    blocks = Recorded._blocks

    def watched(self: Recorded, parts: Sequence[str]) -> Iterator[tuple[Block, Floats]]:
        for block, weight in blocks(self, parts):
            traffic.reading |= {traffic.project.query.by_seq(seq).id for seq in block.seq.tolist()}
            yield block, weight

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorded, "_blocks", watched)
        patch.setattr(experience, "FEW_GROUPS", 12)  # so that a sequence gets beyond it
        try:
            yield traffic
        finally:
            traffic.project.close()


@pytest.fixture
def traffic(tmp_path: Path) -> Iterator[Traffic]:
    with watched_traffic(tmp_path) as made:
        yield made


# -- whatever happens to a decision


@pytest.mark.parametrize("tick", [1.0, 0.0])
def test_rewards_rescored_completed_and_rated_after_training_add_no_row(traffic: Traffic, tick: float) -> None:
    traffic.tick = tick
    made = traffic.play(60)
    policy = traffic.learn()
    before = traffic.speaking(policy)
    assert len(traffic.read[policy]) > 20
    assert len(before) > 10
    assert before.isdisjoint(traffic.read[policy])
    for identifier in made[::3]:
        traffic.rate(identifier, kind=1.0, rater="ann")  # completed
    for identifier in made[1::3]:
        traffic.rate(identifier, solved=0.9)  # rated again
    assert traffic.speaking(policy) == before
    traffic.weigh(2.0)
    assert traffic.speaking(policy) == before
    for identifier in made[::2]:
        traffic.project.withdraw(identifier, "solved")
        traffic.speaking(policy)
        traffic.rate(identifier, solved=0.1)
    assert traffic.speaking(policy) == before
    traffic.project.erase(DeletionFilter(rater="ann"), rewrite=False)
    assert traffic.speaking(policy) == before
    for identifier in sorted(traffic.read[policy])[:5]:
        traffic.import_again(identifier)
    assert traffic.speaking(policy) == before
    assert traffic.speaking(policy) | set(traffic.play(9)) == traffic.speaking(policy), "what is new speaks"


ACTS = ("decide", "decide", "rate", "rate again", "learn", "learn", "rescore", "withdraw", "forget a rater", "delete",
        "import again")  # fmt: skip
STEPS = some.lists(some.tuples(some.sampled_from(ACTS), some.integers(0, 30)), min_size=6, max_size=18)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, tick=some.sampled_from([1.0, 0.0]))
def test_no_sequence_lets_a_decision_speak_for_a_policy_that_read_it(steps: list[tuple[str, int]], tick: float) -> None:
    with TemporaryDirectory() as folder, watched_traffic(Path(folder)) as traffic:
        traffic.tick = tick
        traffic.play(8)
        for what, number in steps:
            _do(traffic, what, number)
        policies = list(traffic.read)
        for policy, other in pairwise([*policies, "uniform@0"]):
            speaking = traffic.speaking(policy, other)
            assert speaking.isdisjoint(traffic.read[policy])
            assert speaking.isdisjoint(traffic.read.get(other, ()))


def _do(traffic: Traffic, what: str, number: int) -> None:
    project, which = traffic.project, traffic.ids[number % len(traffic.ids)]
    match what:
        case "decide":
            traffic.play(1 + number % 5)
        case "rate":
            traffic.rate(which, kind=number / 30, rater="ann")
        case "rate again":
            traffic.rate(which, solved=number / 30)
        case "learn":
            with suppress(InvalidInput):  # there may be nothing to learn yet
                traffic.learn()
        case "rescore":
            traffic.weigh(1.0 + number)
        case "withdraw":
            with suppress(HeadwayError):  # it may be deleted, or have no such signal
                project.withdraw(which, "solved")
        case "forget a rater":
            with suppress(HeadwayError):
                project.erase(DeletionFilter(rater="ann"), rewrite=False)
        case "delete":
            with suppress(HeadwayError):
                project.erase(DeletionFilter(decision=which), rewrite=False)
        case "import again":
            traffic.import_again(which)


@pytest.mark.kits("formats")
def test_rows_without_a_date_that_are_imported_again_do_not_speak(traffic: Traffic) -> None:
    path = traffic.folder / "history.jsonl"
    rows = [{"prompt": f"ask {n}", "pick": ARMS[n % 2], "p": 0.5, "solved": n % 3 / 3} for n in range(60)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    columns = {"text": "prompt", "action": "pick", "propensity": "p", "reward": "solved"}
    project = traffic.project

    def import_all() -> None:
        traffic.clock[0] += 10.0
        assert project.import_file(path, task="route", columns=columns, candidates=ARMS).rejected == 0

    import_all()
    policy = traffic.learn()
    before = traffic.speaking(policy)
    assert traffic.read[policy]
    assert before
    for identifier in traffic.read[policy]:
        project.erase(DeletionFilter(decision=identifier), rewrite=False)
    import_all()
    assert traffic.speaking(policy) == before


def test_a_bundle_that_the_ledger_does_not_know_is_judged_by_the_part_it_never_reads(
    traffic: Traffic, tmp_path: Path
) -> None:
    traffic.play(40)
    policy = traffic.learn()
    digest = traffic.project.registry.find(policy)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    with watched_traffic(folder) as other:
        other.play(80)
        shutil.copytree(traffic.project.registry.root / digest, other.project.registry.root / digest)
        by = other.project.registry.header(digest).split["by"]
        other.project.settle("route")
        held_out = {row.decision.id for row in other.project.query.settled("route")
                    if part_of(row.decision, by) == "prove"}  # fmt: skip
        assert other.speaking(policy) == held_out


# -- a policy that learns online


def live(traffic: Traffic, epsilon: float = 0.2) -> str:
    """A project whose current policy learns online; the reference of its first state."""
    traffic.project.close()
    toml = TOML.replace("WEIGHT", "1.0") + f'online = "live"\nexplore = {{ kind = "epsilon", value = {epsilon} }}\n'
    (traffic.folder / "headway.toml").write_text(toml)
    traffic.project = opened(traffic.folder, traffic.clock)
    current = traffic.project.ledger.current("route")
    return "" if current is None else current.policy


def folded(traffic: Traffic, rounds: int) -> list[str]:
    """Decisions of a policy that is folded after every tenth."""
    made = []
    for _ in range(rounds):
        made += traffic.play(10)
        traffic.project.fold("route")
    return made


def test_a_policy_that_learns_online_counts_as_it_stood_at_the_time(traffic: Traffic) -> None:
    live(traffic)
    early = traffic.play(60)
    origin = traffic.learn()
    traffic.project.promote(origin)
    own = folded(traffic, 4)
    candidate = traffic.learn()
    project = traffic.project
    task = project.settings.task("route")
    assert project.ledger.current("route").kind == "snapshot"  # type: ignore[union-attr]
    speaking = traffic.speaking(candidate, "current")
    assert speaking <= set(own), "what the snapshot has read speaks only where it decided itself"
    assert speaking, "and there it does"
    assert speaking.isdisjoint({*early, *traffic.read[candidate]})
    unread = Unread(project, task, project.servings.resolve(task, "current"), project.servings.resolve(task, candidate))
    mine = [project.query.decision(identifier) for identifier in own]
    assert unread.candidate_stood(mine) == [decision.probabilities for decision in mine]
    assert not any(unread.candidate_stood([project.query.decision(identifier) for identifier in early]))
    guarding = traffic.speaking("current", "uniform@0")
    assert guarding == set(own), "a guard judges it by its own decisions"


def test_the_share_of_a_canary_is_taken_out(traffic: Traffic) -> None:
    live(traffic)
    traffic.play(40)
    origin = traffic.learn()
    traffic.project.promote(origin)
    folded(traffic, 2)
    candidate = traffic.learn()
    project = traffic.project
    project.canary(candidate, share=0.25)
    task = project.settings.task("route")
    state = project.servings.resolve(task, "current")
    alone = project.servings.pipeline("route", project.servings.body(task), *state)
    made = traffic.play(20)
    project.fold("route")
    unread = Unread(project, task, project.servings.resolve(task, "current"), project.servings.resolve(task, candidate))
    decisions = [project.query.decision(identifier) for identifier in made]
    for decision, stood in zip(decisions, unread.candidate_stood(decisions), strict=True):
        expected = alone.distributions([decision.situation], decision.candidates, [decision.seed])[0]
        assert stood == pytest.approx(expected, abs=1e-12)
        assert decision.probabilities != pytest.approx(expected, abs=1e-12) or expected == pytest.approx(
            decision.probabilities
        )


def test_decisions_under_another_configuration_do_not_speak_for_it(traffic: Traffic) -> None:
    live(traffic)
    traffic.play(40)
    origin = traffic.learn()
    traffic.project.promote(origin)
    own = folded(traffic, 3)
    candidate = traffic.learn()
    assert traffic.speaking(candidate, "current") & set(own)
    live(traffic, epsilon=0.01)
    assert not traffic.speaking(candidate, "current")


# -- parts


@pytest.mark.parametrize("states", [3, 1])
def test_a_task_with_few_states_and_no_text_is_learned_and_proven_in_each_of_them(tmp_path: Path, states: int) -> None:
    (tmp_path / "headway.toml").write_text(f'{STORE}[tasks.route]\nactions = ["small", "large"]\n')
    with Project(tmp_path, environ={}, seed=3) as project:
        best = {0: "large", 1: "small", 2: "large"}
        for number in range(900):
            state = {"kind": number % states} if states > 1 else {}
            pick = project.decide("route", "", state=state)
            project.signal(pick.id, reward=float(pick.action == best[number % states]))
        policy = project.learn("route")
        header = project.registry.header(project.registry.find(policy))
        assert header.split["by"] == "decision"
        parts: dict[str, Counter[str]] = {}
        for row in project.query.settled("route"):
            parts.setdefault(str(row.decision.situation.state), Counter())[part_of(row.decision, "decision")] += 1
        assert len(parts) == states
        assert all(min(counts[part] for part in ("train", "tune", "prove")) > 10 for counts in parts.values())
        verdict = project.prove(policy)
        assert verdict.passed, verdict.reasons
        assert verdict.evidence.n >= 200  # type: ignore[union-attr]


def test_a_bundle_from_before_keeps_its_split_by_group(traffic: Traffic) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experience, "FEW_GROUPS", 0)
        for _ in range(5):
            for text in ("one", "two", "three", "four", "five", "six"):
                (made,) = traffic.decide(text=text)
                traffic.rate(made, solved=0.5)
        policy = traffic.learn()
    header = traffic.project.registry.header(traffic.project.registry.find(policy))
    assert header.split["by"] == "group"
    rows = {row.decision.id: part_of(row.decision) for row in traffic.project.query.settled("route")}
    assert traffic.speaking(policy) == {name for name, part in rows.items() if part == "prove"}
    assert traffic.speaking(policy).isdisjoint(traffic.read[policy])


def test_the_wider_exploration_of_an_alarm_is_taken_out(traffic: Traffic) -> None:
    live(traffic)
    traffic.play(40)
    traffic.project.promote(traffic.learn())
    folded(traffic, 2)
    candidate = traffic.learn()
    project = traffic.project
    project.canary(candidate, share=0.25)
    detail: AlarmDetail = {
        "stream": "all", "action": "", "segment": "", "since": 0.0, "from_decision": 60, "before": 0.8,
        "after": 0.4, "rows": [60, 20], "explore": 0.4,
    }  # fmt: skip
    raise_alarm(project, "route", detail, who="test")
    task = project.settings.task("route")
    state = project.servings.resolve(task, "current")
    alone = project.servings.pipeline("route", project.servings.body(task), *state)
    made = traffic.play(20)
    project.fold("route")
    unread = Unread(project, task, project.servings.resolve(task, "current"), project.servings.resolve(task, candidate))
    decisions = [project.query.decision(identifier) for identifier in made]
    for decision, stood in zip(decisions, unread.candidate_stood(decisions), strict=True):
        assert "floor 0.4" in decision.exploration
        expected = alone.distributions([decision.situation], decision.candidates, [decision.seed])[0]
        assert stood == pytest.approx(expected, abs=1e-9)
