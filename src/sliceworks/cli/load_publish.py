"""`sliceworks load publish`: the records of a run through Pub/Sub into BigQuery, counted on both ends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.cli import options
from sliceworks.cli.output import show_one

if TYPE_CHECKING:
    from sliceworks.loadtest.publishing import Place

_HOSTS = {"pubsub": "https://pubsub.googleapis.com", "bigquery": "https://bigquery.googleapis.com"}


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--project", required=True, metavar="ID", help="The Google Cloud project.")
@click.option("--topic", required=True, metavar="NAME", help="The topic of an environment's loadMetrics.")
@click.option("--dataset", required=True, metavar="NAME", help="The dataset that its subscription writes into.")
@click.option("--table", default="requests", show_default=True, metavar="NAME", help="The table.")
@click.option("--twin", is_flag=True, help="The cloud of the twin of this machine.")
@options.timeout(120)
@options.output("table", "json")
@options.quiet
def publish(*, run: Path, twin: bool, timeout: float, output: str, **names: str) -> int:
    """Publish the records of a run, and wait until the table has them all.

    What was published before is not published again. Exit code 3 when the table does not have them in time.
    """
    from sliceworks.base import clock
    from sliceworks.cli import load_runs
    from sliceworks.loadtest.publishing import Place

    place = Place(names["project"], names["topic"], names["dataset"], names["table"])
    found = clock.run(_publish(run, load_runs.loaded(run), place, twin=twin, timeout=timeout))
    if output == "json":
        show_one(found, "json")
    else:
        click.echo(f"{found['published']:,} records published, {found['stored']:,} in {place.dataset}.{place.table}")
    return 0


async def _publish(folder: Path, run: dict[str, Any], place: Place, *, twin: bool, timeout: float) -> dict[str, int]:
    import asyncio

    from sliceworks.base import clock
    from sliceworks.base.errors import TimedOut
    from sliceworks.cloud import Session
    from sliceworks.loadtest import publishing

    hosts, prefix, credentials = _cloud(twin)
    with progress.working("Publishing") as step:
        async with Session(hosts["pubsub"], credentials) as session:
            publisher = publishing.Publisher(session, place, folder, prefix)
            published = await publisher.publish(run, lambda done: step(f"{done:,}"))
    stored = 0
    with progress.working("Waiting for the table") as step:
        async with Session(hosts["bigquery"], credentials) as session:
            try:
                async with asyncio.timeout(timeout):
                    while (stored := await publishing.counted(session, place, folder)) < published:
                        step(f"{stored:,} of {published:,}")
                        await clock.sleep(1)
            except TimeoutError as error:
                raise TimedOut(f"the table has {stored:,} of {published:,} records after {timeout:g} s") from error
    return {"published": published, "stored": stored}


def _cloud(twin: bool) -> tuple[dict[str, str], str, Any]:
    """Where the two services are, what comes before Pub/Sub's paths there, and who asks."""
    from sliceworks.cloud import connecting

    if not twin:
        return _HOSTS, "", connecting.credentials()
    from sliceworks.cli.connections import twin_cloud

    address, token = twin_cloud()
    return {"pubsub": address, "bigquery": address}, "/pubsub", connecting.credentials(token)
