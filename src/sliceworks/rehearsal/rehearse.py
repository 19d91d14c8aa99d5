"""A rehearsal: documents applied to a twin in this process, in virtual time, and a record of all that happened.

The same documents and seed give the same record, byte for byte.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, collector
from sliceworks.base.conditions import condition, is_true
from sliceworks.base.errors import ApiError, SliceworksError
from sliceworks.kube.client import Client
from sliceworks.kube.resources import Resource, key_of
from sliceworks.rehearsal.drill import Drill
from sliceworks.rehearsal.product import Wants, controllers
from sliceworks.rehearsal.scenarios import Happening, Step, later_documents, plan, play
from sliceworks.rehearsal.standing import held_conditions, standing
from sliceworks.rehearsal.timeline import Moment, Timeline

if TYPE_CHECKING:
    from sliceworks.base.yamls import Document
    from sliceworks.rehearsal.day.record import Death
    from sliceworks.specs.scenario import Scenario

# What the twin's parts log is in the timeline too: nobody needs it on the terminal as well.
logging.getLogger("sliceworks").addHandler(logging.NullHandler())

_CRD, _GRAPH = "CustomResourceDefinition", "ResourceGraphDefinition"
_PATIENCE = 30.0  # seconds of the twin's time until a new kind must be served
_POLL = 0.1


@dataclass(slots=True)
class Outcome:
    """What became of one document: created, changed, unchanged or refused."""

    document: Document
    result: str
    reason: str = ""
    state: str = ""
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Rehearsal:
    """A rehearsal that is over."""

    outcomes: list[Outcome]
    moments: list[Moment]
    lasted: float
    happenings: list[Happening] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)
    """Of the programs that a drill killed."""

    @property
    def refused(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.result == "refused"]

    @property
    def failed(self) -> bool:
        """Whether anything was refused, at the start or in the course of the day."""
        return bool(self.refused) or any(happening.refused for happening in self.happenings)


def rehearse(
    documents: list[Document],
    *,
    scenario: Scenario | None = None,
    folder: Path | None = None,
    seconds: float = 60.0,
    seed: int = 0,
    drill: float | None = None,
) -> Rehearsal:
    """Apply documents to a fresh twin, let its time pass with all that a scenario has happen in it, and tell what happened.

    In a `drill`, some program of the twin or the product dies every so many seconds.
    """
    steps = plan(scenario, folder or Path(), Random(seed)) if scenario is not None else []
    start = scenario.spec.start if scenario is not None else None
    later = later_documents(scenario, folder or Path()) if scenario is not None else []
    wants = Wants.of([*documents, *later], scenario)
    with collector.rested():
        return clock.run(
            _rehearse(documents, steps, seconds, wants, Drill(drill, seed) if drill else None), virtual=True, seed=seed, start=start
        )


async def _rehearse(documents: list[Document], steps: list[Step], seconds: float, wants: Wants, drill: Drill | None) -> Rehearsal:
    from sliceworks.twin.cluster import Cluster

    between = drill.between if drill else None
    async with (
        Cluster(config_connector=wants.config_connector, between=between) as cluster,
        controllers(cluster, wants) as beside,
        drill.going_on(cluster, lambda: beside) if drill else nullcontext(),
    ):
        await clock.sleep(1)  # its own first objects are no news
        timeline = Timeline()
        cluster.store.subscribe(timeline.observe)
        timeline.begin()
        warnings: list[str] = []
        happenings: list[Happening] = []
        async with Client(cluster.transport(), on_warning=warnings.append) as client:
            outcomes = [await apply_document(client, document, timeline, warnings) for document in documents]
            await play(steps, client, clock.sleep, told=happenings.append)
            await clock.sleep(max(0.0, seconds - timeline.elapsed()))
            for outcome in outcomes:
                outcome.state = await _state(client, outcome)
        return Rehearsal(outcomes, list(timeline.moments), timeline.elapsed(), happenings, drill.deaths if drill else [])


async def apply_document(client: Client, document: Document, timeline: Timeline, warnings: list[str]) -> Outcome:
    """Apply one document as `kubectl apply --server-side` would; a refusal is an outcome, not an end."""
    obj = document.data
    warnings.clear()
    try:
        resource = await client.resource_of(obj)
        before = await _version(client, resource, obj)
        with timeline.author(client.field_manager):
            applied = await client.apply(obj, resource=resource)
        if resource.kind == _CRD:
            await _until_served(client, applied)
        elif resource.kind == _GRAPH:
            await _until_judged(client, resource, applied)
    except SliceworksError as error:
        metadata = obj["metadata"]
        timeline.add("refused", obj["kind"], metadata.get("namespace") or "", metadata["name"], by="sliceworks", note=error.message)
        return Outcome(document, "refused", error.message, warnings=list(warnings))
    after = applied["metadata"].get("resourceVersion")
    return Outcome(
        document, "created" if before is None else "unchanged" if before == after else "changed", warnings=list(warnings)
    )


async def _version(client: Client, resource: Resource, obj: dict[str, Any]) -> str | None:
    found = await _read(client, resource, obj)
    return str(found["metadata"].get("resourceVersion")) if found else None


async def _read(client: Client, resource: Resource, obj: dict[str, Any]) -> dict[str, Any] | None:
    key = key_of(obj)
    try:
        return await client.get(resource, key.name, key.namespace or None)
    except ApiError as error:
        if error.code == 404:
            return None
        raise


async def _until_served(client: Client, crd: dict[str, Any]) -> None:
    """Wait until objects of a new kind are taken."""
    resource = await client.resource_of(crd)
    async with asyncio.timeout(_PATIENCE):
        while "Established" not in held_conditions(await client.get(resource, crd["metadata"]["name"])):
            await clock.sleep(_POLL)
    client.discovery.invalidate()


async def _until_judged(client: Client, resource: Resource, graph: dict[str, Any]) -> None:
    """Wait until a graph serves or is refused: an instance may be the next document."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            while not _is_judged(await client.get(resource, graph["metadata"]["name"])):
                await clock.sleep(_POLL)
    client.discovery.invalidate()


def _is_judged(graph: dict[str, Any]) -> bool:
    refused = (condition(graph, kind).get("status") == "False" for kind in ("GraphAccepted", "KindReady"))
    return is_true(graph, "Ready") or any(refused)


async def _state(client: Client, outcome: Outcome) -> str:
    """How the object stands at the end, in a few words."""
    if outcome.result == "refused":
        return ""
    found = await _read(client, await client.resource_of(outcome.document.data), outcome.document.data)
    return standing(found) if found else "gone"
