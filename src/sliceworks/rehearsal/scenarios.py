"""Plays a Scenario on a cluster: everything that is to happen, in its order, at its time.

What happens is worked out first, as a list of steps; then each step is carried out through the client when its time has come. A
step that is refused is noted, and the day goes on. Nodes and pods fail by annotations that the twin's nodes understand.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import duration, yamls
from sliceworks.base.errors import InvalidDocument, NotFound, SliceworksError
from sliceworks.base.yamls import Document
from sliceworks.kube.resources import GVK, Key, key_of
from sliceworks.kube.selectors import from_labels
from sliceworks.kube.well_known import NODE, POD
from sliceworks.rehearsal import clouds, queue_steps
from sliceworks.rehearsal.documents import objects
from sliceworks.specs.clouds import CloudFault, EndCloudFault, SetCloud
from sliceworks.specs.scenario import (
    Apply,
    Event,
    FailNodes,
    FailPods,
    Patch,
    Selector,
    SlowPulls,
    Submit,
    Target,
    Trace,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Resource
    from sliceworks.specs.scenario import Scenario

Obj = dict[str, Any]
_STATE, _PULL, _FAIL, _EXIT = (f"sliceworks.dev/{name}" for name in ("state", "image-pull-seconds", "fail", "exit-code"))
_NODE_STATES = {"Failure": "silent", "SpotPreemption": "preempted", "Maintenance": "maintenance"}
_POD_FAILURES = {"Error": "crash", "OOMKilled": "oom"}


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the day: `at` seconds from its beginning, what it is in words, and how it is done."""

    at: float
    what: str
    act: Callable[[Client], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Happening:
    """A step that was carried out, or refused for a reason."""

    at: float
    what: str
    refused: str = ""


async def play(
    steps: list[Step], client: Client, sleep: Callable[[float], Awaitable[None]], *, told: Callable[[Happening], None]
) -> None:
    """Carry out steps at their times; `sleep` waits in the cluster's time."""
    passed = 0.0
    for step in steps:
        if step.at > passed:
            await sleep(step.at - passed)
            passed = step.at
        try:
            await step.act(client)
        except SliceworksError as error:
            told(Happening(step.at, step.what, error.message))
        else:
            told(Happening(step.at, step.what))


def plan(scenario: Scenario, folder: Path, random: random.Random) -> list[Step]:
    """Everything that is to happen, in order. Files are read now: what is wrong with them is known before anything starts."""
    steps = [step for event in scenario.spec.events for step in _steps(event, folder, random)]
    return sorted((step for step in steps if step.at <= scenario.spec.duration), key=lambda step: step.at)


def later_documents(scenario: Scenario, folder: Path) -> list[Document]:
    """The documents of the files that a scenario applies or submits."""
    files = [action.file for _, action in (event.action for event in scenario.spec.events) if isinstance(action, Apply | Submit)]
    return [document for file in dict.fromkeys(files) for document in yamls.load_path(folder / file)]


def _steps(event: Event, folder: Path, random: random.Random) -> Iterator[Step]:
    _, action = event.action
    if isinstance(action, Submit):
        yield from _submissions(event.at, action, folder, random)
    elif isinstance(action, Trace):
        yield from _traced(event.at, folder / action.file, folder)
    elif isinstance(action, Apply):
        written = yamls.load_path(folder / action.file)
        for document in (each for one in written for each in objects(one, folder)):
            yield Step(event.at, f"apply {document.name}", _applying(document.data))
    elif isinstance(action, FailNodes):
        yield from _node_states(event.at, action, random)
    elif isinstance(action, FailPods):
        yield Step(event.at, f"fail pods {_spoken(action.pods)}", _failing_pods(action, random))
    elif isinstance(action, SlowPulls):
        yield from _slow_pulls(event.at, action, random)
    elif isinstance(action, queue_steps.QueueAction):
        yield Step(event.at, queue_steps.spoken(action), queue_steps.acting(action))
    elif isinstance(action, Patch):
        yield Step(event.at, f"patch {action.kind}/{action.name}", _patching(action))
    elif isinstance(action, CloudFault | EndCloudFault | SetCloud):
        yield Step(event.at, clouds.spoken(action), clouds.acting(action))
    elif isinstance(action, Target):
        yield Step(event.at, f"delete {action.kind}/{action.name}", _deleting(action))


def _submissions(at: float, submit: Submit, folder: Path, random: random.Random) -> Iterator[Step]:
    written = yamls.load_path(folder / submit.file)
    for number in range(1, submit.count + 1):
        for obj in (each.data for document in written for each in objects(renumbered(document, number), folder)):
            if submit.namespace:
                obj["metadata"]["namespace"] = submit.namespace
            yield Step(at, f"submit {obj['kind']}/{obj['metadata'].get('name')}", _creating(obj))
        if submit.every is not None:
            at += submit.every
        elif submit.rate is not None:
            at += random.expovariate(submit.rate / 3600)


def renumbered(document: Document, number: int) -> Document:
    """A copy of a document in which every `{n}` has become a number."""
    return Document(numbered(document.data, number), document.file, document.line, document.lines)


def numbered(value: Any, number: int) -> Any:
    """A copy in which every `{n}` has become a number."""
    if isinstance(value, dict):
        return {key: numbered(item, number) for key, item in value.items()}
    if isinstance(value, list):
        return [numbered(item, number) for item in value]
    return value.replace("{n}", str(number)) if isinstance(value, str) else value


def _traced(start: float, file: Path, folder: Path) -> Iterator[Step]:
    try:
        rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDocument(f"cannot be read: {error}", place=str(file)) from error
    for line, row in enumerate(rows, start=2):
        place = f"{file}:{line}"
        if not row.get("at") or not row.get("file"):
            raise InvalidDocument("a trace needs the columns at and file", place=place)
        try:
            at = start + duration.parse(row["at"])
        except ValueError as error:
            raise InvalidDocument(str(error), place=place) from error
        for document in yamls.load_path(folder / row["file"]):
            obj = numbered(document.data, line - 1)
            obj["metadata"] = {**obj["metadata"], **{field: row[field] for field in ("name", "namespace") if row.get(field)}}
            yield Step(at, f"submit {obj['kind']}/{obj['metadata'].get('name')}", _creating(obj))


def _node_states(at: float, action: FailNodes, random: random.Random) -> Iterator[Step]:
    chosen: list[Key] = []
    before: list[Obj] = []
    state = _NODE_STATES[action.reason]
    seconds = {} if action.lasting is None else {"sliceworks.dev/maintenance-seconds": f"{action.lasting:g}"}

    async def fail(client: Client) -> None:
        chosen.extend(await _chosen(client, NODE, action.nodes, random))
        before.extend([await client.get(NODE, key.name) for key in chosen])
        await _annotate(client, NODE, chosen, {_STATE: state, **seconds})

    async def heal(client: Client) -> None:
        for key, node in zip(chosen, before, strict=True):
            try:
                await _annotate(client, NODE, [key], {_STATE: None})
            except NotFound:
                # A machine that was taken away is gone; another one of its kind comes in its place.
                await client.create(_another(node), resource=NODE)

    yield Step(at, f"{action.reason} of nodes {_spoken(action.nodes)}", fail)
    if action.lasting is not None and state != "maintenance":
        yield Step(at + action.lasting, f"nodes {_spoken(action.nodes)} come back", heal)


def _another(node: Obj) -> Obj:
    metadata = {name: value for name, value in node["metadata"].items() if name in {"name", "labels", "annotations"}}
    status = {name: value for name, value in node["status"].items() if name in {"capacity", "allocatable", "addresses"}}
    spec = {name: value for name, value in node["spec"].items() if name != "taints"}
    taints = [taint for taint in node["spec"].get("taints") or () if not taint["key"].startswith("node.kubernetes.io/")]
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {**spec, "taints": taints}, "status": status}


