"""The watchdog reports what blocks the event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from sliceworks.base import clock
from sliceworks.base.transport import Request
from sliceworks.base.watchdog import EXIT_STATUS, Watchdog, describe_frame


def test_blocked_loop_is_reported_with_stack_request_and_object() -> None:
    reports: list[str] = []
    reported, recovered = threading.Event(), threading.Event()

    def report(message: str) -> None:
        reports.append(message)
        (recovered if reported.is_set() else reported).set()

    class Collector:
        async def sync(self, key: tuple[str, str]) -> None:
            assert reported.wait(60), "the watchdog did not notice"

    async def handle(request: Request) -> None:
        await Collector().sync(("default", "many-owners"))

    async def main() -> None:
        with Watchdog(interval=0.01, limit=0.05, report=report):
            await handle(Request("POST", "/api/v1/namespaces/default/configmaps", (), {}, b""))
            while not recovered.is_set():
                await clock.sleep(0.01)

    clock.run(main())
    first, second, *_ = reports  # a busy machine can stall the loop again
    assert first.startswith("the event loop is blocked since 0.05 s\n")
    assert "object: ('default', 'many-owners') (Collector)" in first
    assert "request: POST /api/v1/namespaces/default/configmaps" in first
    assert "reported.wait(60)" in first
    assert second.startswith("the event loop responds again after ")


def test_loop_that_stays_blocked_restarts_the_process() -> None:
    reports: list[str] = []
    restarted = threading.Event()

    async def main() -> None:
        with Watchdog(interval=0.01, limit=60, timeout=0.05, report=reports.append, restart=restarted.set):
            assert restarted.wait(60), "the watchdog did not restart the process"

    clock.run(main())
    assert reports[0].startswith("the event loop is blocked since 0.05 s\n")
    assert reports[1] == "the event loop is blocked for 0.05 s: restarting the process"


_BLOCKED = """
import asyncio, sys, threading
from sliceworks.base import budget
from sliceworks.base.watchdog import Watchdog, exit_process, replace_process

again = [sys.executable, "-c", "import time\\nwhile time.process_time() < 0.5: pass\\nprint('second process')"]
restart = exit_process if sys.argv[1] == "exit" else lambda: replace_process(again)

async def block():
    threading.Event().wait()

async def main():
    with Watchdog(interval=0.01, timeout=0.05, report=lambda message: None, restart=restart):
        await budget.limited(block(), 0.2)  # its timer must not end the second process

budget.install()
asyncio.run(main())
"""


@pytest.mark.parametrize(("restart", "status", "output"), [("exit", EXIT_STATUS, ""), ("replace", 0, "second process\n")])
def test_process_ends_with_its_status_or_is_replaced(restart: str, status: int, output: str) -> None:
    done = subprocess.run([sys.executable, "-c", _BLOCKED, restart], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, output, "")


def test_loop_that_responds_is_not_reported() -> None:
    reports: list[str] = []

    async def main() -> None:
        with Watchdog(interval=0.001, limit=60, report=reports.append):
            await clock.sleep(0.05)

    clock.run(main())
    assert reports == []


def test_stop_does_not_wait_for_a_sign_of_life_that_cannot_come(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    requested = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *args: requested.set(), raising=False)
        with Watchdog(interval=0.001, limit=3600, report=reports.append):
            assert requested.wait(60)
        monkeypatch.undo()

    asyncio.run(main())
    assert reports == []


def test_ended_thread_has_no_stack() -> None:
    assert describe_frame(None) == "the thread of the event loop has ended"
