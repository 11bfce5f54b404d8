"""`headway audit`: is the router in this log really better?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Output, Session, document_of, pairs, renders, verb
from headway.files import write_whole
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.kits.audit.audit import Audit

NOT_BETTER = 3
FORMATS = ("litellm", "langfuse", "growthbook", "tensorzero", "lynkr", "semantic-router", "otlp", "openai", "columns")


@verb(
    "audit",
    "headway audit litellm.jsonl --html audit.html",
    "headway audit exposures.csv --format growthbook --propensity 0.5 --missing 0",
)
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="LOG...")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Whose log it is; guessed by default.")
@click.option("--policy", metavar="WHAT", help="What is audited: an action, a field, or logged (the default).")
@click.option(
    "--against", metavar="WHAT", help="What it is compared with; by default every action, or the control of a test."
)
@click.option("--action", metavar="FIELD", help="The field with the chosen action.")
@click.option("--reward", metavar="FIELD", help="The field, metric or score that is the reward.")
@click.option(
    "--propensity",
    multiple=True,
    metavar="P",
    help="The field with the propensity; or the split of an A/B test: 0.5, or ACTION=0.9 for each.",
)
@click.option("--where", multiple=True, metavar="FIELD=VALUE", help="Only these rows; repeatable.")
@click.option("--range", "reward_range", nargs=2, type=float, metavar="LOW HIGH", help="What a reward can be.")
@click.option(
    "--missing", default="worst case", show_default=True, help='A missing reward: "worst case", "at random", a number.'
)
@click.option("--lower-is-better", is_flag=True, help="The reward is a cost or a time.")
@click.option("--uplift", type=click.FloatRange(0.0, min_open=True), help="The improvement to plan for.")
@click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="With an invalid row: estimate nothing, or skip it and say so.",
)
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write the page as one HTML file.")
@click.option("--markdown", type=click.Path(path_type=Path), metavar="FILE", help="Write the page as Markdown.")
@click.option("--check", is_flag=True, help="Exit status 3 unless the answer is BETTER.")
def audit(session: Session, logs: tuple[Path, ...], form: str | None, check: bool, **given: Any) -> int:
    """Is the router in this log really better?

    Better than always taking the same action, for logs of LiteLLM, Langfuse, OpenAI and tables; for the tests of
    GrowthBook and TensorZero, whether an arm is better than the control. No project is needed. The answer is BETTER,
    WORSE, or what is unknown and how many decisions would tell. A LOG is JSON lines, CSV or Parquet, also gzipped; of
    several, some may have the outcomes.
    """
    from headway.kits.audit.audit import audit_files
    from headway.kits.audit.page import audit_page
    from headway.kits.report import html, markdown

    files = (("html", given.pop("html"), html), ("markdown", given.pop("markdown"), markdown))
    command = _command(logs, form, given)
    audited = audit_files(logs, form=form, options=_options(given), command=command)
    page = audit_page(audited)
    written = {}
    for kind, path, write in files:
        if path is not None:
            write_whole(path, write(page).encode())
            written[kind] = str(path)
    session.show(AuditPage(audit=audited, written=written))
    if audited.missing or "html" in written:
        session.next("headway init && headway status")
    else:
        session.next(f"{command} --html audit.html")
    return NOT_BETTER if check and audited.state != "better" else 0


def _options(given: Mapping[str, Any]) -> Any:
    from headway.kits.audit.options import AuditOptions, split_of

    field, split = split_of(given["propensity"])
    missing = given["missing"]
    if missing not in ("worst case", "at random"):
        try:
            missing = float(missing)
        except ValueError:
            raise errors.InvalidInput(
                f"--missing {missing!r} is not known.",
                code="bad_pair",
                hint='Write --missing "worst case", --missing "at random", or what a missing reward is worth.',
            ) from None
    return AuditOptions(
        action=given["action"],
        reward=given["reward"],
        propensity=field,
        split=split,
        where=pairs(given["where"], "column"),
        policy=given["policy"],
        against=given["against"],
        reward_range=given["reward_range"],
        missing=missing,
        lower_is_better=given["lower_is_better"],
        skip_invalid=given["on_error"] == "skip",
        uplift=given["uplift"],
    )


def _command(logs: tuple[Path, ...], form: str | None, given: Mapping[str, Any]) -> str:
    """The command line that gives this audit again."""
    words = ["headway", "audit", *(quote(str(path)) for path in logs)]
    words += [] if form is None else ["--format", form]
    defaults = {"missing": "worst case", "on_error": "stop"}
    for name, value in given.items():
        flag = "--range" if name == "reward_range" else f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif isinstance(value, tuple) and name == "reward_range":
            words += [flag, *(f"{end:g}" for end in value)]
        elif isinstance(value, tuple):
            words += [word for item in value for word in (flag, quote(item))]
        elif value not in (None, False, defaults.get(name)):
            words += [flag, quote(str(value))]
    return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """An audit, and the files that its page was written to; without files the page is printed."""

    audit: Audit
    written: Mapping[str, str]

    def document(self) -> dict[str, Any]:
        audit, log = self.audit, self.audit.log
        return {
            "state": audit.state,
            "question": audit.question,
            "format": audit.shape.name,
            "guessed": audit.guessed,
            "decisions": len(log),
            "counts": dict(log.counts),
            "actions": {name: log.count(arm) for arm, name in enumerate(log.arms)},
            "reward": log.reward_name,
            "propensities": "none" if log.propensity is None else "declared" if log.declared else "logged",
            "missing": [{"what": what, "how_to_add": how} for what, how in audit.missing],
            "tests": [
                {"logging": test.name, "decisions": test.decisions, "uplift": test.uplift} for test in audit.tests
            ],
            "comparisons": [
                {
                    "policy": comparison.policy.name,
                    "against": comparison.against.name,
                    "decides": comparison is audit.lead,
                    **document_of(comparison.verdict),
                }
                for comparison in audit.comparisons
            ],
            "data_hash": audit.data_hash,
            "command": audit.command,
            "written": dict(self.written),
        }


@renders(AuditPage)
def _audit(out: Output, shown: AuditPage) -> None:
    from headway.kits.audit.page import audit_page
    from headway.kits.report import text

    page = audit_page(shown.audit)
    if shown.written:
        out.line(f"{page.word.upper()}: {page.headline}")
    else:
        out.line(text(page).rstrip())
    for name in shown.written.values():
        out.line(f"{name} written.")
