"""Start, stop and reset twins as processes on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.base import clock, progress
from sliceworks.base.errors import SliceworksError, TimedOut

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.platform.twin_home import Home, Settings, State
    from sliceworks.twin.nodes.runtime.image import ImageMap

_LINES_OF_LOG = 3
_MIN_FREE_DISK = 1 << 20  # bytes
_POLL = 0.02


def run_foreground(home: Home, settings: Settings) -> None:
    """Run the twin in this process until SIGTERM or Ctrl-C."""
    import logging

    from sliceworks.base.watchdog import Watchdog
    from sliceworks.platform.controller_host import run_installed
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
        isolate=settings.isolate,
        images=load_images(settings.image_map) if settings.image_map else None,
        config_connector=settings.config_connector,
        without=settings.without,
        features=settings.features,
        cloud_port=settings.cloud_port,
        job_seconds=settings.job_seconds,
        watchdog=Watchdog(timeout=settings.watchdog_timeout, restart=lambda: _restart(home, settings)),
    )

    async def main() -> None:
        reporter = asyncio.create_task(_report_address(home))
        try:
            await serve(options, run_installed)
        finally:
            reporter.cancel()

    with home.held():
        settings = _with_clock(home, settings)
        home.remember(settings)
        clock.run(main(), speed=settings.speed, start=_start_time(home, settings) if settings.has_own_clock else None)


def load_images(path: str) -> ImageMap:
    """The programs that a twin runs instead of images; InvalidDocument names file, line and field."""
    # Imported here: documents take longer to load than the API server.
    from sliceworks.platform import image_map

    return image_map.load(Path(path))


def _restart(home: Home, settings: Settings) -> None:
    """Replace this process by a new one that serves the same ports."""
    from sliceworks.base.watchdog import replace_process

    state = home.state()
    replace_process(_command(home, replace(settings, port=state.port, cloud_port=state.cloud_port)))


def _start_time(home: Home, settings: Settings) -> datetime:
    """The time at which a twin starts: now, or where its clock stopped if that is later, so that its time never goes back."""
    from sliceworks.twin.store.journal import read_last_time

    if settings.memory:
        return clock.now()
    saved = home.clock()
    last = read_last_time(home.directory / "store.db") if saved is None else saved.until
    return clock.now() if last is None else max(clock.now(), last)


def _with_clock(home: Home, settings: Settings) -> Settings:
    """The settings, with a clock of its own if the twin's time is ahead of the machine's."""
    return replace(settings, steered=settings.steered or _start_time(home, settings) > clock.now())


async def _report_address(home: Home) -> None:
    """Print the address once the twin is ready."""
    while (state := home.state()).state != "running":
        await clock.sleep(_POLL)
    progress.say(f"Twin {home.name!r} is ready at {state.url}; use it with: export KUBECONFIG={state.kubeconfig}")


def start(home: Home, settings: Settings, timeout: float) -> State:
    """Start the twin in the background and wait until it is ready. A running twin stays as it is."""
    state = home.state()
    if state.state == "stopped":
        state = _spawn(home, _with_clock(home, _with_port(home, settings)), timeout)
    elif state.state == "starting":
        state = _wait(home, timeout, child=0)
    if settings.port and state.port != settings.port:
        raise SliceworksError(
            f"twin {home.name!r} already runs on port {state.port}", hint=f"sliceworks twin stop --name {home.name}"
        )
    if state.settings.without != settings.without:
        running = ",".join(state.settings.without)
        raise SliceworksError(
            f"twin {home.name!r} already runs with --without {running or chr(39) * 2}",
            hint=f"sliceworks twin stop --name {home.name}",
        )
    return state


def stop(home: Home, timeout: float) -> bool:
    """Stop the twin's process and wait for its end; False if none was running."""
    holder = home.owner_pid()
    if not holder:
        return False
    os.kill(holder, signal.SIGTERM)
    if not clock.wait_until(lambda: home.owner_pid() != holder, timeout):
        raise TimedOut(f"twin {home.name!r} did not stop within {timeout:g} s", hint=f"its process is {holder}")
    _reap(holder)
    return True


