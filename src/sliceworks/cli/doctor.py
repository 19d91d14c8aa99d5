"""`sliceworks version` and `sliceworks doctor`: versions, and what is wrong with an installation."""

from __future__ import annotations

from typing import Any

import click

from sliceworks import __version__
from sliceworks.cli import options
from sliceworks.cli.output import Report, print_report

_MARKS = {"ok": "ok", "warning": "WARNING", "error": "ERROR", "skipped": "skipped"}


@click.command()
@click.option("--cluster", "of_cluster", is_flag=True, help="Print the versions in the cluster too.")
@options.cluster
@options.output("table", "json", "yaml")
def version(*, of_cluster: bool, output: str, **where: Any) -> None:
    """Print the version of this program and, with --cluster, of everything that it works with in the cluster."""
    versions = {"sliceworks": __version__}
    if of_cluster:
        from sliceworks.cli import connections
        from sliceworks.platform import installation

        versions |= connections.run_on_cluster(installation.read_versions, where)
    print_report(Report(("name", "version"), list(versions.items()), [versions]), output)


@click.command()
@options.cluster
@options.output("table", "json", "yaml", "name")
def doctor(*, output: str, **where: Any) -> int:
    """Check the installation in a cluster: versions, CRDs, controllers, rights, webhooks, graphs and Helm releases.

    Changes nothing. For each problem it prints a command that repairs it, or one that shows the cause. Exit code 1 if a check has
    state error.
    """
    from sliceworks.cli import connections
    from sliceworks.platform import installation

    checks = connections.run_on_cluster(installation.examine, where)
    rows = [(check.area, check.name, _MARKS[check.state], check.message) for check in checks]
    problems = [check for check in checks if check.state in ("warning", "error")]
    names = [f"{check.area}/{check.name}" for check in problems]
    print_report(Report(("area", "check", "state", "message"), rows, [check.as_data() for check in checks], names), output)
    if output == "table":
        if problems and (selection := connections.describe_selection(**where)):
            click.echo(f"these commands use your current context; first run: {selection}", err=True)
        for check in problems:
            click.echo(f"repair {check.area}/{check.name}: {check.repair}", err=True)
    return 1 if any(check.state == "error" for check in checks) else 0
