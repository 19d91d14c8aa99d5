"""From a LoadTest document to a run that is written down, and from a run to its report."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, progress, yamls
from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.specs import documents
from sliceworks.specs.load_test import LoadTest, LoadTestSpec

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from sliceworks.loadtest.plans import Plan
    from sliceworks.loadtest.running import Locust, Outcome


@dataclass(frozen=True, slots=True)
class Test:
    """A document that was read, and where its files are."""

    name: str
    spec: LoadTestSpec
    files: Path
    url: str
    key: str | None = field(default=None, repr=False)
    """None: the document says where it is, if there is one."""


def read(file: Path, *, url: str = "", workers: int | None = None) -> Test:
    """The one LoadTest of a file."""
    found = yamls.load_path(file)
    if len(found) != 1:
        raise InvalidDocument(f"one LoadTest is wanted, found {len(found)} documents", place=str(file))
    document = documents.read(found[0])
    if not isinstance(document, LoadTest):
        raise InvalidDocument(f"a LoadTest is wanted, found {found[0].data.get('kind')}", place=found[0].place("kind"))
    spec = document.spec
    if workers is not None:
        spec = spec.model_copy(update={"workers": spec.workers.model_copy(update={"count": workers})})
    return Test(document.metadata.name, spec, file.resolve().parent, url)


def aimed(test: Test, namespace: str, **at: Any) -> Test:
    """The test with its target found, where the document names a model service; `at` says in which cluster."""
    from sliceworks.cli import connections, load_targets

    if test.url or test.spec.target.model_service is None:
        return replace(test, spec=load_targets.from_file(test.spec, test.files))

    async def look() -> load_targets.Found:
        async with connections.open_cluster(**at, namespace=namespace) as client:
            return await load_targets.find(client, test.spec, test.files, namespace, inside=False)

    found = connections.run(look, **at)
    return replace(test, spec=found.spec, url=found.url, key=found.key)


def performed(test: Test, *, tags: dict[str, str] | None = None, locust: Locust | None = None) -> tuple[dict[str, Any], Path]:
    """Run it and write it down; what was measured is kept however it ends."""
    check_installed()
    from sliceworks.loadtest import merging, plans, results

    plan = plans.make(test.spec, test.files, url=test.url, key=test.key)
    place = _fresh(test)
    place.mkdir(parents=True)
    outcome = clock.run(_run(plan, place, test, locust))
    with progress.working("Putting the rows together"):
        merging.merge(place)
        return results.conclude(test.name, plan, outcome, place, tags or {}), place


async def _run(plan: Plan, place: Path, test: Test, locust: Locust | None) -> Outcome:
    from sliceworks.cli.load_live import Live
    from sliceworks.loadtest.running import Run

    with Live(test.name, plan) as live:
        run = Run(plan, place, test.files, live.show, locust)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, run.stop, "it was interrupted")
        return await run.run()


def _fresh(test: Test) -> Path:
    """A folder for this run: its name, and when it began."""
    from pathlib import Path

    wanted = Path(test.spec.results.folder) / f"{test.name}-{clock.now():%Y%m%d-%H%M%S}"
    number, found = 1, wanted
    while found.exists():
        number += 1
        found = wanted.with_name(f"{wanted.name}-{number}")
    return found


def check_installed() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("locust", "duckdb", "numpy") if find_spec(name) is None]
    if missing:
        raise SliceworksError(f"load tests need {', '.join(missing)}", hint="pip install 'sliceworks[load]'")


def rendered(folder: Path, form: str) -> str:
    """The report of a run."""
    check_installed()
    from sliceworks.loadtest import results

    run = results.load(folder)
    if form == "json":
        import orjson

        return orjson.dumps(run, option=orjson.OPT_INDENT_2).decode() + "\n"
    if form == "markdown":
        from sliceworks.loadtest.report import markdown

        return markdown.render(run)
    from sliceworks.loadtest.report import html

    moments, lasts, begins = _asked(run)
    return html.render(run, folder, moments, lasts, begins)


def counted(folder: Path) -> tuple[float, float]:
    """The part of a run that counts, in seconds from its beginning."""
    from sliceworks.loadtest import results

    _, lasts, begins = _asked(results.load(folder))
    return begins, lasts


def _asked(run: dict[str, Any]) -> tuple[NDArray[np.float64], float, float]:
    """The moments of the schedule of a run, how long it was to last, and its warm-up."""
    lasts = sum(phase["seconds"] for phase in run["phases"])
    spec = LoadTestSpec.model_validate(run["spec"])
    if any(stage.replay for stage in spec.stages):
        return _no_moments(), lasts + spec.warm_up, spec.warm_up
    from sliceworks.loadtest import arrivals

    schedule = arrivals.schedule(spec.stages, spec.seed)
    return schedule.moments / 1e9, schedule.lasts, spec.warm_up


def _no_moments() -> NDArray[np.float64]:
    import numpy as np

    return np.empty(0)
