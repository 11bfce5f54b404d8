"""`headway compare` and `headway verify`: compare a policy with the rules, and check a comparison."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.format import number, signed
from headway.cli.show import render
from headway.cli.verb import Session, task_argument, verb
from headway.cli.verdict import verdict_document

if TYPE_CHECKING:
    from headway.kits.offline.compare import Compared

__all__ = ["compare", "verify"]

_PATH = click.Path(path_type=Path)


@verb(
    "compare",
    "headway compare route --run-pack packs/monday",
    "headway compare route --tasks prompts.jsonl --repeats 3 --out compare.json",
)
@task_argument()
@click.option("--policy", metavar="REF", help="The policy to judge; the newest candidate by default.")
@click.option("--against", metavar="REF", help="What to compare with; rules@0 if the task has rules, else current.")
@click.option("--tasks", type=_PATH, metavar="FILE", help="JSONL prompts to ask both policies' upstreams, live.")
@click.option(
    "--repeats", type=click.IntRange(1, 1000), default=1, show_default=True, help="Times each prompt is asked."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draws, the order and the intervals.")
@click.option("--max-tokens", type=click.IntRange(1), help="Of each answer; the upstream's own by default.")
@click.option("--temperature", type=click.FloatRange(0.0, 2.0), help="The upstream's own by default.")
@click.option("--sandbox", default="auto", show_default=True, help="Where checks of the kind `code` run.")
@click.option("--out", type=_PATH, metavar="FILE", help="The results as JSON.")
@click.option("--run-pack", "pack", type=_PATH, metavar="DIR", help="Results, rows and manifest, for `headway verify`.")
def compare(
    session: Session,
    task: str,
    policy: str | None,
    against: str | None,
    tasks: Path | None,
    repeats: int,
    seed: int,
    max_tokens: int | None,
    temperature: float | None,
    sandbox: str,
    out: Path | None,
    pack: Path | None,
) -> None:
    """A policy beside the rules: what the log says and, with --tasks, what asking both says.

    The log's answer is deterministic. Live runs ask the same prompts under both policies, interleaved in a random
    order; a line of the file is {"text": "…", "check": {"kind": "includes", "all": ["Paris"]}}. With --run-pack, a
    live run that was interrupted goes on where it stopped.
    """
    from headway.kits.offline.compare import Asking
    from headway.kits.offline.compare import compare as compared

    asking = None
    if tasks is not None:
        asking = Asking(
            tasks=tasks,
            repeats=repeats,
            seed=seed,
            max_tokens=max_tokens or 0,
            temperature=temperature,
            sandbox=sandbox,
        )
    with session.project() as project:
        with session.out.progress() as progress:
            comparison = compared(
                project,
                task,
                policy=policy,
                against=against,
                asking=asking,
                pack=pack,
                command=shlex.join(["headway", *sys.argv[1:]]),
                progress=progress,
            )
        made_up = session.synthetic(project, task)
    document = _document(comparison, made_up)
    if out is not None:
        import msgspec

        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    session.out.document(document)
    render(session.out, comparison.offline)
    if comparison.live is not None:
        _show_live(session, comparison)
    if pack is not None:
        session.out.line(f"Packed in {pack}.")
        session.out.next(f"headway verify {pack}")
    elif comparison.offline.passed:
        session.next(f"headway promote {task} --policy {comparison.policy}")
    else:
        session.next(f"headway report {task}")


def _document(comparison: Compared, synthetic: int) -> dict[str, Any]:
    return {
        "task": comparison.task,
        "policy": comparison.policy,
        "against": comparison.against,
        "offline": verdict_document(comparison.offline),
        "live": comparison.live,
        "manifest": comparison.manifest,
        "pack": comparison.pack or None,
        "synthetic": synthetic,
    }


def _show_live(session: Session, comparison: Compared) -> None:
    live = comparison.live or {}
    session.out.line()
    session.out.line(f"Live: {live['runs']:,} answers, {comparison.policy} beside {comparison.against}", style="bold")
    session.out.table(
        ("metric", comparison.policy, comparison.against, "difference", "95%", "prompts"),
        [
            (
                name,
                number(metric["policy"], 4),
                number(metric["against"], 4),
                signed(metric["difference"], 4),
                "" if metric["low"] is None else f"[{signed(metric['low'], 4)}, {signed(metric['high'], 4)}]",
                metric["prompts"],
            )
            for name, metric in live["metrics"].items()
        ],
        right=(comparison.policy, comparison.against, "difference", "prompts"),
    )


@verb("verify", "headway verify packs/monday", "headway verify packs/monday --json")
@click.argument("pack", type=_PATH)
def verify(session: Session, pack: Path) -> None:
    """Check a run pack: every byte by its hash, every number by computing it again."""
    from headway.kits.offline.packs import verify as verified

    verified_ = verified(pack)
    session.out.document(
        {
            "pack": verified_.folder,
            "files": verified_.files,
            "manifest": verified_.manifest,
            "results": verified_.results,
            "ok": True,
        }
    )
    about = verified_.manifest
    session.out.line(f"{pack}: {len(verified_.files)} files match their hashes, and every recomputed number is equal.")
    session.out.fields(
        {
            "task": about.get("task", ""),
            "policies": ", ".join(f"{ref} {digest[:12]}" for ref, digest in about.get("policies", {}).items()),
            "verdict": verified_.results.get("offline", {}).get("state", "none"),
            "live answers": verified_.results.get("live", {}).get("runs", 0),
            "command": about.get("command", ""),
        }
    )