def reset(home: Home, timeout: float) -> State | None:
    """Delete all data of the twin. A running twin is restarted empty with the same settings; returns its state."""
    before = home.state()
    stop(home, timeout)
    shutil.rmtree(home.directory, ignore_errors=True)
    if home.exists:
        raise SliceworksError(f"cannot remove {home.directory}")
    if before.state == "stopped":
        return None
    return start(home, replace(before.settings, port=before.port, cloud_port=before.cloud_port), timeout)


def _with_port(home: Home, settings: Settings) -> Settings:
    """The settings with ports: the requested ones, which must be free, else the previous ones if they are free."""
    last = home.settings()
    port = _port(settings.port, last.port, "--port")
    return replace(settings, port=port, cloud_port=_port(settings.cloud_port, last.cloud_port, "--cloud-port"))


def _port(requested: int, last: int, option: str) -> int:
    if requested and not _is_free(requested):
        raise SliceworksError(f"port {requested} is in use", hint=f"choose another {option}, or omit it to use any free port")
    return requested or (last if last and _is_free(last) else 0)


def _is_free(port: int) -> bool:
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
    # In its own session, so that closing the terminal does not stop it.
    descriptors = [(os.POSIX_SPAWN_DUP2, nothing, 0), (os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
    try:
        child = os.posix_spawn(sys.executable, _command(home, settings), os.environ, file_actions=descriptors, setsid=True)
    finally:
        os.close(log)
        os.close(nothing)
    state = _wait(home, timeout, child)
    home.remember(replace(settings, port=state.port, cloud_port=state.cloud_port))
    return state


def _command(home: Home, settings: Settings) -> list[str]:
    """The command that runs a twin in the foreground."""
    command = [sys.executable, "-m", "sliceworks", "twin", "start", "--foreground", "--name", home.name]
    command += ["--port", str(settings.port), *(["--memory"] if settings.memory else [])]
    command += ["--speed", repr(settings.speed)] if settings.has_own_clock else []
    command += [] if settings.workloads else ["--no-workloads"]
    command += ["--processes"] if settings.processes else []
    command += ["--isolate"] if settings.isolate else []
    command += ["--image-map", settings.image_map] if settings.image_map else []
    command += ["--config-connector"] if settings.config_connector else []
    command += ["--without", ",".join(settings.without)]
    command += [part for feature in settings.features for part in ("--feature", feature)]
    command += ["--cloud-port", str(settings.cloud_port)] if settings.cloud_port else []
    command += ["--watchdog-timeout", f"{settings.watchdog_timeout}s"] if settings.watchdog_timeout else []
    return [*command, "--job-duration", str(settings.job_seconds)]


def _wait(home: Home, timeout: float, child: int) -> State:
    """Wait until the twin is ready or has failed. Terminates the child if another process became the twin."""
    state, ended = home.state(), not child

    def decided() -> bool:
        nonlocal state, ended
        ended = ended or _reap(child)
        state = home.state()
        return state.state == "running" or (state.state == "stopped" and ended)

    in_time = clock.wait_until(decided, timeout)
    if not ended and not (in_time and state.pid == child):
        _terminate(child)
    if not in_time:
        raise TimedOut(f"twin {home.name!r} was not ready within {timeout:g} s", hint=f"its log is {home.log}")
    if state.state != "running":
        raise SliceworksError(f"twin {home.name!r} did not start{_log_tail(home)}", hint=f"its log is {home.log}")
    return state


def _terminate(child: int) -> None:
    """Terminate a child process and reap it."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


def _reap(child: int) -> bool:
    """Whether a child process has ended; reaps it."""
    try:
        return bool(child) and os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return False


def _log_tail(home: Home) -> str:
    try:
        lines = [line.strip() for line in home.log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")] or lines[-_LINES_OF_LOG:]
    if not errors and shutil.disk_usage(home.directory).free < _MIN_FREE_DISK:
        errors = ["the disk is full"]  # the twin could not log it
    return ": " + " / ".join(errors) if errors else ""
