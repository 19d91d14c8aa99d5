"""The console beside its bounds, in Chromium: a cluster of 1,000 slices and 5,000 jobs where 60 objects change every second.

    python bench/console.py [--quick] [--json-only]

`first` is the first page in a browser that was never there, its login and all files of the pages included; `next` is the way from a
click to the next page; `news` is the time from a change in the cluster to its place on the page; `still` is the longest moment in
which the page could not have answered a key. Progress goes to stderr; the last line on stdout is JSON. The ratio says how many
times the time that it took fits into the bound.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measure import program
from bench.measure.results import Measure
from playwright.sync_api import expect, sync_playwright
from tests.support.browsers import Served, apart, launched

from sliceworks.base import clock, progress
from sliceworks.console.kinds import JOBSETS
from sliceworks.kube.connect import open_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
_STILL = """seconds => new Promise((done) => {
  let last = performance.now(), longest = 0, end = last + 1000 * seconds;
  const look = (now) => {
    longest = Math.max(longest, now - last);
    last = now;
    now < end ? requestAnimationFrame(look) : done(longest);
  };
  requestAnimationFrame(look);
})"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a cluster, how often, and how long the page is watched."""

    jobs: int = 5_000
    slices: int = 1_000
    times: int = 7
    seconds: int = 15


QUICK = Sizes(times=3, seconds=5)
TINY = Sizes(jobs=60, slices=16, times=1, seconds=1)


def measure(sizes: Sizes) -> list[Measure]:
    """Everything, on one cluster and one console."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder, _cluster(Path(folder), sizes) as kubeconfig:
        progress.say(f"{sizes.jobs:,} jobs and {sizes.slices:,} slices are there")
        with Served(kubeconfig) as served, sync_playwright() as playwright:
            browser = launched(playwright)
            with served.visit(browser) as visit:
                expect(visit.page.locator(".stat .value").first).not_to_have_text("0")
            unit = f"s, {sizes.jobs:,} jobs"
            found = [
                _measure("first", unit, 2.0, [_first(browser, served) for _ in range(sizes.times)]),
                _measure("next", unit, 0.5, _next(browser, served, sizes.times)),
                _measure("news", unit, 1.0, _news(browser, served, kubeconfig, sizes.times)),
                _measure("still", unit, 0.2, [_still(browser, served, sizes.seconds)]),
            ]
            browser.close()
    return found


def _measure(name: str, unit: str, bound: float, found: list[float]) -> Measure:
    return Measure(name, unit, 1, less_is_better=True, real=[bound], twin=found)


@contextmanager
def _cluster(folder: Path, sizes: Sizes) -> Iterator[Path]:
    command = [sys.executable, "-m", "bench.measure.console_worlds", str(folder), "--updates", "60"]
    command += ["--jobs", str(sizes.jobs), "--slices", str(sizes.slices)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise SystemExit("the cluster did not start")
        try:
            yield folder / "kubeconfig"
        finally:
            process.send_signal(signal.SIGTERM)


def _first(browser: Browser, served: Served) -> float:
    """A new browser opens the printed address."""
    context = browser.new_context()
    page = context.new_page()
    began = clock.effort()
    page.goto(served.url)
    page.locator(".meter").first.wait_for()
    took = clock.effort() - began
    context.close()
    return took


def _next(browser: Browser, served: Served, times: int) -> list[float]:
    """From page to page by the navigation."""
    found = []
    with served.visit(browser) as visit:
        for _ in range(times):
            for name, sign in (("Queues", ".meter"), ("Jobs", "table.jobs"), ("Overview", ".stat")):
                began = clock.effort()
                visit.page.get_by_role("link", name=name, exact=False).first.click()
                visit.page.locator(f"#main h1:text-is('{name}')").wait_for()
                visit.page.locator(sign).first.wait_for()
                found.append(clock.effort() - began)
    return found


def _news(browser: Browser, served: Served, kubeconfig: Path, times: int) -> list[float]:
    """One job of those that have ended gets so many restarts; who looks at it sees the number."""
    found = []
    with served.visit(browser, "/jobs?state=failed") as visit:
        row = visit.page.locator("table.jobs tbody tr").first
        namespace, name = str(row.locator("a").get_attribute("href")).split("/")[2:]
        cell = visit.page.locator("table.jobs tbody tr", has_text=name).locator("td").nth(5)
        for number in range(times):
            value = 100 + number
            began = clock.effort()
            apart(lambda value=value: _restarts(kubeconfig, namespace, name, value))  # type: ignore[misc]
            _wait_for(visit.page, cell.element_handle(), str(value))
            found.append(clock.effort() - began)
    return found


async def _restarts(kubeconfig: Path, namespace: str, name: str, value: int) -> None:
    async with open_client(kubeconfig) as client:
        await client.patch(JOBSETS, name, {"status": {"restarts": value}}, namespace, subresource="status")


def _wait_for(page: Page, cell: object, text: str) -> None:
    page.wait_for_function("([cell, text]) => cell.textContent === text", arg=[cell, text], polling="raf")


def _still(browser: Browser, served: Served, seconds: int) -> float:
    with served.visit(browser, "/jobs") as visit:
        return float(visit.page.evaluate(_STILL, seconds)) / 1000


def main() -> None:
    """Measure, and print."""
    given = program.arguments(str(__doc__).partition("\n")[0])
    program.tell(measure(program.chosen(given, Sizes(), QUICK, TINY)), given, ("bound", "found"))


if __name__ == "__main__":
    main()
