"""The cluster and the cloud that a command means: those of a kubeconfig and of Google, or a twin's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sliceworks.base.errors import SliceworksError, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from sliceworks.kube import Client
    from sliceworks.rehearsal.homes import State

T = TypeVar("T")


def open_cluster(kubeconfig: str | None, context: str | None, twin: bool, namespace: str = "") -> Client:
    """A client for the cluster that is meant. Nothing is sent before its first request."""
    from sliceworks.kube import open_client

    _check(kubeconfig, context, twin)
    if not twin:
        return open_client(kubeconfig, context, namespace=namespace)
    return open_client(running_twin().kubeconfig, namespace=namespace)


def running_twin() -> State:
    """The twin that `--twin` means, which must run."""
    from sliceworks.rehearsal import homes

    name = os.environ.get("SLICEWORKS_TWIN") or homes.DEFAULT_NAME
    state = homes.find(name).state()
    if state.state != "running":
        raise SliceworksError(f"the twin {name!r} does not run", hint=f"sliceworks twin start --name {name}")
    return state


def twin_meant(kubeconfig: str | None, twin: bool) -> State | None:
    """The running twin that is meant: by `--twin`, or by its kubeconfig, which `twin start` says to name in the environment."""
    from sliceworks.rehearsal import homes

    if twin:
        return running_twin()
    file = Path(kubeconfig or os.environ.get("KUBECONFIG", "")).absolute()
    home = homes.Home(file.parent.name, file.parent)
    state = home.state() if file == home.kubeconfig else None
    return state if state and state.state == "running" else None


def twin_cloud() -> tuple[str, str]:
    """The address of the cloud of the twin that runs, and a token for it."""
    state = running_twin()
    if not state.cloud:
        raise SliceworksError("the twin has no cloud", hint="sliceworks twin start")
    return state.cloud, (Path(state.directory) / "token").read_text().strip()


def run(main: Callable[[], Coroutine[Any, Any, T]], *, kubeconfig: str | None, context: str | None, twin: bool) -> T:
    """Run a command's work on the cluster that is meant; beside a twin whose time runs faster, by the twin's clock: what the work
    tells of times, ages too, it has to make out before it returns."""
    from sliceworks.base import clock

    _check(kubeconfig, context, twin)
    state = twin_meant(kubeconfig, twin)
    if state is None or not state.settings.own_clock:
        return clock.run(main())
    from sliceworks.rehearsal import injection

    pace = injection.pace_now(Path(state.kubeconfig))
    return clock.run(main(), speed=pace.speed or 1.0, start=pace.now)


def on_cluster(work: Callable[[Client], Awaitable[T]], where: Mapping[str, Any], namespace: str = "") -> T:
    """Do a command's work on the cluster that is meant. `where` has what options of the cluster were given, and perhaps more."""
    at = {name: where[name] for name in ("kubeconfig", "context", "twin")}

    async def main() -> T:
        async with open_cluster(**at, namespace=namespace) as client:
            return await work(client)

    return run(main, **at)


def _check(kubeconfig: str | None, context: str | None, twin: bool) -> None:
    if twin and (kubeconfig or context):
        raise UsageError("--twin and --kubeconfig or --context name two clusters", hint="leave one out")
