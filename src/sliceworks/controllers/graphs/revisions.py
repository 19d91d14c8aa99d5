"""GraphRevisions: an immutable copy of each accepted version of a definition. The newest that compiles is the one that serves."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson

from sliceworks.controllers.graphs import labels, names
from sliceworks.controllers.graphs.conditions import Conditions
from sliceworks.kube.resources import owner_reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.graph.model import Graph
    from sliceworks.kube.resources import Object

_LONGEST = 253
_VERIFIED = "GraphVerified"


def digest(spec: Object) -> str:
    """Equal for specs that mean the same: the order of resources and of their conditions does not count."""
    resources = [_normal(item) for item in spec.get("resources") or ()]
    normal = {**spec, "resources": sorted(resources, key=lambda item: str(item.get("id")))}
    return hashlib.blake2b(orjson.dumps(normal, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()


def revision_name(definition: str, revision: int) -> str:
    """`<definition>-r00001`; a name that is too long is cut and told apart by a hash."""
    suffix = f"-r{revision:05d}"
    if len(definition) + len(suffix) <= _LONGEST:
        return definition + suffix
    suffix += f"-{_fnv32a(definition):08x}"
    return (definition[: _LONGEST - len(suffix)].rstrip(".-") or "gr") + suffix


def snapshot(definition: Object, revision: int, spec_digest: str) -> Object:
    """The GraphRevision of a definition as it stands."""
    metadata = definition["metadata"]
    return {
        "apiVersion": names.GRAPH_REVISION.api_version,
        "kind": names.GRAPH_REVISION.kind,
        "metadata": {
            "name": revision_name(metadata["name"], revision),
            "finalizers": [names.FINALIZER],
            "labels": {**labels.own_labels(), names.DEFINITION_NAME: metadata["name"], names.REVISION_HASH: spec_digest},
            "ownerReferences": [owner(definition)],
        },
        "spec": {
            "revision": revision,
            "snapshot": {"name": metadata["name"], "generation": metadata.get("generation", 1), "spec": definition["spec"]},
        },
    }


def owner(definition: Object) -> Object:
    """The reference that makes a revision go with its definition."""
    return owner_reference(definition, controller=True, block=False)


def status(revision: Object, graph: Graph) -> Object:
    """The status of a revision that compiled."""
    conditions = Conditions(revision, (_VERIFIED,))
    conditions.true(_VERIFIED, "Verified", "graph revision compiled and verified")
    made: Object = {"conditions": conditions.items, "topologicalOrder": list(graph.order)}
    if resources := resource_information(graph):
        made["resources"] = resources
    return made


def resource_information(graph: Graph) -> list[Object]:
    """What each resource waits for, as the status tells it."""
    return [
        {"id": node.id, "dependencies": [{"id": name} for name in node.dependencies]} for node in graph.nodes if node.dependencies
    ]


def number(revision: Object) -> int:
    """The number of a revision."""
    return int(revision["spec"]["revision"])


def superfluous(revisions: Sequence[Object], kept: int) -> list[Object]:
    """The oldest ones beyond those that are kept."""
    return sorted(revisions, key=number)[: max(0, len(revisions) - kept)] if kept > 0 else []


def _normal(resource: Object) -> Object:
    return {**resource, **{name: sorted(resource.get(name) or ()) for name in ("readyWhen", "includeWhen")}}


def _fnv32a(text: str) -> int:
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value
