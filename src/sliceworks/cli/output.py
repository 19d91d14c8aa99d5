"""Data on stdout, in the format that was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Report:
    """Rows for people, and the same things as data for programs."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    data: Sequence[dict[str, Any]]
    names: Sequence[str] = field(default=())


def show_one(data: dict[str, Any], form: str) -> None:
    """Print one thing as JSON or YAML."""
    if form == "json":
        import orjson

        click.echo(orjson.dumps(data, option=orjson.OPT_INDENT_2))
    else:
        from sliceworks.base import yamls

        click.echo(yamls.dump(data), nl=False)


def show(report: Report, form: str, *, header: bool = True) -> None:
    """Print a report as a table, JSON, YAML or bare names."""
    if form == "json":
        import orjson

        click.echo(orjson.dumps(list(report.data), option=orjson.OPT_INDENT_2))
    elif form == "yaml":
        from sliceworks.base import yamls

        click.echo(yamls.dump(list(report.data)), nl=False)
    elif form == "name":
        click.echo("".join(f"{name}\n" for name in report.names), nl=False)
    else:
        from sliceworks.base import tables

        click.echo(tables.render(report.columns, report.rows, header=header), nl=False)
