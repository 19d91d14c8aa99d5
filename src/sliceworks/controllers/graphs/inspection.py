"""Reads an instance and its objects for `graph status`, `graph diff` and the console: states and differences. Read-only."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sliceworks.base.errors import Conflict, Forbidden, Invalid, NotFound
from sliceworks.controllers.graphs import object_cache, well_known
from sliceworks.controllers.graphs.applyset import compute_id
from sliceworks.controllers.graphs.completion import CompletedObjects
from sliceworks.graph import diff, templates
from sliceworks.graph.diagram import EXCLUDED, FAILED, MISSING, PENDING, READY
from sliceworks.graph.evaluation import Evaluation
from sliceworks.graph.model import Desired, EvaluationFailed, Excluded, Lookup
from sliceworks.graph.renderer import EXCLUDED as NOT_RENDERED
from sliceworks.graph.renderer import render
from sliceworks.kube.resources import resource_of_crd
from sliceworks.kube.selectors import from_label_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.graph.diff import Difference
    from sliceworks.graph.model import Graph, Node, Object, Outcome
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Resource


async def find_instance(client: Client, graph: Graph, name: str, namespace: str) -> Object:
    """An instance by name; raises NotFound."""
    return await client.get(resource_of_crd(graph.crd), name, namespace)


async def list_children(client: Client, instance: Object) -> dict[str, list[Object]]:
    """The objects with the instance's labels, by the id of their resource."""
    annotations = instance["metadata"].get("annotations") or {}
    children: dict[str, list[Object]] = {}
    for entry in filter(None, str(annotations.get(well_known.GROUP_KINDS) or "").split(",")):
        resource = await _resource(client, entry)
        if resource is not None:
            listed = await client.list(resource, labels=f"{well_known.INSTANCE_ID}={instance['metadata']['uid']}")
            for obj in listed.items:
                children.setdefault((obj["metadata"].get("labels") or {}).get(well_known.NODE_ID, ""), []).append(obj)
    return children


async def _resource(client: Client, name: str) -> Resource | None:
    """The resource of `Kind.group`; None if the cluster does not serve it."""
    try:
        return await client.discovery.find(name)
    except NotFound:
        return None


async def observe(client: Client, graph: Graph, instance: Object) -> tuple[dict[str, list[Object]], dict[str, str]]:
    """The objects of each resource, including external ones, and its state."""
    children = await list_children(client, instance)
    evaluation = Evaluation(graph, instance)
    objects_by_node: dict[str, list[Object]] = {}
    states: dict[str, str] = {}
    for node in graph.nodes:
        try:
            outcome = evaluation.resolve(node)
            objects_by_node[node.id] = await _read_objects(client, node, outcome, children) or _completed_objects(
                node, outcome, instance
            )
            evaluation.observe(node.id, objects_by_node[node.id])
            pending = evaluation.readiness(node)
        except EvaluationFailed:
            states[node.id] = FAILED
            objects_by_node.setdefault(node.id, children.get(node.id, []))
            continue
        if isinstance(outcome, Excluded):
            states[node.id] = EXCLUDED
        elif not objects_by_node[node.id] and pending is not None:
            states[node.id] = MISSING
        else:
            states[node.id] = READY if pending is None else PENDING
    return objects_by_node | {name: objects for name, objects in children.items() if name not in objects_by_node}, states


async def compare(client: Client, graph: Graph, desired: Object) -> list[Difference]:
    """What the controller does when this version of an instance is applied; without such an instance, everything is new."""
    metadata = desired["metadata"]
    if resource_of_crd(graph.crd).namespaced:
        metadata = {"namespace": client.namespace, **metadata}
    instance = {**desired, "metadata": metadata}
    with suppress(NotFound):
        live = await find_instance(client, graph, metadata["name"], metadata.get("namespace") or "")
        instance = {**desired, "metadata": {**live["metadata"], **metadata}}
    observed, _ = await observe(client, graph, instance)
    external = {node.id for node in graph.nodes if node.type.is_external}
    rendered = [item for item in render(graph, instance, observed) if item.state != NOT_RENDERED and item.node.id not in external]
    before = {name: objects for name, objects in observed.items() if name not in external}
    for item in rendered:  # objects of the same name may exist although some of their values are still unknown
        if not before.get(item.node.id):
            before[item.node.id] = await _find_objects(client, item.node, item.objects)
    after = {item.node.id: item.objects for item in rendered}
    lifecycles = {node.id: node.lifecycle for node in graph.nodes}
    differences: list[Difference] = []
    blocked: set[str] = set()
    for difference in diff.compare(before, after, lifecycles=lifecycles, owned=owned_fields):
        node = next((node for node in graph.nodes if node.id == difference.node), None)
        reason = ""
        if node is not None and difference.action != diff.KEEP and (missing := blocked.intersection(node.dependencies)):
            reason = f"it needs {min(missing)}"
        elif node is not None:
            reason = await _owner_conflict(client, node, instance, difference)
        if reason:
            blocked.add(difference.node)
        differences.append(replace(difference, action=diff.REFUSE, reason=reason) if reason else difference)
    return differences


