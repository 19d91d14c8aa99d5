"""Writes the pages that are made from the program itself: the reference of commands.

python docs/generate.py            write
python docs/generate.py --check    fail when a page is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sliceworks.cli.main import PROGRAM, cli

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent / "reference" / "commands.md"
_HEAD = """\
# Commands

Noun, then verb. This page is made from the program by `make fix`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(_section(context) for context in _walk(cli, None, PROGRAM))])


def _walk(command: click.Command, parent: click.Context | None, name: str) -> Iterator[click.Context]:
    context = click.Context(
        command, parent=parent, info_name=name, terminal_width=100, max_content_width=100, help_option_names=["-h", "--help"]
    )
    yield context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                yield from _walk(found, context, child)


def _section(context: click.Context) -> str:
    return f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n"


def main() -> int:
    wanted = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(wanted)
        return 0
    if PAGE.read_text() == wanted:
        return 0
    print(f"{PAGE} is out of date: make fix", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
