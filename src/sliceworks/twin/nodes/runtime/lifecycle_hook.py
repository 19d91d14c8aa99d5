"""Lifecycle hooks of a container: commands, HTTP requests and pauses after its start and before its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.nodes.runtime import probe

if TYPE_CHECKING:
    from sliceworks.twin.nodes.runtime.envvars import Command

Obj = dict[str, Any]
POST_START, PRE_STOP = "postStart", "preStop"
_FAILURE = {POST_START: "FailedPostStartHook", PRE_STOP: "FailedPreStopHook"}


def find_hook(container: Obj, kind: str) -> Obj | None:
    """A hook of a container."""
    hook: Obj | None = (container.get("lifecycle") or {}).get(kind)
    return hook


def failure_reason(kind: str) -> str:
    """The reason of the event about a hook that failed."""
    return _FAILURE[kind]


async def run_hook(hook: Obj, container: Obj, address: str, command: Command) -> bool:
    """Run a hook to its end; returns whether it succeeded."""
    if "sleep" in hook:
        await clock.sleep(float(hook["sleep"]["seconds"]))
        return True
    try:
        return await probe.checker(hook, container, address, command)()
    except (OSError, ValueError, asyncio.IncompleteReadError):
        return False
