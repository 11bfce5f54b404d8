"""Three minutes of the demo, on a clock that the benchmark moves: is every number that it shows possible and true?

    python benchmarks/demo_truth.py --seeds 20 --json [--quick]

The demo's own settings, users and story run against the shipped loop. After every ten seconds of demo time, all stored
evidence, verdict sentences, pages, curves, alarms, the experiment and the sentence about money and quality are read, as
`status`, `prove`, the page and `experiment` show them. Counted are numbers outside of the range of the rewards, bounds
that do not hold their estimate or contradict their verdict, sentences that say more than the bounds, and bounds that do
not hold the true difference, which only the sample world knows (until the vendor's model degrades: then there is no one
true difference). 95% intervals may miss the truth in 5%: how often they hold it is counted, not expected.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import msgspec
import numpy as np
from _contract import arguments, finish, say

from headway.kits import report
from headway.kits.demo import traffic
from headway.kits.demo.planted import plant, prepare
from headway.kits.demo.routing import RoutingPrompt, two_arms
from headway.loop.watch import Watch
from headway.loop.when import Machine
from headway.nouns import ids
from headway.nouns.errors import HeadwayError
from headway.nouns.evidence import Verdict
from headway.nouns.worth import TaskWorth, money
from headway.project import Project

RATES = {"route": 24, "draft": 20}  # decisions per second, as in the demo
PROBES = 400
MONEY_PROBES = 10_000  # with 2,000, the truth would be as uncertain as the interval of savings is wide
MOST_SAVED = 1000.0 * (traffic._COST_USD["large"] - traffic._COST_USD["small"]) + 1e-9  # per 1,000 requests
AT_LEAST = re.compile(r"(better|worse)[^:]*: about [^;]+; certainly (?:more|less) than [+-]([0-9]+\.[0-9]+)")
SIGNED = re.compile(r"[+−-][0-9]+\.[0-9]+")
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Clock:
    now = 1.75e9

    def __call__(self) -> float:
        return self.now


class Story(traffic.Demo):
    """The demo's users and its story, without HTTP."""

    def __init__(self, folder: Path, client: Project, seed: int) -> None:
        super().__init__(folder, "", lambda _line: None, seed=seed)
        self.client = client

    def _ask_gate(self) -> None:
        try:
            verdict = self.client.prove(self._planted, task="route")
        except HeadwayError:  # nothing can be said about it yet
            return
        if verdict.state in ("refused", "worse"):
            self._once("refused", "")

    def _give_share(self) -> None:
        self.client.canary(self._planted, share=0.2, task="route", who="demo")
        self._once("canary", "")

    def _plant(self) -> str:
        return plant(self.client)


