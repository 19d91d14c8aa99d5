"""A real browser on the console: where Chromium is, a console as a process of its own, and a page that notes what it must not do.

with Served(kubeconfig) as served:
    page = served.visit(browser, "/jobs")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    page.was_good()
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
    """The browser of this machine; tests that need one are skipped where there is none."""
    found = os.environ.get("SLICEWORKS_CHROMIUM") or next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or set SLICEWORKS_CHROMIUM")
    return found


def launched(playwright: Playwright) -> Browser:
    """That browser, started."""
    return playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"], timeout=_PATIENCE)


def pictures_wanted() -> bool:
    """Whether this run is to make the pictures of the docs."""
    return os.environ.get("SLICEWORKS_PICTURES") == "1"


def apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run something on a loop in a thread of its own: beside a browser this one has a loop that runs already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: clock.run(work())).result()


class Visit:
    """One page in one browser, with notes of what went wrong in it and of what it asked for elsewhere."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.page.set_default_timeout(_PATIENCE)
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _asked(self, request: Request) -> None:
        host = urlsplit(request.url).hostname
        if host is not None and host not in _OURS:
            self.elsewhere.append(request.url)

    def was_good(self) -> None:
        """No error, no warning, and nothing from outside this machine."""
        assert self.errors == []
        assert self.elsewhere == []

    def picture(self, name: str) -> None:
        """Keep a picture for the docs, if this run is to make them: SLICEWORKS_PICTURES=1."""
        if pictures_wanted():
            self.page.mouse.move(0, 0)
            taken = self.page.screenshot(animations="disabled")
            # Pages have few colours: a small palette is a third of the size.
            Image.open(BytesIO(taken)).convert("RGB").quantize(256).save(PICTURES / f"console-{name}.png", optimize=True)


class Served:
    """`sliceworks console` on a free port, until the end of the block; without a kubeconfig the options say for which cluster."""

    def __init__(self, kubeconfig: Path | None, *options: str, folder: Path | None = None, **variables: str) -> None:
        cluster = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
        command = [sys.executable, "-m", "sliceworks", "console", "--quiet", "--port", "0", *cluster, *options]
        told = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": {**os.environ, **variables}}
        self.process = subprocess.Popen(command, **told, text=True, cwd=folder or ROOT)  # type: ignore[call-overload]
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
        """End it as Ctrl-C does; its exit code, and what it said on stderr."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        _, told = self.process.communicate(timeout=90)
        return self.process.returncode, told

    @contextmanager
    def visit(
        self, browser: Browser, path: str = "/", *, dark: bool = False, size: dict[str, int] | None = None
    ) -> Iterator[Visit]:
        """Log in by the printed address and open a page; nothing is noted of the login itself."""
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
