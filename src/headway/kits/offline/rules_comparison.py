"""Compares a policy with the rules: offline evidence, live runs of the same prompts, and a pack of both."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from headway.kits.offline import packs
from headway.nouns import Evidence, Progress, Verdict, errors
from headway.project import Examined, Project
from headway.settings import TaskSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Options of a live comparison."""

    tasks: Path
    repeats: int = 1
    seed: int = 0
    max_tokens: int = 0
    temperature: float | None = None
    sandbox: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The result; `live` is None without a live run."""

    task: str
    policy: str
    against: str
    offline: Verdict
    live: dict[str, Any] | None = None
    manifest: dict[str, Any] = field(default_factory=dict)
    pack: str = ""


def compare(
    project: Project,
    task: str,
    *,
    policy: str | None = None,
    against: str | None = None,
    asking: Asking | None = None,
    pack: Path | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> Compared:
    """Compare a policy with the rules (or `against`), from the log and from live runs."""
    settings = project.settings.task(task)
    _check_empty(pack)
    has_rules = project.servings.baseline_ref(project.servings.body(settings)) == "rules@0"
    against = against or ("rules@0" if has_rules else "current")
    examined = project.examine(policy, against=against, task=task, progress=progress, keep_rows=pack is not None)
    evidence = examined.verdict.evidence
    assert evidence is not None
    if pack is not None and evidence.kind != "log":
        raise errors.InvalidInput(
            f"{evidence.candidate} was judged by {evidence.n:,} {evidence.unit}; a run pack holds logged decisions.",
            code="no_evidence",
            hint="Omit --run-pack, or collect decisions with their probabilities.",
        )
    rows = None
    if asking is not None:
        rows = _ask(project, settings, evidence, asking, None if pack is None else pack / "live.part", progress)
    seed = settings.seed if asking is None else asking.seed
    live = None if rows is None else _live(rows, seed)
    manifest = packs.manifest(
        project.folder,
        command=command,
        at=project.clock(),
        seed=seed,
        task=task,
        data_hash=evidence.data_hash,
        reward_version=evidence.reward_version,
        evidence=evidence.id,
        policies={evidence.candidate: evidence.candidate_hash, evidence.against: evidence.against_hash},
        counts=dict(evidence.counts),
        **({} if asking is None else {"tasks_sha256": _digest(asking.tasks), "repeats": asking.repeats}),
    )
    if pack is not None:
        _write(pack, examined, manifest, rows)
    return Compared(
        task=task, policy=evidence.candidate, against=evidence.against, offline=examined.verdict,
        live=live, manifest=manifest, pack="" if pack is None else str(pack),
    )  # fmt: skip


def _check_empty(pack: Path | None) -> None:
    if pack is not None and pack.exists() and any(path.name != "live.part" for path in pack.iterdir()):
        raise errors.InvalidInput(
            f"{str(pack)!r} is not empty.", code="pack_exists", hint="Name a new folder, or remove this one."
        )


def _live(rows: list[dict[str, Any]], seed: int) -> Any:
    from headway.kits.offline.live_answers import summary

    return packs.plain(summary(rows, seed=seed))


def _ask(
    project: Project,
    settings: TaskSettings,
    evidence: Evidence,
    asking: Asking,
    part: Path | None,
    progress: Progress | None,
) -> list[dict[str, Any]]:
    from headway.kits.offline.live_answers import Runner, UpstreamCaller, read_tasks
    from headway.kits.sandbox import sandbox

    tasks = read_tasks(asking.tasks)
    if asking.repeats < 1:
        raise errors.InvalidInput(
            f"--repeats is {asking.repeats}, expected 1 or more.", code="bad_repeats", hint="Try 3."
        )
    candidates = project.offers.candidates(settings.name, None, settings.actions)
    body = project.servings.body(settings)
    policy = (evidence.candidate, evidence.candidate_hash)
    against = (evidence.against, evidence.against_hash)
    needs_box = any((task.check or {}).get("kind") in ("code", "all") for task in tasks)
    with UpstreamCaller(project.settings) as caller:
        caller.check(tuple(candidate.name for candidate in candidates))
        return Runner(
            project=project,
            task=settings.name,
            sides={
                "policy": (policy[0], project.servings.pipeline(settings.name, body, *policy)),
                "against": (against[0], project.servings.pipeline(settings.name, body, *against)),
            },
            candidates=candidates,
            caller=caller,
            sandbox=sandbox(asking.sandbox) if needs_box else None,
            seed=asking.seed,
            max_tokens=asking.max_tokens,
            temperature=asking.temperature,
            part=part,
        ).run(tasks, asking.repeats, progress)


def _write(pack: Path, examined: Examined, manifest: dict[str, Any], rows: list[dict[str, Any]] | None) -> None:
    from safetensors.numpy import save

    from headway.kits.offline.packed import packed
    from headway.kits.offline.stated import Stated

    evidence, seen = examined.verdict.evidence, examined.seen
    assert evidence is not None
    assert seen is not None
    tensors, words = packed(seen.chunks)
    stored, window = save(tensors), seen.training
    made = packs.Offline(
        about=msgspec.to_builtins(replace(examined.about, plan=evidence.plan)),
        guards=[msgspec.to_builtins(guard) for guard in examined.guards],
        words=words,
        rules=msgspec.to_builtins(examined.rules),
        training=None if window is None else {"n": window.n, "mean": window.mean.tolist(), "std": window.std.tolist()},
    )
    recomputed = packs.from_rows(made, stored)
    made = replace(made, stated=Stated.of(evidence, measured=examined.measured, recomputed=recomputed))
    results = {"offline": packs.plain(packs.offline_result(examined.verdict, made.stated.names(recomputed)))}
    bodies = {"about.json": _json(made), "rows.safetensors": stored}
    if rows is not None:
        bodies["live.jsonl"] = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        results["live"] = _live(rows, int(manifest["seed"]))
    again = packs.recompute(bodies, seed=int(manifest["seed"]))
    assert again == results, "a pack's numbers must follow from its rows"
    packs.write(pack, {**bodies, "results.json": _json(results), "manifest.json": _json(manifest)})


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _digest(path: Path) -> str:
    from headway.kits.data import digest_of

    return digest_of(path)
