"""The nodes of a twin, played in its own process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.base.clock import VirtualLoop
from sliceworks.kube.client import Client
from sliceworks.twin.auth.identity import AUTHENTICATED, MASTERS, User
from sliceworks.twin.nodes.heartbeats import QUIET
from sliceworks.twin.nodes.player import Nodes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sliceworks.kube.inprocess import InProcess
    from sliceworks.twin.nodes.processes.runtime import ProcessRuntime
    from sliceworks.twin.nodes.tracks import Runtime

_PLAYER = User("system:nodes", groups=(MASTERS, "system:nodes", AUTHENTICATED))


def embedded_nodes(as_user: Callable[[User], InProcess], runtime: Runtime | None = None) -> Nodes:
    """The player of a twin's nodes. Heartbeats are quiet; in virtual time only warnings become events, which else would be most of
    what a rehearsal of many pods writes."""
    virtual = isinstance(asyncio.get_running_loop(), VirtualLoop)
    return Nodes(Client(as_user(_PLAYER)), rhythm=QUIET, events="warnings" if virtual else "all", runtime=runtime)


def process_runtime(as_user: Callable[[User], InProcess], folder: Path) -> ProcessRuntime:
    """What runs the commands of containers on this machine."""
    from sliceworks.twin.nodes.processes.runtime import ProcessRuntime

    return ProcessRuntime(Client(as_user(_PLAYER)), folder)
