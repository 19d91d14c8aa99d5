"""Groups of commands: they tell in whole sentences what each command is for, and can import one when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

_SENTENCE = 200  # characters


class Entry(NamedTuple):
    """Where a command is (`module:name`), and what it is for in one line."""

    place: str
    summary: str


class Group(click.Group):
    """A group whose help has the first sentence of each command: click would cut it to fit a line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Each command and what it is for."""
        return [(name, self.commands[name].get_short_help_str(_SENTENCE)) for name in self.list_commands(ctx)]


class LazyGroup(Group):
    """A group that knows its commands by name and loads one when it is needed, so that help and completion are quick."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module, _, name = entry.place.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:  # click looks for names that are close among loaded commands alone
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=self.entries, ctx=ctx) from None

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        return [(name, entry.summary) for name, entry in self.entries.items()]
