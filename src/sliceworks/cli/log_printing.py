"""Lines of logs on stdout: behind the name of their host, which has a colour of its own on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from sliceworks.base import progress

if TYPE_CHECKING:
    from sliceworks.cli.log_reading import Line

_COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")


class Printer:
    """Prints lines as they are given."""

    def __init__(self, *, as_json: bool = False, timestamps: bool = False, one: bool = False) -> None:
        self._as_json, self._timestamps, self._one = as_json, timestamps, one
        self._coloured = progress.coloured(sys.stdout)
        self._colours: dict[str, str] = {}

    def write(self, line: Line) -> None:
        """One line."""
        if self._as_json:
            import orjson

            host = line.source.host
            told = {"at": line.at or None, "job": host.job, "slice": host.slice, "host": host.index, "attempt": host.attempt}
            click.echo(orjson.dumps({**told, "pod": host.pod, "line": line.text}))
            return
        stamp = f"{line.at} " if self._timestamps else ""
        click.echo(f"{self._prefix(line)}{stamp}{line.text}")

    def _prefix(self, line: Line) -> str:
        if self._one:
            return ""
        label = line.source.host.label
        if not self._coloured:
            return f"{label} | "
        colour = self._colours.setdefault(label, _COLOURS[len(self._colours) % len(_COLOURS)])
        return f"\x1b[{colour}m{label} |\x1b[0m "
