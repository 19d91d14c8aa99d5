"""OpenAPI v3 documents: paths and components of a group version."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.builtins import LIST_META, OBJECT_META, BuiltinResource, builtin_scheme, component_name
from sliceworks.schemas.model import REFERENCE
from sliceworks.twin.apiserver.openapi.descriptions import METADATA, TYPE_META, described

if TYPE_CHECKING:
    from collections.abc import Iterable

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
class ServedResource:
    """The properties of a resource or subresource that its paths depend on."""

    kind: dict[str, str]
    verbs: tuple[str, ...]
    component: str
    list_component: str = ""
    strategic: bool = True
    name: str = ""
    below: tuple[ServedResource, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class GroupVersionPath:
    """The base path of a group version, its tag, and its part of operation IDs."""

    base: str
    tag: str
    words: str


def group_version_path(group: str, version: str) -> GroupVersionPath:
    short = group.removesuffix(".k8s.io").partition(".")[0] or "core"
    words = "".join(part[:1].upper() + part[1:] for part in [*short.split("-"), version])
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return GroupVersionPath(base, f"{short}_{version}", words)


def resource_paths(where: GroupVersionPath, plural: str, namespaced: bool, served: ServedResource) -> dict[str, Node]:
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


def _item(where: GroupVersionPath, served: ServedResource, verbs: tuple[str, ...], title: str, names: list[str]) -> Node:
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


def _operation(where: GroupVersionPath, served: ServedResource, verb: str, title: str) -> Node:
    method, word, action = _VERBS[verb]
    collection = "Collection" if verb == "deletecollection" else ""
    if not served.component:
        # A streaming subresource has options and no schema: all its operations are named "connect".
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


def _responses(served: ServedResource, verb: str) -> Node:
    component = served.component
    if verb == "list":
        component = served.list_component
    elif verb in ("delete", "deletecollection"):
        component = _META + "Status"
    types = ["application/json", "application/yaml", *(["application/json;stream=watch"] if verb == "list" else [])]
    response: Node = {"description": "OK"}
    if component:
        response["content"] = {media: _schema(component) for media in types}
    return {**dict.fromkeys(_CODES.get(verb, ("200",)), response), "401": {"description": "Unauthorized"}}


def _request_body(served: ServedResource, verb: str) -> Node | None:
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


_ALWAYS = tuple(_META + name for name in ("DeleteOptions", "Status", "Patch", "APIResourceList", "WatchEvent"))
_SCALE = "io.k8s.api.autoscaling.v1.Scale"
_PART_VERBS = ("get", "patch", "update")
_OBJECT_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@cache
def builtin_document(group: str, version: str) -> bytes:
    """The document of a built-in group version. Raises KeyError if it does not exist."""
    builtins = builtin_scheme()
    every = (*builtins.resources, *(item for items in builtins.optional.values() for item in items))
    resources = [item for item in every if (item.group, item.version) == (group, version)]
    if not resources:
        raise KeyError(f"{group}/{version}")
    where = group_version_path(group, version)
    paths: dict[str, Node] = {}
    components = set(_ALWAYS)
    for resource in resources:
        served = _served(resource)
        paths |= resource_paths(where, resource.plural, resource.namespaced, served)
        components |= {served.component, served.list_component, *(below.component for below in served.below)} - {""}
    return _document(where, paths, _referenced_components(components))


def custom_document(group: str, version: str, definitions: Iterable[Node]) -> bytes:
    """The document of a group version that CustomResourceDefinitions serve."""
    where = group_version_path(group, version)
    paths: dict[str, Node] = {}
    own: dict[str, Node] = {}
    shared = {*_ALWAYS, OBJECT_META, LIST_META}
    for definition in definitions:
        spec = definition["spec"]
        served_version = next((item for item in spec["versions"] if item["name"] == version and item.get("served")), None)
        if served_version is None:
            continue
        served = _custom_served(spec, served_version)
        own |= _custom_components(served_version, served)
        paths |= resource_paths(where, spec["names"]["plural"], spec["scope"] == "Namespaced", served)
        shared |= {below.component for below in served.below if below.component == _SCALE}
    return _document(where, paths, {**_referenced_components(shared), **own})


def aggregated_document(group: str, version: str, paths: dict[str, Node], components: dict[str, Node]) -> bytes:
    """The document of a group version of an aggregated API; its components can refer to metadata."""
    return _document(
        group_version_path(group, version),
        paths,
        {**_referenced_components({_META + "APIResourceList", OBJECT_META}), **components},
    )


def converted_document(group: str, version: str, definitions: dict[str, Node]) -> bytes:
    """The document of a remote API that has OpenAPI v2 only: its definitions as components."""
    components: dict[str, Node] = orjson.loads(orjson.dumps(definitions).replace(b'"#/definitions/', b'"#/components/schemas/'))
    return _document(group_version_path(group, version), {}, {**_referenced_components({_META + "APIResourceList"}), **components})


def _document(where: GroupVersionPath, paths: dict[str, Node], components: dict[str, Node]) -> bytes:
    listing = {"schema": {"$ref": f"{REFERENCE}{_META}APIResourceList"}}
    root = {
        "tags": [where.tag],
        "operationId": f"get{where.words}APIResources",
        "responses": {
            "200": {"description": "OK", "content": {"application/json": listing}},
            "401": {"description": "Unauthorized"},
        },
    }
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.35"},
        "paths": {f"{where.base}/": {"get": root}, **dict(sorted(paths.items()))},
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        },
    }
    return orjson.dumps(document)


def _served(resource: BuiltinResource) -> ServedResource:
    component = component_name(resource.group, resource.version, resource.kind)
    below = tuple(
        ServedResource(
            kind={"group": part.group, "kind": part.kind, "version": part.version},
            verbs=part.verbs,
            component=_component_or_empty(component_name(part.group, part.version, part.kind)),
            name=part.name,
        )
        for part in resource.subresources
    )
    listed = _component_or_empty(component + "List") if "list" in resource.verbs else ""
    kind = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    return ServedResource(kind, resource.verbs, component, listed, below=below)


def _component_or_empty(component: str) -> str:
    """The component name, or an empty string for options without a schema."""
    try:
        builtin_scheme().node(component)
    except KeyError:
        return ""
    return component


def _referenced_components(names: set[str]) -> dict[str, Node]:
    """The components with these names, and all components they refer to."""
    result: dict[str, Node] = {}
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        result[name] = _rendered(described(name, builtin_scheme().node(name)), waiting)
        waiting -= result.keys()
    return result


def _rendered(node: Any, references: set[str], *, names: bool = False, field: bool = False) -> Any:
    """A raw node as OpenAPI v3: without `go` annotations, with full references, which fields wrap in `allOf`."""
    if isinstance(node, list):
        return [_rendered(item, references) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _rendered(child, references, field=True) for name, child in node.items()}
    rendered = {
        key: value if key == "default" else _rendered(value, references, names=key == "properties")
        for key, value in node.items()
        if key not in ("go", "$ref")
    }
    reference = node.get("$ref")
    if reference is None:
        return rendered
    references.add(reference)
    target = {"$ref": REFERENCE + reference}
    return {**rendered, "allOf": [target]} if rendered or field else target


def _custom_served(spec: Node, version: Node) -> ServedResource:
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    component = ".".join([*reversed(group.split(".")), name, kind])
    listed = ".".join([*reversed(group.split(".")), name, spec["names"].get("listKind") or f"{kind}List"])
    own = {"group": group, "kind": kind, "version": name}
    below = version.get("subresources") or {}
    parts = []
    if "status" in below:
        parts.append(ServedResource(own, _PART_VERBS, component, strategic=False, name="status"))
    if "scale" in below:
        scale = {"group": "autoscaling", "kind": "Scale", "version": "v1"}
        parts.append(ServedResource(scale, _PART_VERBS, _SCALE, strategic=False, name="scale"))
    return ServedResource(own, _OBJECT_VERBS, component, listed, strategic=False, below=tuple(parts))


def _custom_components(version: Node, served: ServedResource) -> dict[str, Node]:
    root = dict((version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"})
    root["properties"] = _embedded(root.get("properties", {})) | _STANDARD | {"metadata": _metadata(OBJECT_META)}
    root["x-kubernetes-group-version-kind"] = [served.kind]
    list_kind = served.list_component.rpartition(".")[2]
    listed = {
        "type": "object",
        "required": ["items"],
        "properties": {
            **_STANDARD,
            "items": {"type": "array", "items": {"$ref": REFERENCE + served.component}},
            "metadata": _metadata(LIST_META),
        },
        "x-kubernetes-group-version-kind": [{**served.kind, "kind": list_kind}],
    }
    return {served.component: root, served.list_component: listed}


_STANDARD = {name: {"type": "string", "description": text} for name, text in TYPE_META.items()}


def _metadata(component: str) -> Node:
    return {"allOf": [{"$ref": REFERENCE + component}], "description": METADATA[component]}


def _embedded(nodes: dict[str, Any]) -> dict[str, Any]:
    """The schemas among values, with the standard fields of embedded objects."""
    return {key: _with_embedded(node) if isinstance(node, dict) else node for key, node in nodes.items()}


def _with_embedded(schema: Node) -> Node:
    result = schema | _embedded({key: schema[key] for key in ("items", "additionalProperties") if key in schema})
    if "properties" in schema:
        result["properties"] = _embedded(schema["properties"])
    if schema.get("x-kubernetes-embedded-resource"):
        required = schema.get("required") or []
        result["properties"] = result.get("properties", {}) | _STANDARD | {"metadata": _metadata(OBJECT_META)}
        result["required"] = [*required, *(name for name in ("kind", "apiVersion") if name not in required)]
    return result