async def _owner_conflict(client: Client, node: Node, instance: Object, difference: Difference) -> str:
    """Why the controller may not apply an object that another instance or another manager owns, if so."""
    live = difference.before
    labels = live.get("metadata", {}).get("labels") or {}
    if labels.get(well_known.PART_OF, compute_id(instance)) != compute_id(instance):
        place = "/".join(filter(None, (labels.get(well_known.INSTANCE_NAMESPACE), labels.get(well_known.INSTANCE_NAME))))
        return f"it belongs to {labels.get(well_known.INSTANCE_KIND)} {place}"
    if difference.action != diff.CHANGE or owned_fields(live):
        return ""
    is_adopted = (instance["metadata"].get("annotations") or {}).get(well_known.ADOPT) == "true"
    if is_adopted or node.lifecycle.on_delete == "restore":
        return ""
    try:
        await client.apply(difference.obj, resource=node.kind.resource, field_manager=well_known.APPLYSET, dry_run=True)
    except Conflict as conflict:
        return conflict.message
    except (Forbidden, Invalid):
        pass  # without permission to write, or with values that are still unknown, the API server cannot tell
    return ""


def owned_fields(obj: Object) -> Object:
    """The fields of a live object that its template set, without the labels and annotations that the controller adds."""
    fields = object_cache.own_fields(obj["metadata"].get("managedFields") or ()) or {}
    metadata = {name: value for name, value in (fields.get("f:metadata") or {}).items() if name != "f:finalizers"}
    for name, own in (("f:labels", well_known.OWN_LABELS), ("f:annotations", well_known.OWN_ANNOTATIONS)):
        remaining = {key: value for key, value in metadata.pop(name, {}).items() if key.removeprefix("f:") not in own | {"."}}
        if remaining:
            metadata[name] = remaining
    return {**fields, "f:metadata": metadata} if fields else {}


def _completed_objects(node: Node, outcome: Outcome, instance: Object) -> list[Object]:
    """Completed objects that were deleted since, in their last state."""
    if node.lifecycle.on_complete != "keep" or not isinstance(outcome, Desired):
        return []
    completed = CompletedObjects(instance)
    return [obj for desired in outcome.objects if (obj := completed.find(desired)) is not None]


async def _find_objects(client: Client, node: Node, objects: Sequence[Object]) -> list[Object]:
    """The live objects with the same names, if these are known."""
    keys = [(obj["metadata"]["name"], obj["metadata"].get("namespace")) for obj in objects]
    live = [
        await client.find(node.kind.resource, *key) for key in keys if not templates.has_expressions("/".join(filter(None, key)))
    ]
    return [obj for obj in live if obj is not None]


async def _read_objects(client: Client, node: Node, outcome: Outcome, children: dict[str, list[Object]]) -> list[Object]:
    resource = node.kind.resource
    if isinstance(outcome, Lookup) and outcome.selector is not None:
        listed = await client.list(resource, outcome.namespace or None, labels=from_label_selector(outcome.selector))
        return list(listed.items)
    missing = [(outcome.namespace, outcome.name)] if isinstance(outcome, Lookup) else []
    if isinstance(outcome, Desired):
        existing = {(obj["metadata"].get("namespace") or "", obj["metadata"]["name"]) for obj in children.get(node.id, ())}
        keys = [(obj["metadata"].get("namespace") or "", obj["metadata"]["name"]) for obj in outcome.objects]
        missing = [key for key in keys if key not in existing]
    objects = list(children.get(node.id, ()))
    for namespace, name in missing:
        if (obj := await client.find(resource, name, namespace or None)) is not None:
            objects.append(obj)
    return objects
