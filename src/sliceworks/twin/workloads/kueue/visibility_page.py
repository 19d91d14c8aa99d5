"""How the visibility API shows itself: what discovery says of it, and its OpenAPI documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.builtins import OBJECT_META
from sliceworks.schemas.openapi import aggregated_document
from sliceworks.twin.api.pages import Page
from sliceworks.twin.api.resources import Resource, Subresource, Version
from sliceworks.twin.api.strategies import Strategy
from sliceworks.twin.workloads.kueue.visibility import BELOW, GROUP, KIND, VERSIONS, Visibility

if TYPE_CHECKING:
    from sliceworks.schemas.structural import Schema
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.kueue.keys import Obj


def page(world: World) -> Page:
    """The API as the twin's server shows it."""
    return Page(Visibility(world).answer, (_resource("clusterqueue", False), _resource("localqueue", True)), _document)


def _resource(singular: str, namespaced: bool) -> Resource:
    """Only what lies below an object can be asked for; the object itself has no verbs."""
    versions = {name: Version(name, _unused, {BELOW: Subresource(BELOW, KIND, ("get",), GROUP, name)}) for name in VERSIONS}
    return Resource(GROUP, KIND, f"{singular}s", singular, namespaced, versions, VERSIONS[0], "", Strategy())


def _unused() -> Schema:
    raise KeyError(f"nothing of {GROUP} is ever written")


def _document(version: str) -> bytes:
    home, base = "io.k8s.sigs.kueue.apis.visibility", f"/apis/{GROUP}/{version}"
    summary = {"$ref": f"#/components/schemas/{home}.{version}.{KIND}"}
    operation = {
        "tags": [f"visibilityKueueXK8sIo_{version}"],
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": summary}}}},
        "x-kubernetes-action": "get",
        "x-kubernetes-group-version-kind": {"group": GROUP, "version": version, "kind": KIND},
    }
    name = f"readVisibilityKueueXK8sIo{version.capitalize()}"
    paths: dict[str, Obj] = {
        f"{base}/clusterqueues/{{name}}/{BELOW}": _path({**operation, "operationId": f"{name}{KIND}Pendingworkloads"}, "name"),
        f"{base}/namespaces/{{namespace}}/localqueues/{{name}}/{BELOW}": _path(
            {**operation, "operationId": f"{name}Namespaced{KIND}Pendingworkloads"}, "name", "namespace"
        ),
    }
    return aggregated_document(GROUP, version, paths, _components(f"{home}.{version}", version))


def _path(operation: Obj, *names: str) -> Obj:
    place = [{"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}} for name in names]
    query = [{"name": name, "in": "query", "schema": {"type": "integer", "uniqueItems": True}} for name in ("limit", "offset")]
    return {"get": operation, "parameters": [*place, *query]}


def _components(home: str, version: str) -> dict[str, Obj]:
    metadata = {"default": {}, "allOf": [{"$ref": f"#/components/schemas/{OBJECT_META}"}]}
    number = {"type": "integer", "format": "int32", "default": 0}
    row = dict.fromkeys(("priority", "positionInClusterQueue", "positionInLocalQueue"), number)
    waiting = {"default": {}, "allOf": [{"$ref": f"#/components/schemas/{home}.PendingWorkload"}]}
    text = {"type": "string"}
    return {
        f"{home}.PendingWorkload": {
            "type": "object",
            "required": ["priority", "localQueueName", "positionInClusterQueue", "positionInLocalQueue"],
            "properties": {"metadata": metadata, "localQueueName": {**text, "default": ""}, **row},
        },
        f"{home}.{KIND}": {
            "type": "object",
            "required": ["items"],
            "properties": {"apiVersion": text, "kind": text, "metadata": metadata, "items": {"type": "array", "items": waiting}},
            "x-kubernetes-group-version-kind": [{"group": GROUP, "kind": KIND, "version": version}],
        },
    }
