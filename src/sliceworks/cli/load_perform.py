"""Performs a load test, with processes of this machine or pods of a cluster, and writes down what was measured, however it ends."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, progress

if TYPE_CHECKING:
    from sliceworks.cli.load_runs import Test
    from sliceworks.loadtest.plans import Plan
    from sliceworks.loadtest.running import Locust, Outcome


def performed(test: Test, *, tags: dict[str, str] | None = None, locust: Locust | None = None) -> tuple[dict[str, Any], Path]:
    """Run it and write it down; what was measured is kept however it ends."""
    from sliceworks.cli import load_runs

    load_runs.check_installed()
    from sliceworks.loadtest import merging, plans, results

    plan = plans.make(test.spec, test.files, url=test.url, key=test.key)
    place = _fresh(test)
    place.mkdir(parents=True)
    outcome = clock.run(_run(plan, place, test, locust))
    with progress.working("Putting the rows together"):
        merging.merge(place)
        return results.conclude(test.name, plan, outcome, place, tags or {}), place


async def _run(plan: Plan, place: Path, test: Test, locust: Locust | None) -> Outcome:
    from sliceworks.cli import load_cluster
    from sliceworks.cli.load_live import Live
    from sliceworks.loadtest.running import Run

    with Live(test.name, plan) as live:
        if test.spec.workers.where == "cluster":
            return await load_cluster.run(plan, place, test, live.show, interruptible)
        return await interruptible(Run(plan, place, test.files, live.show, locust))


async def interruptible(run: Any) -> Outcome:
    """A run that Ctrl-C ends in good order."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, run.stop, "it was interrupted")
    outcome: Outcome = await run.run()
    return outcome


def _fresh(test: Test) -> Path:
    """A folder for this run: its name, and when it began."""
    wanted = Path(test.spec.results.folder) / f"{test.name}-{clock.now():%Y%m%d-%H%M%S}"
    number, found = 1, wanted
    while found.exists():
        number += 1
        found = wanted.with_name(f"{wanted.name}-{number}")
    return found
