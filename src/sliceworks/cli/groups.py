"""Click groups with one-sentence summaries; `LazyGroup` imports a command when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_SUMMARY = 200  # characters


class Entry(NamedTuple):
    """Where a command is defined (`module:name`), and its one-line summary."""

    import_path: str
    summary: str


class Group(click.Group):
    """A group whose help shows the whole first sentence of each command; click truncates it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return each command with its summary."""
        return [(name, self.commands[name].get_short_help_str(_MAX_SUMMARY)) for name in self.list_commands(ctx)]


class LazyGroup(Group):
    """A group that imports a command when it is called, so that help and completion are fast."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.import_path.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:  # click suggests only loaded commands
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=self.entries, ctx=ctx) from None

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        return [(name, entry.summary) for name, entry in self.entries.items()]
