"""One training job, drawn: why it is where it is, its life, its hosts, what was told, and its logs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nicegui import ui

from sliceworks.base import clock
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.console.kinds import EVENTS, JOBSETS
from sliceworks.console.pages import job_nodes
from sliceworks.console.pages.job_logs import Logs
from sliceworks.console.registry import page_of
from sliceworks.console.tree import Tree
from sliceworks.console.views.job import KINDS, job_view
from sliceworks.training import restarting
from sliceworks.training.why.explain import explain
from sliceworks.training.why.gather import gather
from sliceworks.training.words import ENDED

if TYPE_CHECKING:
    from sliceworks.console.here import Here
    from sliceworks.console.tables import Changes
    from sliceworks.console.views.job import JobView
    from sliceworks.training.why.answer import Answer

Object = dict[str, Any]
_ASK_EVERY = 3.0  # seconds between two answers to why
_RESTART_SECONDS = 120.0


@page_of("job", title="Job", path="/jobs/{namespace}/{name}", parent="jobs")
def job(here: Here) -> None:
    """One job."""
    _Job(here).draw()


class _Job:
    """One browser's page of one job."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._namespace, self._name = here.arguments["namespace"], here.arguments["name"]
        self._answer: Answer | None = None
        self._events: list[Object] = []
        self._asked = -_ASK_EVERY
        self._asking = False
        self._stale = True

    def draw(self) -> None:
        """Head and answer, then the parts, then logs."""
        self._top = Tree(on_act=self._act)
        self._parts = Tree()
        self._logs = Logs(self._here.world, self._namespace)
        self._here.live(self._show, *KINDS)
        ui.timer(0.5, self._ask)

    def _show(self, changes: Changes) -> None:
        world = self._here.world
        view = job_view(world, self._namespace, self._name, self._events)
        if view is None:
            trouble = world.table(JOBSETS).trouble
            self._top.show(job_nodes.nothing(self._namespace, self._name, trouble))
            self._parts.show()
            return
        self._stale = self._stale or self._touched(changes)
        self._top.show(*job_nodes.top(view, self._answer, self._here.allow_changes, world.now()))
        self._parts.show(job_nodes.parts(view, world.now()))
        self._logs.offer(view.hosts)

    def _touched(self, changes: Changes) -> bool:
        """Whether the job itself has changed: what happens to others is looked at now and then."""
        return any(
            key.namespace == self._namespace and key.name.startswith(self._name) for keys in changes.values() for key in keys
        )

    async def _ask(self) -> None:
        """Have the answer to why and the events read again, if there is a reason; one question at a time."""
        waited = clock.loop_time() - self._asked
        if self._asking or waited < (_ASK_EVERY if self._stale else 5 * _ASK_EVERY):
            return
        self._asking, self._stale, self._asked = True, False, clock.loop_time()
        try:
            with suppress(SliceworksError):
                self._answer, self._events = await asyncio.gather(self._why(), self._told())
                self._show({})
        finally:
            self._asking = False

    async def _why(self) -> Answer | None:
        world = self._here.world
        try:
            found = await gather(world.client, self._namespace, self._name, container=self._here.console.container)
        except NotFound:
            return None
        return explain(replace(found, now=world.now()))

    async def _told(self) -> list[Object]:
        """What went well is not kept for all: it is asked for, of the job itself."""
        fields = f"involvedObject.kind=JobSet,involvedObject.name={self._name}"
        return (await self._here.world.client.list(EVENTS, self._namespace, fields=fields, limit=100)).items

    async def _act(self, act: str) -> None:
        jobset = self._here.world.table(JOBSETS).get(self._name, self._namespace)
        if jobset is None or act not in job_nodes.DONE:
            return
        view = job_view(self._here.world, self._namespace, self._name)
        if view is not None and await _sure(act, view):
            await self._here.change(lambda: self._do(act, jobset, view), job_nodes.DONE[act].format(name=self._name))

    async def _do(self, act: str, jobset: Object, view: JobView) -> None:
        client = self._here.world.client
        if act == "cancel":
            await restarting.cancel(client, jobset)
        elif view.row.state in ENDED:
            whole = await client.get(JOBSETS, self._name, self._namespace)
            await restarting.resubmit(client, whole, _RESTART_SECONDS)
        else:
            await restarting.begin_again(client, jobset)


async def _sure(act: str, view: JobView) -> bool:
    """Ask whoever pressed."""
    question, yes = job_nodes.question(act, view)
    with ui.dialog() as dialog, ui.card():
        Tree(job_nodes.sure(question, yes), on_act=lambda pressed: dialog.submit(pressed == "yes"))
    answer = await dialog
    dialog.delete()
    return bool(answer)
