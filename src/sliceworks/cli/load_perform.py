"""Performs a load test, with processes of this machine or pods of a cluster, and writes down what was measured, however it ends."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, progress

if TYPE_CHECKING:
    from sliceworks.cli.load_runs import Test
    from sliceworks.loadtest.plans import Plan
    from sliceworks.loadtest.running import Locust, Outcome

Found = tuple[dict[str, Any], Path]


def performed(test: Test, *, tags: dict[str, str] | None = None, locust: Locust | None = None) -> Found:
    """Run it and write it down; what was measured is kept however it ends."""
    from sliceworks.loadtest import check_installed

    check_installed()
    from sliceworks.loadtest import ending

    with tempfile.TemporaryDirectory() as aside:
        # 1. Everything that can be refused is refused before anything is made.
        plan, fetched = _planned(test, Path(aside))
        place = _fresh(test)
        what = ending.Note(test.name, tags or {}, str(test.files), plan.url, test.spec.model_dump(by_alias=True))
        # 2. What the run is goes first: should all else fail, its rows can be put together later.
        with ending.noted(place, what):
            for each in fetched:
                shutil.move(each, place)
            outcome = clock.run(_run(plan, place, test, locust))
            # 3. From rows to results.
            with progress.working("Putting the rows together"):
                found = ending.conclude(place, plan, outcome)
    return found, place


def _planned(test: Test, aside: Path) -> tuple[Plan, list[Path]]:
    """The plan, and what came from buckets for it."""
    from sliceworks.loadtest import buckets, counting, ending, plans

    spec, fetched = test.spec, []
    named = {
        ending.PROMPTS: spec.prompts.source if spec.prompts else "",
        ending.TOKENIZER: spec.tokens.tokenizer if spec.tokens else "",
    }
    distant = {name: place for name, place in named.items() if buckets.is_place(place)}
    cloud = test.where.cloud() if distant or spec.results.bucket else {}
    for name, place in distant.items():
        fetched.append(clock.run(buckets.fetch(place, aside / name, cloud)))
    text = (aside / ending.PROMPTS).read_bytes() if ending.PROMPTS in distant else None
    plan = plans.make(spec, test.files, url=test.url, key=test.key, text=text)
    if spec.tokens:
        counting.tokenizer(ending.tokenizer_file(aside, spec.tokens, test.files))
    if spec.results.bucket:
        clock.run(buckets.expect_room(spec.results.bucket, cloud))
    return plan, fetched


async def _run(plan: Plan, place: Path, test: Test, locust: Locust | None) -> Outcome:
    from sliceworks.cli import load_cluster
    from sliceworks.cli.load_live import Live
    from sliceworks.loadtest.ending import PROMPTS
    from sliceworks.loadtest.running import Run

    with Live(test.name, plan) as live:
        if test.spec.workers.where == "cluster":
            return await load_cluster.run(plan, place, test, live.show, interruptible)
        prompts = place / PROMPTS
        run = Run(plan, place, test.files, live.show, locust, prompts=prompts if prompts.exists() else None)
        return await interruptible(run)


async def interruptible(run: Any) -> Outcome:
    """A run that Ctrl-C ends in good order."""
    from sliceworks.loadtest.running import INTERRUPTED

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, run.stop, INTERRUPTED)
    outcome: Outcome = await run.run()
    return outcome


def store(place: Path, test: Test) -> None:
    """Put a run into the bucket where results are wanted too, if any. What is here stays, whatever becomes of it there."""
    if test.spec.results.bucket is None:
        return
    from sliceworks.base.errors import SliceworksError
    from sliceworks.loadtest import buckets, ending

    target = f"{str(test.spec.results.bucket).rstrip('/')}/{place.name}"
    try:
        with progress.working(f"Storing in {target}"):
            count = clock.run(buckets.store(ending.files(place), target, test.where.cloud()))
    except SliceworksError as error:
        raise SliceworksError(f"the run is in {place}, and could not be put into {target}: {error}", hint=error.hint) from error
    progress.say(f"{count} files are in {target}")


def _fresh(test: Test) -> Path:
    """A folder for this run: its name, and when it began."""
    wanted = Path(test.spec.results.folder) / f"{test.name}-{clock.now():%Y%m%d-%H%M%S}"
    number, found = 1, wanted
    while found.exists():
        number += 1
        found = wanted.with_name(f"{wanted.name}-{number}")
    return found
