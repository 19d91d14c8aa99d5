"""A real browser on the console: where Chromium is, a console as a process of its own, and a page that notes what it must not do.

with Served(kubeconfig) as served:
    page = served.visit(browser, "/jobs")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    page.assert_clean()
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

import pytest
from PIL import Image
from playwright.sync_api import expect

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "assets"
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 420, "height": 860}
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_OURS = ("127.0.0.1", "localhost")
_PATIENCE = 90_000.0  # milliseconds: the machine may be busy

expect.set_options(timeout=_PATIENCE)


def chromium() -> str:
    """The path of the Chromium on this machine; skips the test if none is installed."""
    result = os.environ.get("SLICEWORKS_CHROMIUM") or next((path for name in _NAMES if (path := shutil.which(name))), None)
    if result is None:
        pytest.skip("Chromium not found: apt-get install chromium, or set SLICEWORKS_CHROMIUM")
    return result


def launch_browser(playwright: Playwright) -> Browser:
    """Launch Chromium."""
    return playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"], timeout=_PATIENCE)


def records_screenshots() -> bool:
    """Whether this run updates the screenshots of the docs (SLICEWORKS_PICTURES=1)."""
    return os.environ.get("SLICEWORKS_PICTURES") == "1"


def run_in_thread(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on an event loop in another thread, because Playwright's own loop runs in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: clock.run(work())).result()


class Visit:
    """A page in a browser; collects its errors, its warnings and its requests to other hosts."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.page.set_default_timeout(_PATIENCE)
        self.errors: list[str] = []
        self.foreign_requests: list[str] = []
        self.page.on("console", self._on_console_message)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._on_request)

    def _on_console_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _on_request(self, request: Request) -> None:
        host = urlsplit(request.url).hostname
        if host is not None and host not in _OURS:
            self.foreign_requests.append(request.url)

    def assert_clean(self) -> None:
        """Fail if the page logged an error or a warning, or sent a request to another host."""
        assert self.errors == []
        assert self.foreign_requests == []

    def screenshot(self, name: str) -> None:
        """Save a screenshot for the docs if SLICEWORKS_PICTURES=1."""
        if records_screenshots():
            self.page.mouse.move(0, 0)
            image = self.page.screenshot(animations="disabled")
            # Pages have few colours: a palette of 256 makes the file three times smaller.
            Image.open(BytesIO(image)).convert("RGB").quantize(256).save(PICTURES / f"console-{name}.png", optimize=True)


class ConsoleProcess:
    """`sliceworks console` as a process on a free port; without a kubeconfig, the options select the cluster."""

    def __init__(self, kubeconfig: Path | None, *options: str, folder: Path | None = None, **variables: str) -> None:
        cluster = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
        command = [sys.executable, "-m", "sliceworks", "console", "--quiet", "--port", "0", *cluster, *options]
        stderr = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": {**os.environ, **variables}}
        self.process = subprocess.Popen(command, **stderr, text=True, cwd=folder or ROOT)  # type: ignore[call-overload]
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise AssertionError(f"the console did not start: {self.process.communicate()[1]}")
        self.base, _, self.token = self.url.replace("/#token=", "#").partition("#")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> tuple[int, str]:
        """Send SIGINT; returns the exit code and stderr."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        _, stderr = self.process.communicate(timeout=90)
        return self.process.returncode, stderr

    @contextmanager
    def visit(
        self, browser: Browser, path: str = "/", *, dark: bool = False, size: dict[str, int] | None = None
    ) -> Iterator[Visit]:
        """Log in with the printed URL and open a page; errors during the login are ignored."""
        viewport = size or WIDE
        context = browser.new_context(
            viewport={"width": viewport["width"], "height": viewport["height"]},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        try:
            visit = Visit(context)
            visit.page.goto(self.url)
            expect(visit.page.locator("#main h1")).to_be_visible()
            if path != "/":
                visit.page.goto(f"{self.base}{path}")
                expect(visit.page.locator("#main h1")).to_be_visible()
            visit.errors.clear()
            yield visit
        finally:
            context.close()
