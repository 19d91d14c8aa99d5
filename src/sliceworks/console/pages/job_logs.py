"""The logs of a job's hosts on its page: one host at a time, followed while somebody looks."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from nicegui import background_tasks, ui

from sliceworks.console.following import patiently
from sliceworks.console.kinds import PODS
from sliceworks.console.nodes import choice, el
from sliceworks.console.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.console.world import World
    from sliceworks.training.hosts import Host

_MOST_LINES = 2_000


class Logs:
    """A choice of hosts, and what the chosen one writes."""

    def __init__(self, world: World, namespace: str) -> None:
        self._world, self._namespace = world, namespace
        self._hosts: dict[str, Host] = {}
        self._pod = ""
        self._following: asyncio.Task[None] | None = None
        with ui.element("section").classes("panel logs").props('aria-label="Logs"'):
            self._tools = Tree(on_field=lambda _field, label: self._choose(label))
            self._log = ui.log(max_lines=_MOST_LINES).classes("log").props('role="log" tabindex="0" aria-label="Log"')
        ui.context.client.on_delete(self._end)

    def offer(self, hosts: Sequence[Host]) -> None:
        """These hosts may be chosen; the first is, until somebody chooses another. One that was restarted is followed anew."""
        self._hosts = {host.label: host for host in hosts if host.pod}
        chosen = next((label for label, host in self._hosts.items() if host.pod == self._pod), "") or next(iter(self._hosts), "")
        options = [(label, f"{label}  {host.pod}") for label, host in self._hosts.items()]
        what = choice("Host", "host", options, chosen) if options else el("span", "No host has a pod yet.", cls="note")
        self._tools.show(el("div", el("h2", "Logs"), what, cls="title"))
        if chosen and self._hosts[chosen].pod != self._pod:
            self._choose(chosen)

    def _choose(self, label: str) -> None:
        host = self._hosts.get(label)
        if host is None:
            return
        self._end()
        self._pod = host.pod
        self._log.clear()
        self._following = background_tasks.create(self._follow(host.pod), name=f"log of {host.pod}")

    async def _follow(self, pod: str) -> None:
        known = self._world.table(PODS).get(pod, self._namespace)
        container = known["spec"]["containers"][0]["name"] if known else ""
        lines = patiently(self._world.client, self._namespace, pod, container)
        with suppress(asyncio.CancelledError):
            async with aclosing(lines) as found:
                async for some in found:
                    if self._log.is_deleted:
                        return
                    for each in some[-_MOST_LINES:]:
                        self._log.push(each)

    def _end(self) -> None:
        if self._following is not None:
            self._following.cancel()