def _slow_pulls(at: float, action: SlowPulls, random: random.Random) -> Iterator[Step]:
    chosen: list[Key] = []

    async def slow(client: Client) -> None:
        chosen.extend(await _chosen(client, NODE, action.nodes, random))
        await _annotate(client, NODE, chosen, {_PULL: f"{action.seconds:g}"})

    async def over(client: Client) -> None:
        await _annotate(client, NODE, chosen, {_PULL: None})

    yield Step(at, f"images take {action.seconds:g} s on nodes {_spoken(action.nodes)}", slow)
    if action.lasting is not None:
        yield Step(at + action.lasting, f"images are quick again on nodes {_spoken(action.nodes)}", over)


def _failing_pods(action: FailPods, random: random.Random) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        chosen = await _chosen(client, POD, action.pods, random, action.namespace or None)
        await _annotate(client, POD, chosen, {_FAIL: _POD_FAILURES[action.reason], _EXIT: str(action.exit_code)})

    return act


async def _chosen(
    client: Client, resource: Resource, selector: Selector, random: random.Random, namespace: str | None = None
) -> list[Key]:
    """The objects that a selector picks."""
    found = await client.list_all(resource, namespace, labels=from_labels(selector.labels))
    keys = [key for item in found.items if (key := key_of(item)).name in selector.names or not selector.names]
    missing = sorted(set(selector.names) - {key.name for key in keys})
    if missing:
        raise SliceworksError(f"there is no {resource.kind} {', '.join(missing)}")
    if selector.count is None or selector.count >= len(keys):
        return keys
    return sorted(random.sample(keys, selector.count))


async def _annotate(client: Client, resource: Resource, keys: list[Key], annotations: Obj) -> None:
    for key in keys:
        await client.patch(resource, key.name, {"metadata": {"annotations": annotations}}, key.namespace or None)


def _creating(obj: Obj) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        await client.create(obj)

    return act


def _applying(obj: Obj) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        await client.apply(obj, force=True)

    return act


def _patching(action: Patch) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        resource = await _resource(client, action)
        await client.patch(resource, action.name, action.patch, action.namespace or None, subresource=action.subresource)

    return act


def _deleting(action: Target) -> Callable[[Client], Awaitable[None]]:
    async def act(client: Client) -> None:
        await client.delete(await _resource(client, action), action.name, action.namespace or None)

    return act


async def _resource(client: Client, target: Target) -> Resource:
    group, _, version = target.api_version.rpartition("/")
    return await client.discovery.by_gvk(GVK(group, version, target.kind))


def _spoken(selector: Selector) -> str:
    parts = [*selector.names, *(f"{key}={value}" for key, value in selector.labels.items())]
    if selector.count is not None:
        parts.insert(0, f"{selector.count} of" if parts else f"{selector.count} at random")
    return " ".join(parts)
