"""Options of the kit: `headway init --upstream`, with the variable of its key and its price."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import click

from headway.cli import OptionHook, Session, pairs
from headway.kits.proxy.replies import MOST
from headway.settings import Upstream

_KEPT = (
    f"the text of each answer, without secrets and at most {MOST:,} characters, is stored in .headway beside its "
    "decision until [store] keep_days deletes it, or for good without keep_days"
)


def _read_upstreams(session: Session, values: dict[str, Any]) -> None:
    """Turn the options into tables of headway.toml; without --actions, the upstreams are the actions of a choice."""
    upstreams, keys = values.pop("upstreams"), pairs(values.pop("key_env"), "variable")
    names = [name for name, _, _ in upstreams]
    prices = _prices(values.pop("price"), names)
    for option, named in (("--key-env", keys), ("--price", prices)):
        if unknown := [name for name in named if name not in names]:
            raise click.UsageError(f"{option} {unknown[0]}: there is no --upstream of that name.")
    keeps = values.pop("keep_replies")
    if keeps:
        values["keys"] = {"keep_replies": True}
    elif names and keeps is None:
        session.out.note(f"Replies are not kept. To read and rate them, add --keep-replies: {_KEPT}.")
    if names and values["kind"] in (None, "choice"):
        values["actions"] = values["actions"] or ",".join(names)
    tables = []
    for name, url, model in upstreams:
        key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
        lines = [f"\n[upstreams.{key}]", f"url = {json.dumps(url)}", f"model = {json.dumps(model)}"]
        lines += [f"key_env = {json.dumps(keys[name])}"] if name in keys else []  # a key itself is never written down
        lines += _price_lines(session, name, url, model, prices.get(name))
        tables.append("\n".join(lines) + "\n")
    values["tables"] = "".join(tables)


def _price_lines(session: Session, name: str, url: str, model: str, price: tuple[float, float] | None) -> list[str]:
    """The price of an upstream: the given one, or a known public one as a suggestion, or how to declare it."""
    if price is not None:
        return ["price_in = {}  # US dollars per million tokens\nprice_out = {}".format(*price)]
    public = _public_price(url, model)
    if public is None:
        if not Upstream(name=name, url=url, model=model).priced:
            session.out.note(
                f"{name}: its price is unknown, and so are savings. Add --price {name}=IN/OUT (0/0: free)."
            )
        return ["# price_in = 3.0  # US dollars per million tokens; with price_out, cost_usd is measured"]
    day, into, out = public
    session.out.note(f"{name}: {model} cost ${into:.2f}/${out:.2f} per million tokens on {day}; is that your price?")
    return [
        f"price_in = {into}  # a suggestion: the public price of {day}, in US dollars per million tokens",
        f"price_out = {out}",
    ]


def _public_price(url: str, model: str) -> tuple[str, float, float] | None:
    """The day, and a known model's price in and out at its maker's own address; a dated name is that of its model."""
    known: dict[str, Any] = tomllib.loads(files(__package__).joinpath("prices.toml").read_text("utf-8"))
    price = known.get(urlsplit(url).hostname or "", {}).get(re.sub(r"-(\d{8}|\d{4}-\d\d-\d\d)$", "", model))
    return None if price is None else (f"{known['as_of']}", *price)


def _prices(words: Sequence[str], names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Each upstream's prices in and out; words without a name are in the order of the upstreams."""
    if unnamed := [word for word in words if "=" not in word]:
        if len(unnamed) != len(words) or len(words) != len(names):
            raise click.UsageError(
                f"--price {unnamed[0]}: whose price is it? Give one per --upstream, in their order, or NAME=IN/OUT."
            )
        words = [f"{name}={word}" for name, word in zip(names, words, strict=True)]
    found = {}
    for name, word in pairs(tuple(words), "price", "large=0.15/0.60").items():
        match = re.fullmatch(r"(\d+(?:\.\d+)?)/(\d+(?:\.\d+)?)", word)
        if match is None:
            raise click.UsageError(
                f"--price {name}={word}: write US dollars per million tokens in and out, such as {name}=0.15/0.60."
            )
        found[name] = (float(match[1]), float(match[2]))
    return found


INIT = OptionHook(
    options=(
        click.Option(
            ["--upstream", "upstreams"], nargs=3, multiple=True, metavar="NAME URL MODEL",
            help="A model server to choose from; repeatable. Without --actions, the upstreams are the actions.",
        ),
        click.Option(
            ["--key-env"], multiple=True, metavar="NAME=VARIABLE", help="The variable with an upstream's key."
        ),
        click.Option(
            ["--price"], multiple=True, metavar="NAME=IN/OUT",
            help="US dollars per million tokens in and out: large=0.15/0.60, or IN/OUT for each --upstream in order.",
        ),
        click.Option(
            ["--keep-replies/--no-keep-replies"], default=None,
            help=f"Keep what upstreams answer, to read and rate it: {_KEPT}.",
        ),
    ),
    run=_read_upstreams,
)  # fmt: skip
