"""The cluster and the cloud that a command means: those of a kubeconfig and of Google, or a twin's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sliceworks.base.errors import SliceworksError, UsageError

if TYPE_CHECKING:
    from sliceworks.kube import Client
    from sliceworks.rehearsal.homes import State


def open_cluster(kubeconfig: str | None, context: str | None, twin: bool, namespace: str = "") -> Client:
    """A client for the cluster that is meant. Nothing is sent before its first request."""
    from sliceworks.kube import open_client

    if not twin:
        return open_client(kubeconfig, context, namespace=namespace)
    if kubeconfig or context:
        raise UsageError("--twin and --kubeconfig or --context name two clusters", hint="leave one out")
    return open_client(running_twin().kubeconfig, namespace=namespace)


def running_twin() -> State:
    """The twin that `--twin` means, which must run."""
    from sliceworks.rehearsal import homes

    name = os.environ.get("SLICEWORKS_TWIN") or homes.DEFAULT_NAME
    state = homes.find(name).state()
    if state.state != "running":
        raise SliceworksError(f"the twin {name!r} does not run", hint=f"sliceworks twin start --name {name}")
    return state
