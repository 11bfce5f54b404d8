"""`headway prove`: is the candidate better?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.verb import Session, pairs, task_argument, verb
from headway.nouns.errors import InvalidInput, MissingExtra, did_you_mean

if TYPE_CHECKING:
    from headway.nouns.evidence import Verdict

__all__ = ["prove"]

NOT_PASSED = 3


@verb("prove", "headway prove route", "headway prove --log decisions.csv --target new_policy --baseline old_policy")
@task_argument(required=False)
@click.option("--policy", metavar="REF", help="The candidate; the newest one by default.")
@click.option("--against", metavar="REF", default="current", show_default=True, help="What it is compared with.")
@click.option(
    "--log", "log_file", type=click.Path(path_type=Path), metavar="FILE", help="Use this log instead of the project's."
)
@click.option("--reward", metavar="COLUMN", help="With --log: the outcome; empty if there is none.")
@click.option("--propensity", metavar="COLUMN", help="With --log: the probability with which the action was chosen.")
@click.option("--target", metavar="COLUMN", help="With --log: the candidate's probability of the logged action.")
@click.option("--baseline", metavar="COLUMN", help="With --log: the probability under the policy to compare with.")
@click.option(
    "--map", "mapping", multiple=True, metavar="OURS=THEIRS",
    help="With --log: the same as --reward, --propensity, --target and --baseline; repeatable.",
)  # fmt: skip
@click.option(
    "--range", "reward_range", nargs=2, type=float, metavar="LOW HIGH", help="With --log: what a reward can be."
)
@click.option(
    "--missing",
    type=click.Choice(["worst case", "at random"]),
    help='With --log: how a row without a reward counts ("worst case" by default).',
)
@click.option(
    "--trust-key",
    "trust",
    multiple=True,
    metavar="NAME",
    help="Accept evidence that rests on this key's ratings alone; repeatable.",
)
@click.option("--workers", type=int, metavar="N", help="Play the episodes of a world in so many processes.")
@click.option("--check", is_flag=True, help="Exit status 3 unless the verdict is BETTER.")
def prove(
    session: Session,
    task: str | None,
    policy: str | None,
    against: str,
    log_file: Path | None,
    reward: str | None,
    propensity: str | None,
    target: str | None,
    baseline: str | None,
    mapping: tuple[str, ...],
    reward_range: tuple[float, float] | None,
    missing: str | None,
    trust: tuple[str, ...],
    workers: int | None,
    check: bool,
) -> int:
    """Is the candidate better than the current policy?

    Estimates use logged decisions that learning never read; proving often does not distort them. A --log FILE is a
    .parquet, .jsonl or .csv file with the columns reward, propensity and target_probability, and optionally
    baseline_probability; --reward, --propensity, --target and --baseline name others.
    """
    named = {"reward": reward, "propensity": propensity, "target": target, "baseline": baseline}
    if log_file is not None:
        if task is not None or policy is not None or against != "current" or trust:
            raise click.UsageError("--log brings its own policies: omit TASK, --policy, --against and --trust-key.")
        columns = _columns({name: column for name, column in named.items() if column is not None}, mapping)
        verdict = _from_file(log_file, columns, reward_range, missing == "at random")
        session.show(verdict)
        assert verdict.evidence is not None
        session.out.next(f"{verdict.evidence.command} --check")  # with every option that was given
    else:
        if mapping or any(option is not None for option in (*named.values(), reward_range, missing)):
            raise click.UsageError(
                "--reward, --propensity, --target, --baseline, --map, --range and --missing describe a --log FILE."
            )
        if task is None and policy is None:
            raise click.UsageError("Name the TASK, a --policy, or a --log FILE.")
        with session.project() as project:
            with session.out.progress() as progress:
                crew = None if workers is None else project.catalogue.crew(workers)
                verdict = project.prove(
                    policy, against=against, task=task, progress=progress, trust_keys=trust, crew=crew
                )
            assert verdict.evidence is not None
            name = verdict.evidence.task
            step = project.next_step(name, verdict.evidence.candidate)
            synthetic = session.synthetic(project, name)
        session.show(verdict, synthetic=synthetic)
        session.next(step.command)
    return NOT_PASSED if check and not verdict.passed else 0


def _columns(named: dict[str, str], mapping: tuple[str, ...]) -> dict[str, str]:
    """Our names of the columns of a log → theirs; `--map target=p_new` is `--target p_new`."""
    for ours, theirs in pairs(mapping, "column").items():
        name = ours.removesuffix("_probability")
        if name not in ("reward", "propensity", "target", "baseline"):
            known = ("reward", "propensity", "target", "baseline")
            raise InvalidInput(
                f"--map {ours}=… is not a known name.", code="bad_mapping", hint=did_you_mean(name, known)
            )
        if name in named:
            raise click.UsageError(f"--map {ours} and --{name} name the same column.")
        named[name] = theirs
    return named


def _from_file(
    path: Path, columns: dict[str, str], reward_range: tuple[float, float] | None, at_random: bool
) -> Verdict:
    from headway.promote import gate
    from headway.prove.foreign import from_file

    try:
        evidence = from_file(
            path,
            reward=columns.get("reward", "reward"),
            propensity=columns.get("propensity", "propensity"),
            target=columns.get("target", "target_probability"),
            baseline=columns.get("baseline"),
            reward_range=reward_range,
            at_random=at_random,
        )
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise MissingExtra("Reading Parquet", "pyarrow", "parquet") from None
    return gate.verdict(evidence)
