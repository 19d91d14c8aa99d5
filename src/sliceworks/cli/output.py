"""Prints data on stdout as a table, JSON, YAML or names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Report:
    """Rows of a table, and the same items as data and as names."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    data: Sequence[dict[str, Any]]
    names: Sequence[str] = field(default=())


def print_object(data: dict[str, Any], form: str) -> None:
    """Print one object as JSON or YAML."""
    if form == "json":
        import orjson

        click.echo(orjson.dumps(data, option=orjson.OPT_INDENT_2))
    else:
        from sliceworks.base import yaml_documents

        click.echo(yaml_documents.dump(data), nl=False)


def print_report(report: Report, form: str, *, header: bool = True) -> None:
    """Print a report as a table, JSON, YAML or bare names."""
    if form == "json":
        import orjson

        click.echo(orjson.dumps(list(report.data), option=orjson.OPT_INDENT_2))
    elif form == "yaml":
        from sliceworks.base import yaml_documents

        click.echo(yaml_documents.dump(list(report.data)), nl=False)
    elif form == "name":
        click.echo("".join(f"{name}\n" for name in report.names), nl=False)
    else:
        from sliceworks.base import tables

        click.echo(tables.render(report.columns, report.rows, header=header), nl=False)
