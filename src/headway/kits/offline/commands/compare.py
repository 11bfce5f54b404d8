"""`headway compare` and `headway verify`: compare a policy with the rules, and check a comparison."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Column, Output, RecordTable, Session, document_of, render, renders, task_argument, verb, written

if TYPE_CHECKING:
    from headway.kits.offline.packs import VerifiedPack
    from headway.kits.offline.rules_comparison import Compared

_PATH = click.Path(path_type=Path)
NOT_RECOMPUTED = 3  # exit status of `verify`


@verb(
    "compare",
    "headway compare route --run-pack packs/monday",
    "headway compare route --tasks prompts.jsonl --repeats 3 --out compare.json",
    extended=True,
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
    from headway.kits.offline.rules_comparison import Asking, compare as compared

    asking = None
    if tasks is not None:
        asking = Asking(
            tasks=tasks, repeats=repeats, seed=seed, max_tokens=max_tokens or 0, temperature=temperature,
            sandbox=sandbox,
        )  # fmt: skip
    with session.project() as project:
        comparison = compared(
            project, task, policy=policy, against=against, asking=asking, pack=pack,
            command=shlex.join(["headway", *sys.argv[1:]]), progress=session.out.progress,
        )  # fmt: skip
        made_up = session.synthetic(project, task)
    if out is not None:
        import msgspec

        document = {**document_of(comparison), "synthetic": made_up}
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    session.show(comparison, synthetic=made_up)
    if pack is not None:
        session.out.line(f"Packed in {pack}.")
        session.out.next(f"headway verify {pack}")
    elif comparison.offline.passed:
        session.next(f"headway promote {task} --policy {comparison.policy}")
    else:
        session.next(f"headway report {task}")


def _document(compared: Compared) -> dict[str, Any]:
    return {
        "task": compared.task,
        "policy": compared.policy,
        "against": compared.against,
        "offline": document_of(compared.offline),
        "live": compared.live,
        "manifest": compared.manifest,
        "pack": compared.pack or None,
    }


@renders("Compared", document=_document)
def _compared(out: Output, compared: Compared) -> None:
    render(out, compared.offline)
    live = compared.live
    if live is not None:
        out.line()
        out.line(f"Live: {live['runs']:,} answers, {compared.policy} beside {compared.against}", style="bold")
        _metrics(compared.policy, compared.against).print(out, live["metrics"].items())
        if unjudged := live.get("unjudged"):
            out.note(
                f"Not judged: {unjudged['policy']:,} answers of {compared.policy}, {unjudged['against']:,} of "
                f"{compared.against}; the sandbox could not run."
            )
        if live.get("refused"):
            out.line(f"No live verdict: {live['refused']}.")


def _metrics(policy: str, against: str) -> RecordTable[tuple[str, Any]]:
    return RecordTable(
        Column.text("metric", lambda row: row[0]),
        Column.value(policy, lambda row: row[1]["policy"], 4),
        Column.value(against, lambda row: row[1]["against"], 4),
        Column.value("difference", lambda row: f"{row[1]['difference']:+.4f}"),
        Column.text(
            "95%", lambda row: "" if row[1]["low"] is None else written.interval(row[1]["low"], row[1]["high"], 4)
        ),
        Column.value("prompts", lambda row: row[1]["prompts"]),
    )


@verb("verify", "headway verify packs/monday", "headway verify packs/monday --json")
@click.argument("pack", type=_PATH)
def verify(session: Session, pack: Path) -> int:
    """Check a run pack: every byte by its hash, every number of its rows by computing it again.

    What only the project's store can show is named as stated. Exit status 3 if the pack was made by an earlier rule, so
    that none of its numbers is computed again.
    """
    from headway.kits.offline.packs import verify as verified

    checked = verified(pack)
    session.show(checked)
    return 0 if checked.recomputed else NOT_RECOMPUTED


def _verified_document(pack: VerifiedPack) -> dict[str, Any]:
    return {
        "pack": pack.folder,
        "files": pack.files,
        "manifest": pack.manifest,
        "results": pack.results,
        "recomputed": pack.recomputed,
        "stated": list(pack.stated),
        "ok": pack.recomputed,
    }


@renders("VerifiedPack", document=_verified_document)
def _verified(out: Output, pack: VerifiedPack) -> None:
    about = pack.manifest
    matched = f"{pack.folder}: {len(pack.files)} files match their hashes"
    if pack.recomputed:
        out.line(f"{matched}, and every number that follows from the rows is equal when it is recomputed.")
        if pack.stated:
            out.line(f"Stated by the project, not recomputed: {'; '.join(pack.stated)}.")
    else:
        out.line(f"{matched}. The pack was made by an earlier rule: its numbers are stated, not recomputed.")
        out.line("To have them recomputed, make it again with `headway compare TASK --run-pack DIR`.")
    out.fields(
        {
            "task": about.get("task", ""),
            "policies": ", ".join(f"{ref} {digest[:12]}" for ref, digest in about.get("policies", {}).items()),
            "verdict": pack.results.get("offline", {}).get("state", "none"),
            "live answers": pack.results.get("live", {}).get("runs", 0),
            "command": about.get("command", ""),
        }
    )
