"""Live comparison: the same prompts under two policies, against real upstreams, paired, interleaved, repeated.

Each prompt is asked once per policy and repetition, in an order drawn from the seed, so that a model server slows
down or warms up for both alike. The unit of every interval is the prompt: repetitions of one are averaged first.

One request to one upstream, with its cost: for comparisons with real models.

The proxy streams and fails over; this sends one request, waits and measures.
`headway.kits.models.outgoing` makes the calls.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from headway.files import read_regular
from headway.kits.models import ChatEndpoint
from headway.nouns import Candidate, Progress, errors, ids
from headway.observe import Redactor
from headway.project import Ask, Details, recorded
from headway.settings import Settings

if TYPE_CHECKING:
    from headway.decide import Pipeline
    from headway.kits.sandbox import Sandbox
    from headway.project import Project

Side = Literal["policy", "against"]
SIDES: tuple[Side, Side] = ("policy", "against")
_MOST_UNJUDGED = 0.01  # of a policy's checked answers
_BY_CHECKS = ("reward", "score", "solved")  # metrics
_FIELDS = {"id", "text", "state", "role", "check"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTask:
    """One prompt; `check` is the check of its answer (headway.kits.sandbox.checks)."""

    id: str
    text: str
    state: Mapping[str, Any]
    role: str
    check: Mapping[str, Any] | None


def read_tasks(path: Path) -> list[LiveTask]:
    """Prompts from a JSONL file, one object a line; an error names the first bad line and the expected form."""
    tasks: dict[str, LiveTask] = {}
    try:
        lines = read_regular(path).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInput(
            f"{str(path)!r} cannot be read: {error}.", code="bad_tasks", hint="Name a JSONL file in UTF-8."
        ) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = _task_row(path, number, line)
        name = str(row.get("id") or f"line {number}")
        if name in tasks:
            raise _bad(path, number, f"has the id {name!r} of an earlier line")
        tasks[name] = LiveTask(
            id=name,
            text=row["text"],
            state=row.get("state") or {},
            role=row.get("role") or "",
            check=row.get("check"),
        )
    if not tasks:
        raise errors.InvalidInput(
            f"{str(path)!r} holds no prompt.", code="bad_tasks", hint='One line each: {"text": "…", "check": {…}}.'
        )
    return list(tasks.values())


def _task_row(path: Path, number: int, line: str) -> dict[str, Any]:
    """A line of a file of prompts, checked."""
    from headway.kits.sandbox import validate

    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad(path, number, f"is not JSON ({error})") from error
    if not isinstance(row, dict) or not isinstance(row.get("text"), str) or not row["text"]:
        raise _bad(path, number, 'is not an object with a "text"')
    if unknown := sorted(row.keys() - _FIELDS):
        raise _bad(path, number, f"has the field {unknown[0]!r}; it may have {', '.join(sorted(_FIELDS))}")
    if row.get("check") is not None:
        try:
            validate(row["check"])
        except (errors.InvalidInput, TypeError, KeyError, AttributeError) as error:
            raise _bad(path, number, f"has an invalid check: {error}") from error
    return row


@dataclass(slots=True, kw_only=True)
class Runner:
    """Asks the remaining questions; `part` stores the answers, so that a run can be resumed."""

    project: Project
    task: str
    sides: Mapping[Side, tuple[str, Pipeline]]
    candidates: tuple[Candidate, ...]
    caller: UpstreamCaller
    sandbox: Sandbox | None
    seed: int
    max_tokens: int = 0
    temperature: float | None = None
    part: Path | None = None

    def run(self, tasks: Sequence[LiveTask], repeats: int, progress: Progress | None = None) -> list[dict[str, Any]]:
        """One row per prompt, repetition and side, in the order of the requests."""
        key = self._key(tasks, repeats)
        rows = self._kept(key)
        done = {(row["task"], row["repeat"], row["side"]) for row in rows}
        order = [(task, repeat, side) for repeat in range(repeats) for task in tasks for side in SIDES]
        Random(f"order {self.seed}").shuffle(order)
        for place, (turn, repeat, side) in enumerate(order):
            if (turn.id, repeat, side) not in done:
                row = self._one(turn, repeat, side, place)
                rows.append(row)
                if self.part is not None:
                    with self.part.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
            if progress is not None:
                progress("ask", place + 1, len(order))
        return sorted(rows, key=lambda row: int(row["order"]))

    def _one(self, task: LiveTask, repeat: int, side: Side, place: int) -> dict[str, Any]:
        from headway.kits.sandbox import check

        ref, pipeline = self.sides[side]
        details = Details(state=dict(task.state), role=task.role)
        situation = Ask(self.task, task.text, None, details).situation(Redactor())
        drawn = hashlib.sha256(f"{self.seed} {task.id} {repeat}".encode()).digest()  # both sides use the same draw
        acted = pipeline.act(situation, self.candidates, int.from_bytes(drawn[:8], "little"))
        action = self.candidates[acted.index].name
        answered = self.caller.ask(action, task.text, max_tokens=self.max_tokens, temperature=self.temperature)
        signals = _signals(answered)
        judged = "unchecked"
        if task.check is not None and not answered.failed:
            outcome = check(answered.text, task.check, self.sandbox)
            judged = outcome.status
            if judged != "error":  # a timeout is a failure
                signals |= {"solved": float(outcome.passed), "score": outcome.score}
        decision = recorded(
            situation,
            self.candidates,
            action=action,
            propensity=None,
            probabilities=tuple(acted.probabilities.tolist()),
            policy=ref,
            at=self.project.clock(),
            id=ids.decision(self.project.clock()),
            key="",
            source="synthetic",
        )
        reward = self.project.rewards(self.task).outcome(signals, age_s=float("inf"), decision=decision).reward
        return {
            "task": task.id,
            "repeat": repeat,
            "side": side,
            "order": place,
            "action": action,
            "propensity": decision.propensity,
            "judged": judged,
            "failed": answered.failed,
            "reward": reward,
            "signals": signals,
        }

    def _key(self, tasks: Sequence[LiveTask], repeats: int) -> str:
        """Identifies the settings that a stored part must match to be resumed."""
        what = [
            self.task, {side: ref for side, (ref, _) in self.sides.items()}, self.seed, repeats, self.max_tokens,
            self.temperature, [[task.id, task.text, dict(task.state), task.role, task.check] for task in tasks],
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()

    def _kept(self, key: str) -> list[dict[str, Any]]:
        if self.part is None:
            return []
        if not self.part.exists():
            self.part.parent.mkdir(parents=True, exist_ok=True)
            self.part.write_text(json.dumps({"key": key}) + "\n", "utf-8")
            return []
        whole = read_regular(self.part).decode()
        lines = whole[: whole.rfind("\n") + 1].splitlines()  # a truncated line is asked again
        if not lines or json.loads(lines[0]) != {"key": key}:
            raise errors.InvalidInput(
                f"{str(self.part)!r} holds answers of another comparison.",
                code="other_comparison",
                hint="Name a new folder with --run-pack, or remove this one.",
            )
        self.part.write_text("\n".join(lines) + "\n", "utf-8")
        return [json.loads(line) for line in lines[1:]]


def _signals(answered: MeasuredReply) -> dict[str, float]:
    signals = {"latency_s": answered.latency_s}
    if answered.failed:
        return {**signals, "failed": 1.0}
    return {
        **signals,
        "cost_usd": answered.cost_usd,
        "prompt_tokens": answered.prompt_tokens,
        "completion_tokens": answered.completion_tokens,
    }


def summary(rows: Iterable[Mapping[str, Any]], *, seed: int) -> dict[str, Any]:
    """Per metric: both means and their paired difference over prompts, with a bootstrap interval.

    Answers whose check could not be run are counted (`unjudged`). Above 1% of a policy's answers, what depends on the
    checks has no interval, and `refused` says why: whoever can make answers unjudged could choose which ones count.
    """
    from headway.kits.heldout import bootstrap

    rows = list(rows)
    unjudged, refused = _unjudged(rows)
    seen: dict[str, dict[str, dict[str, list[float]]]] = {}  # metric → prompt → side → values
    actions: dict[str, dict[str, int]] = {side: {} for side in SIDES}
    count = 0
    for row in rows:
        count += 1
        actions[row["side"]][row["action"]] = actions[row["side"]].get(row["action"], 0) + 1
        values = {**row["signals"], "reward": row["reward"], "failed": float(bool(row["failed"]))}
        for name, value in values.items():
            if value is not None:
                seen.setdefault(name, {}).setdefault(row["task"], {}).setdefault(row["side"], []).append(float(value))
    metrics: dict[str, Any] = {}
    for name, prompts in sorted(seen.items()):
        pairs = [
            (float(np.mean(sides["policy"])), float(np.mean(sides["against"])))
            for _, sides in sorted(prompts.items())
            if len(sides) == len(SIDES)
        ]
        if not pairs:
            continue
        ours, theirs = np.array(pairs).T
        low, high = bootstrap(ours - theirs, seed=seed)
        known = bool(np.isfinite([low, high]).all()) and not (refused and name in _BY_CHECKS)
        metrics[name] = {
            "policy": float(ours.mean()),
            "against": float(theirs.mean()),
            "difference": float((ours - theirs).mean()),
            "low": low if known else None,
            "high": high if known else None,
            "prompts": len(pairs),
        }
    more = {"unjudged": unjudged, "refused": refused} if any(unjudged.values()) else {}
    return {"runs": count, "actions": actions, "metrics": metrics, **more}


def _unjudged(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, int], str]:
    """Answers of each side whose check could not be run; and why there is no verdict, if they are too many."""
    counts: dict[str, int] = {
        side: sum(row["side"] == side and row.get("judged") == "error" for row in rows) for side in SIDES
    }
    for side, count in counts.items():
        checked = sum(row["side"] == side and row.get("judged", "unchecked") != "unchecked" for row in rows)
        if count > _MOST_UNJUDGED * checked:
            return counts, f"{count:,} of {checked:,} answers of one policy could not be judged, expected at most 1%"
    return counts, ""


def _bad(path: Path, line: int, what: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"{path.name}, line {line} {what}.", code="bad_tasks", hint='One line each: {"text": "…", "check": {…}}.'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredReply:
    """A reply; `failed` says why there is none."""

    text: str
    latency_s: float
    prompt_tokens: float = 0.0
    completion_tokens: float = 0.0
    cost_usd: float = 0.0
    failed: str = ""


class UpstreamCaller:
    """Calls configured upstreams.

    with UpstreamCaller(project.settings) as caller:
        caller.ask("small", "What is the capital of France?")
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open = ExitStack()
        self._endpoints: dict[str, ChatEndpoint] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def check(self, names: tuple[str, ...]) -> None:
        """Refuse, before anything is sent, an action that is not an upstream or a key that is not set."""
        for name in names:
            upstream = self._settings.upstreams.get(name)
            if upstream is None:
                raise errors.InvalidSettings(
                    f"The action {name!r} is not an upstream, so it cannot be called.",
                    code="no_upstream",
                    hint=f"Declare [upstreams.{name}] with url and model in headway.toml.",
                )
            if upstream.key_env:
                self._settings.key(upstream.key_env)

    def ask(self, name: str, text: str, *, max_tokens: int = 0, temperature: float | None = None) -> MeasuredReply:
        upstream, endpoint = self._settings.upstreams[name], self._endpoint(name)
        began = time.perf_counter()
        try:
            reply = endpoint.once(text, max_tokens=max_tokens, temperature=temperature)
        except errors.HeadwayError as error:
            return MeasuredReply(text="", latency_s=time.perf_counter() - began, failed=error.message)
        return MeasuredReply(
            text=reply.text,
            latency_s=time.perf_counter() - began,
            prompt_tokens=reply.read,
            completion_tokens=reply.written,
            cost_usd=upstream.cost_usd(reply.read, reply.written),
        )

    def _endpoint(self, name: str) -> ChatEndpoint:
        if name not in self._endpoints:
            self._endpoints[name] = self._open.enter_context(ChatEndpoint.of(self._settings, name))
        return self._endpoints[name]
