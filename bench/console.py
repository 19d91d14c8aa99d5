"""The console compared with time limits, in Chromium, with a cluster of 1,000 slices and 5,000 jobs and 60 changes per second.

    python bench/console.py [--quick | --large] [--json-only]

`first_page` is the first page of a new browser, including login and all assets; `navigation` is the time from a click to the next
page; `update` is the time from a change in the cluster to the page; `longest_frame` is the longest time in which the page did not
react to input. Progress goes to stderr. The last line on stdout is JSON; the ratio is limit divided by measured time.
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

from bench.harness.command import Profiles, Script
from bench.harness.metric import limit
from playwright.sync_api import expect, sync_playwright
from tests.support.browsers import ConsoleProcess, launch_browser, run_in_thread

from sliceworks.base import clock, progress
from sliceworks.console.kinds import JOBSETS
from sliceworks.kube.https import open_client

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from bench.harness.metric import Metric
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
_LONGEST_FRAME = """seconds => new Promise((done) => {
  let last = performance.now(), longest = 0, end = last + 1000 * seconds;
  const frame = (now) => {
    longest = Math.max(longest, now - last);
    last = now;
    now < end ? requestAnimationFrame(frame) : done(longest);
  };
  requestAnimationFrame(frame);
})"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Jobs and slices of the cluster, repetitions, and seconds in which frames are measured."""

    jobs: int = 5_000
    slices: int = 1_000
    repeats: int = 7
    frame_seconds: int = 15


FULL = Sizes()
QUICK = Sizes(repeats=3, frame_seconds=5)
TINY = Sizes(jobs=60, slices=16, repeats=1, frame_seconds=1)
LARGE = Sizes(jobs=50_000, slices=10_000)


def measure(sizes: Sizes, options: Namespace) -> list[Metric]:
    """Run all benchmarks on one cluster and one console."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder, _cluster(Path(folder), sizes) as kubeconfig:
        progress.say(f"cluster with {sizes.jobs:,} jobs and {sizes.slices:,} slices is ready")
        with ConsoleProcess(kubeconfig) as console, sync_playwright() as playwright:
            browser = launch_browser(playwright)
            with console.visit(browser) as visit:
                expect(visit.page.locator(".stat .value").first).not_to_have_text("0")
            jobs, unit = sizes.jobs, f"s, {sizes.jobs:,} jobs"
            first_pages = [_first_page(browser, console) for _ in range(sizes.repeats)]
            metrics = [
                limit("first_page", unit, 2.0, *first_pages, amount=jobs),
                limit("navigation", unit, 0.5, *_navigation(browser, console, sizes.repeats), amount=jobs),
                limit("update", unit, 1.0, *_updates(browser, console, kubeconfig, sizes.repeats), amount=1),
                limit("longest_frame", unit, 0.2, _longest_frame(browser, console, sizes.frame_seconds), amount=1),
            ]
            browser.close()
    return metrics


@contextmanager
def _cluster(folder: Path, sizes: Sizes) -> Iterator[Path]:
    command = [sys.executable, "-m", "bench.harness.synthetic_cluster", str(folder), "--updates", "60"]
    command += ["--jobs", str(sizes.jobs), "--slices", str(sizes.slices)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise SystemExit("the synthetic cluster did not start")
        try:
            yield folder / "kubeconfig"
        finally:
            process.send_signal(signal.SIGTERM)


def _first_page(browser: Browser, console: ConsoleProcess) -> float:
    """Seconds until a new browser shows the printed URL."""
    context = browser.new_context()
    page = context.new_page()
    started = clock.perf_counter()
    page.goto(console.url)
    page.locator(".meter").first.wait_for()
    seconds = clock.perf_counter() - started
    context.close()
    return seconds


def _navigation(browser: Browser, console: ConsoleProcess, repeats: int) -> list[float]:
    """Seconds from a click in the navigation to the next page."""
    times = []
    with console.visit(browser) as visit:
        for _ in range(repeats):
            for name, content in (("Queues", ".meter"), ("Jobs", "table.jobs"), ("Overview", ".stat")):
                started = clock.perf_counter()
                visit.page.get_by_role("link", name=name, exact=False).first.click()
                visit.page.locator(f"#main h1:text-is('{name}')").wait_for()
                visit.page.locator(content).first.wait_for()
                times.append(clock.perf_counter() - started)
    return times


def _updates(browser: Browser, console: ConsoleProcess, kubeconfig: Path, repeats: int) -> list[float]:
    """Seconds from a patch of a failed job's restarts to the table of jobs."""
    times = []
    with console.visit(browser, "/jobs?state=failed") as visit:
        row = visit.page.locator("table.jobs tbody tr").first
        namespace, name = str(row.locator("a").get_attribute("href")).split("/")[2:]
        cell = visit.page.locator("table.jobs tbody tr", has_text=name).locator("td").nth(5)
        for number in range(repeats):
            value = 100 + number
            started = clock.perf_counter()
            run_in_thread(lambda value=value: _patch_restarts(kubeconfig, namespace, name, value))  # type: ignore[misc]
            _wait_for(visit.page, cell.element_handle(), str(value))
            times.append(clock.perf_counter() - started)
    return times


async def _patch_restarts(kubeconfig: Path, namespace: str, name: str, value: int) -> None:
    async with open_client(kubeconfig) as client:
        await client.patch(JOBSETS, name, {"status": {"restarts": value}}, namespace, subresource="status")


def _wait_for(page: Page, cell: object, text: str) -> None:
    page.wait_for_function("([cell, text]) => cell.textContent === text", arg=[cell, text], polling="raf")


def _longest_frame(browser: Browser, console: ConsoleProcess, seconds: int) -> float:
    with console.visit(browser, "/jobs") as visit:
        return float(visit.page.evaluate(_LONGEST_FRAME, seconds)) / 1000


SCRIPT = Script("console", "The console compared with time limits, in Chromium.", Profiles(FULL, QUICK, TINY, LARGE), measure)

if __name__ == "__main__":
    SCRIPT.main()
