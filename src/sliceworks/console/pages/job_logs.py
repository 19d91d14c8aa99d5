"""The log panel of a job: follows the log of one host."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from nicegui import background_tasks, ui

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, NotFound, SliceworksError
from sliceworks.base.stream_decoder import read_lines
from sliceworks.console.components import choice, el
from sliceworks.console.kinds import PODS
from sliceworks.console.page import Tree

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.kube.client import Client
    from sliceworks.training.status import Host

LAST_LINES = 500
_RETRY_INTERVAL = 2.0  # seconds before an interrupted log is requested again


async def follow_lines(client: Client, namespace: str, pod: str, container: str) -> AsyncGenerator[list[str], None]:
    """The last lines of a container's log and then new ones, in the batches in which they arrive."""
    async with aclosing(client.follow_logs(pod, namespace, container=container, tail_lines=LAST_LINES)) as chunks:
        async for lines in read_lines(chunks):
            yield [line.decode(errors="replace") for line in lines]


async def follow_when_started(client: Client, namespace: str, pod: str, container: str) -> AsyncGenerator[list[str], None]:
    """Like `follow_lines`, but waits for the container to start and yields why it has not."""
    reported = ""
    while True:
        try:
            async with aclosing(follow_lines(client, namespace, pod, container)) as batches:
                async for lines in batches:
                    yield lines
            return
        except NotFound as error:
            # The API server names a missing pod in the details; the twin rejects logs without details.
            yield [
                "– pod not found –"
                if error.details
                else "– this twin simulates pods without processes; start it with --processes to see logs –"
            ]
            return
        except ApiError as error:
            if error.message != reported:
                reported = error.message
                yield [f"– {reported} –"]
        except SliceworksError as error:
            yield [f"– {error.message} –"]
        await clock.sleep(_RETRY_INTERVAL)


def is_unscheduled(pod: dict[str, Any] | None) -> bool:
    """Whether a pod exists without a node: the API server answers a request for its log with nothing."""
    return pod is not None and not pod["spec"].get("nodeName")


_MAX_LINES = 2_000


class LogPanel:
    """A host selector and the log of the selected host."""

    def __init__(self, cache: ClusterCache, namespace: str) -> None:
        self._cache, self._namespace = cache, namespace
        self._hosts: dict[str, Host] = {}
        self._pod = ""
        self._following: asyncio.Task[None] | None = None
        with ui.element("section").classes("panel logs").props('aria-label="Logs" id=logs'):
            self._tools = Tree(on_field=lambda _field, label: self._choose(label))
            self._log = ui.log(max_lines=_MAX_LINES).classes("log").props('role="log" tabindex="0" aria-label="Log"')
        ui.context.client.on_delete(self._end)

    def offer(self, hosts: Sequence[Host]) -> None:
        """Update the hosts to select from; the first is the default. The log of a restarted pod is followed again."""
        self._hosts = {host.label: host for host in hosts if host.pod}
        chosen = next((label for label, host in self._hosts.items() if host.pod == self._pod), "") or next(iter(self._hosts), "")
        options = [(label, f"{label}  {host.pod}") for label, host in self._hosts.items()]
        selector = choice("Host", "host", options, chosen) if options else el("span", "No host has a pod yet.", cls="note")
        self._tools.show(el("div", el("h2", "Logs"), selector, cls="title"))
        self._log.set_visibility(bool(options))
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
        table = self._cache.table(PODS)
        if is_unscheduled(table.get(pod, self._namespace)):
            self._log.push("– the pod is not scheduled yet –")
            while is_unscheduled(table.get(pod, self._namespace)):
                await clock.sleep(_RETRY_INTERVAL)
        known = table.get(pod, self._namespace)
        container = known["spec"]["containers"][0]["name"] if known else ""
        lines = follow_when_started(self._cache.client, self._namespace, pod, container)
        with suppress(asyncio.CancelledError):
            async with aclosing(lines) as batches:
                async for batch in batches:
                    if self._log.is_deleted:
                        return
                    for line in batch[-_MAX_LINES:]:
                        self._log.push(line)

    def _end(self) -> None:
        if self._following is not None:
            self._following.cancel()
