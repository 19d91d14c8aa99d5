"""A browser, and a big busy cluster with a console on it: made once for all files that say `CLUSTER = "console"`.

What drives a browser is imported where it is needed: most tests here need none.
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
    from tests.support.browsers import Served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium. While it is there this thread has a running loop: what needs one of its own goes through `apart`."""
    from playwright.sync_api import sync_playwright
    from tests.support.browsers import chromium, launched

    chromium()
    with sync_playwright() as playwright:
        found = launched(playwright)
        yield found
        found.close()


@pytest.fixture(scope="session")
def big_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster of 1,000 slices and 5,000 jobs, where 60 objects change every second."""
    from tests.support.browsers import ROOT, chromium

    chromium()
    folder = tmp_path_factory.mktemp("big")
    command = [sys.executable, "-m", "bench.measure.console_worlds", str(folder), "--updates", "60"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield folder / "kubeconfig"
        process.send_signal(signal.SIGTERM)


@pytest.fixture(scope="session")
def big(big_kubeconfig: Path) -> Iterator[Served]:
    """A console on it that only looks."""
    from tests.support.browsers import Served

    with Served(big_kubeconfig) as served:
        yield served
