"""A group of commands that are imported when they are called, so that help and completion are quick."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


class Entry(NamedTuple):
    """Where a command is (`module:name`), and what it is for in one line."""

    place: str
    summary: str


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads one when it is needed."""

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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])
