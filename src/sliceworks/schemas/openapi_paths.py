"""The `paths` of an OpenAPI v3 document: one operation for each verb of each resource, with the parameters clients look for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sliceworks.schemas.model import REFERENCE

Node = dict[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_STRING, _INTEGER, _BOOLEAN = "string", "integer", "boolean"
_WRITE = {"dryRun": _STRING, "fieldManager": _STRING, "fieldValidation": _STRING}
_SELECT = {
    "continue": _STRING,
    "fieldSelector": _STRING,
    "labelSelector": _STRING,
    "limit": _INTEGER,
    "resourceVersion": _STRING,
    "resourceVersionMatch": _STRING,
    "sendInitialEvents": _BOOLEAN,
    "timeoutSeconds": _INTEGER,
}
_REMOVE = {"dryRun": _STRING, "gracePeriodSeconds": _INTEGER, "orphanDependents": _BOOLEAN, "propagationPolicy": _STRING}
_PARAMETERS: dict[str, dict[str, str]] = {
    "get": {},
    "list": {"allowWatchBookmarks": _BOOLEAN, **_SELECT, "watch": _BOOLEAN},
    "create": _WRITE,
    "update": _WRITE,
    "patch": {**_WRITE, "force": _BOOLEAN},
    "delete": _REMOVE,
    "deletecollection": {**_SELECT, **_REMOVE},
    "connect": {},
}
# Verb of discovery → HTTP method, first word of the operation's name, x-kubernetes-action.
_VERBS = {
    "get": ("get", "read", "get"),
    "list": ("get", "list", "list"),
    "create": ("post", "create", "post"),
    "update": ("put", "replace", "put"),
    "patch": ("patch", "patch", "patch"),
    "delete": ("delete", "delete", "delete"),
    "deletecollection": ("delete", "delete", "deletecollection"),
}
_CODES = {"create": ("200", "201", "202"), "update": ("200", "201"), "patch": ("200", "201"), "delete": ("200", "202")}
_PATCHES = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")


@dataclass(frozen=True, slots=True)
class Served:
    """One resource or subresource as the paths need it."""

    kind: dict[str, str]
    verbs: tuple[str, ...]
    component: str
    list_component: str = ""
    strategic: bool = True
    name: str = ""
    below: tuple[Served, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Place:
    """Where a group version lives, and how its operations are named."""

    base: str
    tag: str
    words: str


def place(group: str, version: str) -> Place:
    short = group.removesuffix(".k8s.io").partition(".")[0] or "core"
    words = "".join(part[:1].upper() + part[1:] for part in [*short.split("-"), version])
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return Place(base, f"{short}_{version}", words)


def resource_paths(where: Place, plural: str, namespaced: bool, served: Served) -> dict[str, Node]:
    """All paths of one resource."""
    scope = "Namespaced" if namespaced else ""
    kind = served.kind["kind"]
    inside = f"{where.base}/namespaces/{{namespace}}/{plural}" if namespaced else f"{where.base}/{plural}"
    paths = {inside: _item(where, served, ("list", "create", "deletecollection"), f"{scope}{kind}", ["namespace"][: bool(scope)])}
    if namespaced and "list" in served.verbs:
        everywhere = _operation(where, served, "list", f"{kind}ForAllNamespaces")
        paths[f"{where.base}/{plural}"] = {"get": everywhere, "parameters": _path_parameters([])}
    names = ["name", *(["namespace"] if namespaced else [])]
    paths[f"{inside}/{{name}}"] = _item(where, served, ("get", "update", "delete", "patch"), f"{scope}{kind}", names)
    for below in served.below:
        title = f"{scope}{kind}{below.name[:1].upper()}{below.name[1:]}"
        paths[f"{inside}/{{name}}/{below.name}"] = _item(where, below, ("get", "create", "update", "delete", "patch"), title, names)
    return {path: item for path, item in paths.items() if set(item) - {"parameters"}}


def _item(where: Place, served: Served, verbs: tuple[str, ...], title: str, names: list[str]) -> Node:
    item: Node = {_VERBS[verb][0]: _operation(where, served, verb, title) for verb in verbs if verb in served.verbs}
    item["parameters"] = _path_parameters(names)
    return item


def _path_parameters(names: list[str]) -> list[Node]:
    own: list[Node] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}} for name in names
    ]
    return [*own, _parameter("pretty", _STRING)]


def _parameter(name: str, kind: str) -> Node:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _operation(where: Place, served: Served, verb: str, title: str) -> Node:
    method, word, action = _VERBS[verb]
    collection = "Collection" if verb == "deletecollection" else ""
    if not served.component:
        # A stream below an object has options, not a schema: its operations are all called "connect".
        word, action, collection, verb = "connect", "connect", method.capitalize(), "connect"
    operation: Node = {
        "tags": [where.tag],
        "operationId": f"{word}{where.words}{collection}{title}",
        "parameters": [_parameter(name, kind) for name, kind in _PARAMETERS[verb].items()],
        "responses": _responses(served, verb),
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": served.kind,
    }
    body = _request_body(served, verb)
    if body is not None:
        operation["requestBody"] = body
    return operation


def _responses(served: Served, verb: str) -> Node:
    component = served.component
    if verb == "list":
        component = served.list_component
    elif verb in ("delete", "deletecollection"):
        component = _META + "Status"
    types = ["application/json", "application/yaml", *(["application/json;stream=watch"] if verb == "list" else [])]
    found: Node = {"description": "OK"}
    if component:
        found["content"] = {media: _schema(component) for media in types}
    return {**dict.fromkeys(_CODES.get(verb, ("200",)), found), "401": {"description": "Unauthorized"}}


def _request_body(served: Served, verb: str) -> Node | None:
    if verb in ("create", "update") and served.component:
        return {"content": {"*/*": _schema(served.component)}, "required": True}
    if verb in ("delete", "deletecollection"):
        return {"content": {"*/*": _schema(_META + "DeleteOptions")}}
    if verb == "patch":
        kinds = [*_PATCHES, *(["application/strategic-merge-patch+json"] if served.strategic else [])]
        return {"content": {media: _schema(_META + "Patch") for media in kinds}, "required": True}
    return None


def _schema(component: str) -> Node:
    return {"schema": {"$ref": REFERENCE + component}}
