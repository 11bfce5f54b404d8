"""`headway demo`: what kits can show without any data of yours."""

from __future__ import annotations

import click

from headway.cli.in_use import known
from headway.cli.verbs import Verbs, command_at

_DEFAULT = "route"


class Demos(Verbs):
    """The demos of all kits; without a name, `route`."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(known().all("demos"), key=lambda name: (name != _DEFAULT, name))

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_at("demos", cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Demos"):
            entries = known().all("demos")
            formatter.write_dl([(name, entries[name].summary) for name in self.list_commands(ctx)])


@click.group(
    "demo", cls=Demos, examples=("headway demo route --out demo", "headway demo mutate --out mutations --seeds 5")
)
def demo() -> None:
    """Play the whole loop on synthetic traffic, from an empty folder."""
