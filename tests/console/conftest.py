"""A browser, and a large busy cluster with a console: created once for all files with `CLUSTER = "console"`.

Playwright is imported lazily, because most tests here need no browser.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser
    from tests.support.browsers import ConsoleProcess


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium. While it runs, this thread has a running event loop: coroutines run through `run_in_thread`."""
    from playwright.sync_api import sync_playwright
    from tests.support.browsers import chromium, launch_browser

    chromium()
    with sync_playwright() as playwright:
        result = launch_browser(playwright)
        yield result
        result.close()


@pytest.fixture(scope="session")
def big_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster of 1,000 slices and 5,000 jobs, where 60 objects change every second."""
    from tests.support.browsers import ROOT, chromium

    chromium()
    folder = tmp_path_factory.mktemp("big")
    command = [sys.executable, "-m", "bench.harness.synthetic_cluster", str(folder), "--updates", "60"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield folder / "kubeconfig"
        process.send_signal(signal.SIGTERM)


@pytest.fixture(scope="session")
def big(big_kubeconfig: Path) -> Iterator[ConsoleProcess]:
    """A read-only console on the large cluster."""
    from tests.support.browsers import ConsoleProcess

    with ConsoleProcess(big_kubeconfig) as served:
        yield served
