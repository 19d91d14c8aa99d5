"""Twins as processes of this machine: start, stop, reset."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from sliceworks.base import clock, progress
from sliceworks.base.errors import SliceworksError, TimedOut

if TYPE_CHECKING:
    from sliceworks.rehearsal.homes import Home, Settings, State

_LINES_OF_LOG = 3
_ROOM = 1 << 20  # a disk with less is full
_POLL = 0.02


def run_here(home: Home, settings: Settings) -> None:
    """Be the twin, until SIGTERM or Ctrl-C."""
    import logging

    from sliceworks.rehearsal.installed import installed
    from sliceworks.twin.main import TwinOptions, serve

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    options = TwinOptions(
        name=home.name,
        directory=home.directory,
        port=settings.port,
        memory=settings.memory,
        speed=settings.speed,
        workloads=settings.workloads,
        processes=settings.processes,
        config_connector=settings.config_connector,
        cloud_port=settings.cloud_port,
    )

    async def main() -> None:
        telling = asyncio.create_task(_tell(home))
        try:
            await serve(options, installed)
        finally:
            telling.cancel()

    with home.held():
        home.remember(settings)
        clock.run(main(), speed=settings.speed, start=clock.now() if settings.own_clock else None)


async def _tell(home: Home) -> None:
    """Say where the twin answers, once it does."""
    while (state := home.state()).state != "running":
        await clock.sleep(_POLL)
    progress.say(f"The twin {home.name!r} answers at {state.url}; use it with: export KUBECONFIG={state.kubeconfig}")


def start(home: Home, settings: Settings, timeout: float) -> State:
    """Run the twin in the background and wait until it answers. One that runs already is left alone."""
    state = home.state()
    if state.state == "stopped":
        state = _spawn(home, _with_port(home, settings), timeout)
    elif state.state == "starting":
        state = _wait(home, timeout, child=0)
    if settings.port and state.port != settings.port:
        raise SliceworksError(
            f"the twin {home.name!r} already runs on port {state.port}", hint=f"sliceworks twin stop --name {home.name}"
        )
    return state


def stop(home: Home, timeout: float) -> bool:
    """End the twin's own process and wait for it; False when none ran."""
    holder = home.holder()
    if not holder:
        return False
    os.kill(holder, signal.SIGTERM)
    if not clock.wait_until(lambda: home.holder() != holder, timeout):
        raise TimedOut(f"the twin {home.name!r} did not end within {timeout:g} s", hint=f"its process is {holder}")
    _reap(holder)
    return True


def reset(home: Home, timeout: float) -> State | None:
    """Forget everything the twin holds. One that ran comes back empty, in the same way; what it is now is returned."""
    before = home.state()
    stop(home, timeout)
    shutil.rmtree(home.directory, ignore_errors=True)
    if home.exists:
        raise SliceworksError(f"cannot remove {home.directory}")
    if before.state == "stopped":
        return None
    return start(home, replace(before.settings, port=before.port, cloud_port=before.cloud_port), timeout)


def _with_port(home: Home, settings: Settings) -> Settings:
    """The settings with ports: those asked for, which must be free, else those it had, if they are free."""
    last = home.settings()
    port = _port(settings.port, last.port, "--port")
    return replace(settings, port=port, cloud_port=_port(settings.cloud_port, last.cloud_port, "--cloud-port"))


def _port(wanted: int, last: int, option: str) -> int:
    if wanted and not _free(wanted):
        raise SliceworksError(f"port {wanted} is in use", hint=f"choose another {option}, or leave it out for any free one")
    return wanted or (last if last and _free(last) else 0)


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _spawn(home: Home, settings: Settings, timeout: float) -> State:
    home.create()
    log = os.open(home.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    command = [sys.executable, "-m", "sliceworks", "twin", "start", "--foreground", "--name", home.name]
    command += ["--port", str(settings.port), *(["--memory"] if settings.memory else [])]
    command += ["--speed", repr(settings.speed)] if settings.own_clock else []
    command += [] if settings.workloads else ["--no-workloads"]
    command += ["--processes"] if settings.processes else []
    command += ["--config-connector"] if settings.config_connector else []
    command += ["--cloud-port", str(settings.cloud_port)] if settings.cloud_port else []
    # A session of its own: closing the terminal does not end it.
    descriptors = [(os.POSIX_SPAWN_DUP2, nothing, 0), (os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
    try:
        child = os.posix_spawn(sys.executable, command, os.environ, file_actions=descriptors, setsid=True)
    finally:
        os.close(log)
        os.close(nothing)
    state = _wait(home, timeout, child)
    home.remember(replace(settings, port=state.port, cloud_port=state.cloud_port))
    return state


def _wait(home: Home, timeout: float, child: int) -> State:
    """Wait until it answers, or until it is clear that it will not. A child that is not to be the twin is ended."""
    state, gone = home.state(), not child

    def decided() -> bool:
        nonlocal state, gone
        gone = gone or _reap(child)
        state = home.state()
        return state.state == "running" or (state.state == "stopped" and gone)

    in_time = clock.wait_until(decided, timeout)
    if not gone and not (in_time and state.pid == child):
        _withdraw(child)
    if not in_time:
        raise TimedOut(f"the twin {home.name!r} gave no answer within {timeout:g} s", hint=f"its log is {home.log}")
    if state.state != "running":
        raise SliceworksError(f"the twin {home.name!r} did not start{_last_words(home)}", hint=f"its log is {home.log}")
    return state


def _withdraw(child: int) -> None:
    """End a process of ours that nobody waits for any more."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


def _reap(child: int) -> bool:
    """Whether a process that we may have started has ended; what is left of it is cleared away."""
    try:
        return bool(child) and os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return False


def _last_words(home: Home) -> str:
    try:
        lines = [line.strip() for line in home.log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")] or lines[-_LINES_OF_LOG:]
    if not told and shutil.disk_usage(home.directory).free < _ROOM:
        told = ["the disk is full"]  # it could not even write that down
    return ": " + " / ".join(told) if told else ""
