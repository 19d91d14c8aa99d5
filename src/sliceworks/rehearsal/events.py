"""Events of a Scenario: planned as timed actions, then run through a client at their times.

A refused action is reported, and the run continues. Nodes and pods fail by annotations that the twin's nodes interpret.
"""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration, yaml_documents
from sliceworks.base.errors import InvalidDocument, NotFound, SliceworksError
from sliceworks.kube.https import open_client
from sliceworks.kube.resources import NODE, POD, Key, key_of
from sliceworks.kube.selectors import from_labels
from sliceworks.platform import twin_clock
from sliceworks.platform.loader import expand, substitute_document_index, substitute_index
from sliceworks.rehearsal import event_actions
from sliceworks.specs.scenario import (
    Apply,
    CloudFault,
    EndCloudFault,
    Event,
    FailNodes,
    FailPods,
    Patch,
    Selector,
    SetCloud,
    SlowPulls,
    Submit,
    Target,
    Trace,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from sliceworks.base.yaml_documents import Document
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Resource
    from sliceworks.specs.scenario import Scenario

Obj = dict[str, Any]
_STATE, _PULL, _FAIL, _EXIT = (f"sliceworks.dev/{name}" for name in ("state", "image-pull-seconds", "fail", "exit-code"))
_NODE_STATES = {"Failure": "silent", "SpotPreemption": "preempted", "Maintenance": "maintenance"}
_POD_FAILURES = {"Error": "crash", "OOMKilled": "oom"}


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An action at `at` seconds from the start, with its description."""

    at: float
    description: str
    act: Callable[[Client], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class EventResult:
    """Result of an action; `refused` is the error message if it failed."""

    at: float
    description: str
    refused: str = ""


async def run_events(
    steps: list[PlannedEvent],
    client: Client,
    sleep: Callable[[float], Awaitable[None]],
    *,
    on_result: Callable[[EventResult], None],
) -> None:
    """Run actions at their times; `sleep` waits in twin time."""
    passed = 0.0
    for step in steps:
        if step.at > passed:
            await sleep(step.at - passed)
            passed = step.at
        try:
            await step.act(client)
        except SliceworksError as error:
            on_result(EventResult(step.at, step.description, error.message))
        else:
            on_result(EventResult(step.at, step.description))


async def inject(client: Client, scenario: Scenario, folder: Path, on_result: Callable[[EventResult], None]) -> None:
    """Run the events of a scenario on a running twin, in the twin's time; returns after the last one."""
    planned = plan_events(scenario, folder, random.Random(scenario.spec.seed))
    await run_events(planned, client, partial(twin_clock.sleep, client), on_result=on_result)


def inject_by_kubeconfig(kubeconfig: Path, scenario: Scenario, folder: Path, on_result: Callable[[EventResult], None]) -> None:
    """`inject`, with the client of a kubeconfig."""

    async def main() -> None:
        async with open_client(kubeconfig) as client:
            await inject(client, scenario, folder, on_result)

    clock.run(main())


def plan_events(scenario: Scenario, folder: Path, rng: random.Random) -> list[PlannedEvent]:
    """All actions of a scenario, ordered by time. Reads all files, so that invalid ones are reported before the run."""
    steps = [step for event in scenario.spec.events for step in _steps(event, folder, rng)]
    return sorted((step for step in steps if step.at <= scenario.spec.duration), key=lambda step: step.at)


def load_event_documents(scenario: Scenario, folder: Path) -> list[Document]:
    """The documents of the files that a scenario applies or submits."""
    files = [action.file for _, action in (event.action for event in scenario.spec.events) if isinstance(action, Apply | Submit)]
    return [document for file in dict.fromkeys(files) for document in yaml_documents.load_path(folder / file)]


def _steps(event: Event, folder: Path, rng: random.Random) -> Iterator[PlannedEvent]:
    _, action = event.action
    if isinstance(action, Submit):
        yield from _submissions(event.at, action, folder, rng)
    elif isinstance(action, Trace):
        yield from _trace_submissions(event.at, folder / action.file, folder)
    elif isinstance(action, Apply):
        documents = yaml_documents.load_path(folder / action.file)
        for document in (expanded for item in documents for expanded in expand(item, folder)):
            yield PlannedEvent(event.at, f"apply {document.name}", _apply(document.data))
    elif isinstance(action, FailNodes):
        yield from _node_states(event.at, action, rng)
    elif isinstance(action, FailPods):
        yield PlannedEvent(event.at, f"fail pods {_describe_selector(action.pods)}", _fail_pods(action, rng))
    elif isinstance(action, SlowPulls):
        yield from _slow_pulls(event.at, action, rng)
    elif isinstance(action, event_actions.QueueAction):
        yield PlannedEvent(event.at, event_actions.describe_queue_action(action), event_actions.prepare_queue_action(action))
    elif isinstance(action, Patch):
        yield PlannedEvent(event.at, f"patch {action.kind}/{action.name}", _patch(action))
    elif isinstance(action, CloudFault | EndCloudFault | SetCloud):
        yield PlannedEvent(event.at, event_actions.describe_cloud_action(action), event_actions.prepare_cloud_action(action))
    elif isinstance(action, Target):
        yield PlannedEvent(event.at, f"delete {action.kind}/{action.name}", _delete(action))


def _submissions(at: float, submit: Submit, folder: Path, rng: random.Random) -> Iterator[PlannedEvent]:
    documents = yaml_documents.load_path(folder / submit.file)
    for number in range(1, submit.count + 1):
        for obj in (item.data for document in documents for item in expand(substitute_document_index(document, number), folder)):
            if submit.namespace:
                obj["metadata"]["namespace"] = submit.namespace
            yield PlannedEvent(at, f"submit {obj['kind']}/{obj['metadata'].get('name')}", _create(obj))
        if submit.every is not None:
            at += submit.every
        elif submit.rate is not None:
            at += rng.expovariate(submit.rate / 3600)


def _trace_submissions(start: float, file: Path, folder: Path) -> Iterator[PlannedEvent]:
    try:
        rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDocument(f"cannot read: {error}", place=str(file)) from error
    for line, row in enumerate(rows, start=2):
        place = f"{file}:{line}"
        if not row.get("at") or not row.get("file"):
            raise InvalidDocument("a trace requires the columns at and file", place=place)
        try:
            at = start + duration.parse(row["at"])
        except ValueError as error:
            raise InvalidDocument(str(error), place=place) from error
        for document in yaml_documents.load_path(folder / row["file"]):
            obj = substitute_index(document.data, line - 1)
            obj["metadata"] = {**obj["metadata"], **{field: row[field] for field in ("name", "namespace") if row.get(field)}}
            yield PlannedEvent(at, f"submit {obj['kind']}/{obj['metadata'].get('name')}", _create(obj))


def _node_states(at: float, action: FailNodes, rng: random.Random) -> Iterator[PlannedEvent]:
    chosen: list[Key] = []
    originals: list[Obj] = []
    state = _NODE_STATES[action.reason]
    seconds = {} if action.duration is None else {"sliceworks.dev/maintenance-seconds": f"{action.duration:g}"}

    async def fail(client: Client) -> None:
        chosen.extend(await _select(client, NODE, action.nodes, rng))
        originals.extend([await client.get(NODE, key.name) for key in chosen])
        await _annotate(client, NODE, chosen, {_STATE: state, **seconds})

    async def restore(client: Client) -> None:
        for key, node in zip(chosen, originals, strict=True):
            try:
                await _annotate(client, NODE, [key], {_STATE: None})
            except NotFound:
                # The preempted machine was deleted: create a replacement.
                await client.create(_replacement(node), resource=NODE)

    yield PlannedEvent(at, f"{action.reason} of nodes {_describe_selector(action.nodes)}", fail)
    if action.duration is not None and state != "maintenance":
        yield PlannedEvent(at + action.duration, f"nodes {_describe_selector(action.nodes)} recover", restore)


def _replacement(node: Obj) -> Obj:
    metadata = {name: value for name, value in node["metadata"].items() if name in {"name", "labels", "annotations"}}
    status = {name: value for name, value in node["status"].items() if name in {"capacity", "allocatable", "addresses"}}
    spec = {name: value for name, value in node["spec"].items() if name != "taints"}
    taints = [taint for taint in node["spec"].get("taints") or () if not taint["key"].startswith("node.kubernetes.io/")]
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {**spec, "taints": taints}, "status": status}