class Play:
    """One run of the demo, and what was wrong with what it showed."""

    def __init__(self, seed: int) -> None:
        self.seed, self.clock = seed, Clock()
        self.rng = np.random.default_rng([seed, 5])
        self.folder = Path(tempfile.mkdtemp(prefix="demo-truth-", dir=FOLDER))
        self.wrong: Counter[str] = Counter()
        self.seen: set[str] = set()
        self.events: set[str] = set()
        self.values: dict[tuple[str, str], float] = {}
        self.kept: dict[tuple[str, str, str], dict[str, float]] = {}
        prepare(self.folder)
        self.prompts = {task: iter(two_arms().sample(20_000, seed * 7 + place)) for place, task in enumerate(RATES)}

    def run(self, seconds: int) -> None:
        watch = Watch(
            self.folder,
            clock=self.clock,
            timed=False,
            environ={},
            machine=lambda _folder: Machine(),
        )
        with watch, Project(self.folder, environ={}, clock=self.clock, seed=self.seed) as client:
            story = Story(self.folder, client, self.seed)
            for second in range(seconds):
                for task, rate in RATES.items():
                    self.second(client, story, task, rate)
                for check in watch.check():
                    if check.error:
                        self.note("loop error", str(check.error))
                client.servings.refresh()
                rows = [msgspec.to_builtins(entry) for task in RATES for entry in client.ledger.entries(task)]
                asyncio.run(story._follow(rows))
                if second % 10 == 9:
                    self.look(client, degraded="degraded" in story.events)
            self.events = story.events
        shutil.rmtree(self.folder, ignore_errors=True)

    def second(self, client: Project, story: Story, task: str, rate: int) -> None:
        """The decisions of one second, and their outcomes."""
        considered, prompts = [], []
        for _ in range(rate):
            prompt = next(self.prompts[task])
            self.clock.now += 1.0 / (rate * len(RATES))
            more: dict[str, Any] = {"state": dict(prompt.state)} if task == "route" else {}
            name = ids.decision(self.clock.now, self.rng.bytes(8))
            considered.append(client.consider(task, prompt.text, None, id=name, role=prompt.role, **more))
            prompts.append(prompt)
        signals = []
        for made, prompt in zip(client.submit(considered).result(), prompts, strict=True):
            signals += client.checked_signals(made.id, story._outcome(task, prompt, made.action), at=self.clock.now)
        client.submit_signals(signals).result()

    # -- what is shown

    def look(self, client: Project, *, degraded: bool) -> None:
        for status in client.status().tasks:
            width = self.width(client, status.task)
            if status.verdict is not None:
                self.sentence(status.verdict.text, width, None)
            for text in (status.next.why, *status.warnings, *([status.verdict.text] if status.verdict else [])):
                self.signed(text, width)
            for alarm in status.alarms:
                low, high = client.rewards(status.task).range or (0.0, 1.0)
                self.expect(all(low <= mean <= high for mean in (alarm.before, alarm.after)), "alarm", str(alarm))
            if status.worth is not None:
                self.worth(status.worth, status.task, degraded=degraded and status.task == "draft")
            state = client.experiment(status.task)
            if state is not None and state.difference is not None and state.interval is not None:
                low, high = state.interval
                self.expect(-width <= low <= state.difference <= high <= width, "experiment", str(state))
        for identifier, task, _, _ in client.ledger.evidences(None, 1000):
            if identifier not in self.seen:
                self.seen.add(identifier)
                self.evidence(client, identifier, self.width(client, task), degraded=degraded and task == "draft")

    def width(self, client: Project, task: str) -> float:
        low, high = client.rewards(task).range or (0.0, 1.0)
        return high - low

    def evidence(self, client: Project, identifier: str, width: float, *, degraded: bool) -> None:
        judged, verdict = client.report(identifier), client.verdict(identifier)
        document, evidence = judged.document(), judged.evidence
        self.sentence(judged.page.headline, width, verdict)
        for text in (*judged.page.reasons, judged.page.summary):
            self.signed(text, width)
        for page in (report.text(verdict), report.markdown(verdict), report.html(verdict)):
            self.expect("inf" not in re.findall(r"[a-z]+", page) and "nan" not in page.lower().split(), "page", page)
        if document["bounds"] is None:
            self.expect(verdict.disowned or evidence.kind == "preference" or not evidence.n, "no bounds", identifier)
            return
        (low, high), value = document["bounds"], document["difference"]["value"]
        self.expect(-width <= low <= value <= high <= width, "bounds", f"{low} {value} {high}")
        self.expect(evidence.consistent(), "contradiction", identifier)
        for line in judged.page.values:
            shown = line.estimate
            assert shown is not None
            self.expect(-width <= shown.low <= shown.value <= shown.high <= width, f"value of {line.name}", line.text)
        if verdict.state == "pass":
            said = low > evidence.margin or "does not say by how much" in judged.page.headline
            self.expect(low >= evidence.margin and said, "better without a bound above the margin", f"{low}")
        if verdict.state == "worse":
            self.expect(high < 0.0, "worse without a bound below 0", f"{high}")
        for n, mean, below, above in judged.page.curve:
            self.expect(-width <= below <= mean + 1e-9 and mean <= above + 1e-9 <= width + 1e-6, "curve", f"{n} {mean}")
        if not degraded:
            truth = self.value(evidence.task, evidence.candidate) - self.value(evidence.task, evidence.against)
            self.wrong["bounds compared with the truth"] += 1
            self.expect(low - 1e-3 <= truth <= high + 1e-3, "bounds miss the truth", f"{low} {truth} {high}")

    def sentence(self, text: str, width: float, verdict: Verdict | None) -> None:
        for side, number in AT_LEAST.findall(text):
            self.expect(0.0 < float(number) <= width, "sentence outside the range", text)
            if verdict is not None and verdict.evidence is not None:
                least = verdict.evidence.proven(side)
                self.expect(least is not None and abs(float(number) - least) < 1e-3, "sentence is not the bound", text)

    def signed(self, text: str, width: float) -> None:
        for number in SIGNED.findall(text):
            self.expect(abs(float(number.replace("−", "-"))) <= width + 1e-9, "number outside the range", text)

    def worth(self, worth: TaskWorth, task: str, *, degraded: bool) -> None:
        """The sentence about money and quality: possible numbers, the same as in the record, and close to the truth."""
        shown = {"saved": worth.saved, "ratio": worth.ratio, "gap": worth.gap}
        for name, measure in shown.items():
            if measure is None:
                continue
            least, most = {"saved": (-MOST_SAVED, MOST_SAVED), "ratio": (0.0, 2.0), "gap": (-1.0, 1.0)}[name]
            self.expect(least <= measure.value <= most, f"{name} impossible", worth.text)
            self.expect(measure.low <= measure.value <= measure.high, f"{name} outside its interval", worth.text)
            number = f"{measure.value:.0%}" if name == "ratio" else money(abs(measure.value), "")
            self.expect(name == "gap" or number in worth.text, f"{name} not in the sentence", worth.text)
            if not degraded:
                truth = self.earns(task, worth.policy, worth.against)[name]
                self.wrong[f"95% intervals: {name}"] += 1
                self.wrong[f"95% intervals that hold the truth: {name}"] += measure.low <= truth <= measure.high

    def expect(self, right: bool, what: str, detail: str) -> None:
        self.wrong["numbers checked"] += 1
        if not right:
            self.note(what, detail)

    def note(self, what: str, detail: str) -> None:
        self.wrong[what] += 1
        say(f"  seed {self.seed}: {what}: {detail[:300]}")

    # -- what is true

    def value(self, task: str, policy: str) -> float:
        """The exact mean reward of a policy on fresh prompts."""
        known = self.values.get((task, policy))
        if known is None:
            with Project(self.folder, environ={"HEADWAY_POLICY": policy}, clock=self.clock, seed=0) as project:
                known = float(np.mean([self.earned(project, task, prompt) for prompt in two_arms().sample(PROBES, 99)]))
            self.values[task, policy] = known
        return known

    def earns(self, task: str, policy: str, against: str) -> dict[str, float]:
        """What the policy saves per 1,000 requests and keeps of the quality, against always taking one action."""
        known = self.kept.get((task, policy, against))
        if known is None:
            with Project(self.folder, environ={"HEADWAY_POLICY": policy}, clock=self.clock, seed=0) as project:
                rows = [self.parts(project, task, prompt, against) for prompt in two_arms().sample(MONEY_PROBES, 98)]
            cost, quality, fixed_cost, fixed_quality = np.mean(rows, axis=0).tolist()
            known = self.kept[task, policy, against] = {
                "saved": 1000.0 * (fixed_cost - cost), "ratio": quality / fixed_quality, "gap": quality - fixed_quality,
            }  # fmt: skip
        return known

    @classmethod
    def parts(cls, project: Project, task: str, prompt: RoutingPrompt, against: str) -> tuple[float, ...]:
        """Cost and quality of the current policy, and of one action, for a prompt."""
        more: dict[str, Any] = {"state": dict(prompt.state)} if task == "route" else {}
        made = project.consider(task, prompt.text, None, role=prompt.role, **more).decision
        shares = {one.name: share for one, share in zip(made.candidates, made.probabilities, strict=True)}
        drafts = {"house": traffic._HOUSE, "vendor": traffic._VENDOR}
        costs = {name: traffic._COST_USD.get(name, 0.0) for name in shares}
        goods = drafts if task == "draft" else {name: prompt.expected(name) + 20.0 * costs[name] for name in shares}
        mean = [sum(share * each[name] for name, share in shares.items()) for each in (costs, goods)]
        return *mean, costs[against], goods[against]

    @staticmethod
    def earned(project: Project, task: str, prompt: RoutingPrompt) -> float:
        more: dict[str, Any] = {"state": dict(prompt.state)} if task == "route" else {}
        made = project.consider(task, prompt.text, None, role=prompt.role, **more).decision
        drafts = {"house": traffic._HOUSE, "vendor": traffic._VENDOR}
        return sum(
            probability * (drafts[one.name] if task == "draft" else prompt.expected(one.name))
            for one, probability in zip(made.candidates, made.probabilities, strict=True)
        )


def main() -> None:
    parser = arguments((__doc__ or "").partition("\n")[0], seeds=20)
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    asked = parser.parse_args()
    total: Counter[str] = Counter()
    for seed in range(asked.first, asked.first + (2 if asked.quick else asked.seeds)):
        play = Play(seed)
        play.run(60 if asked.quick else 180)
        total += play.wrong
        say(f"seed {seed}: {len(play.seen)} proofs, {sorted(play.events)}, {dict(play.wrong)}")
    finish(
        "demo_truth", {name.replace(" ", "_"): float(count) for name, count in total.items()}, {}, as_json=asked.json
    )


if __name__ == "__main__":
    main()