def _slow_pulls(at: float, action: SlowPulls, rng: random.Random) -> Iterator[PlannedEvent]:
    chosen: list[Key] = []

    async def slow_down(client: Client) -> None:
        chosen.extend(await _select(client, NODE, action.nodes, rng))
        await _annotate(client, NODE, chosen, {_PULL: f"{action.seconds:g}"})

    async def restore(client: Client) -> None:
        await _annotate(client, NODE, chosen, {_PULL: None})

    yield PlannedEvent(at, f"image pulls take {action.seconds:g} s on nodes {_describe_selector(action.nodes)}", slow_down)
    if action.duration is not None:
        yield PlannedEvent(at + action.duration, f"image pulls are fast again on nodes {_describe_selector(action.nodes)}", restore)


def _fail_pods(action: FailPods, rng: random.Random) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        chosen = await _select(client, POD, action.pods, rng, action.namespace or None)
        await _annotate(client, POD, chosen, {_FAIL: _POD_FAILURES[action.reason], _EXIT: str(action.exit_code)})

    return act


async def _select(
    client: Client, resource: Resource, selector: Selector, rng: random.Random, namespace: str | None = None
) -> list[Key]:
    """Keys of the objects that a selector matches."""
    listed = await client.list_all(resource, namespace, labels=from_labels(selector.labels))
    keys = [key for item in listed.items if (key := key_of(item)).name in selector.names or not selector.names]
    missing = sorted(set(selector.names) - {key.name for key in keys})
    if missing:
        raise SliceworksError(f"{resource.kind} not found: {', '.join(missing)}")
    if selector.count is None or selector.count >= len(keys):
        return keys
    return sorted(rng.sample(keys, selector.count))


async def _annotate(client: Client, resource: Resource, keys: list[Key], annotations: Obj) -> None:
    for key in keys:
        await client.patch(resource, key.name, {"metadata": {"annotations": annotations}}, key.namespace or None)


def _create(obj: Obj) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        await client.create(obj)

    return act


def _apply(obj: Obj) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        await client.apply(obj, force=True)

    return act


def _patch(action: Patch) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        resource = await client.resource_of({"apiVersion": action.api_version, "kind": action.kind})
        await client.patch(resource, action.name, action.patch, action.namespace or None, subresource=action.subresource)

    return act


def _delete(action: Target) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        resource = await client.resource_of({"apiVersion": action.api_version, "kind": action.kind})
        await client.delete(resource, action.name, action.namespace or None)

    return act


def _describe_selector(selector: Selector) -> str:
    parts = [*selector.names, *(f"{key}={value}" for key, value in selector.labels.items())]
    if selector.count is not None:
        parts.insert(0, f"{selector.count} of" if parts else f"{selector.count} at random")
    return " ".join(parts)
