"""OpenAPI v3 documents, as served below /openapi/v3: of the built-in groups, and of what CustomResourceDefinitions define."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.builtins import LIST_META, OBJECT_META, BuiltinResource, catalogue, component_name
from sliceworks.schemas.model import REFERENCE
from sliceworks.schemas.openapi_paths import Place, Served, place, resource_paths

if TYPE_CHECKING:
    from collections.abc import Iterable

Node = dict[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_ALWAYS = tuple(_META + name for name in ("DeleteOptions", "Status", "Patch", "APIResourceList", "WatchEvent"))
_SCALE = "io.k8s.api.autoscaling.v1.Scale"
_PART_VERBS = ("get", "patch", "update")
_OBJECT_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@cache
def builtin_document(group: str, version: str) -> bytes:
    """The document of a built-in group version. KeyError when there is none."""
    builtins = catalogue()
    resources = [item for item in builtins.resources if (item.group, item.version) == (group, version)]
    if not resources:
        raise KeyError(f"{group}/{version}")
    where = place(group, version)
    paths: dict[str, Node] = {}
    components = set(_ALWAYS)
    for resource in resources:
        served = _served(resource)
        paths |= resource_paths(where, resource.plural, resource.namespaced, served)
        components |= {served.component, served.list_component, *(below.component for below in served.below)} - {""}
    return _document(where, paths, _closed(components))


def custom_document(group: str, version: str, definitions: Iterable[Node]) -> bytes:
    """The document of a group version that CustomResourceDefinitions serve."""
    where = place(group, version)
    paths: dict[str, Node] = {}
    own: dict[str, Node] = {}
    shared = {*_ALWAYS, OBJECT_META, LIST_META}
    for definition in definitions:
        spec = definition["spec"]
        found = next((item for item in spec["versions"] if item["name"] == version and item.get("served")), None)
        if found is None:
            continue
        served = _custom_served(spec, found)
        own |= _custom_components(found, served)
        paths |= resource_paths(where, spec["names"]["plural"], spec["scope"] == "Namespaced", served)
        shared |= {below.component for below in served.below if below.component == _SCALE}
    return _document(where, paths, {**_closed(shared), **own})


def aggregated_document(group: str, version: str, paths: dict[str, Node], components: dict[str, Node]) -> bytes:
    """The document of a group version that another server answers for; its components may refer to metadata."""
    return _document(place(group, version), paths, {**_closed({_META + "APIResourceList", OBJECT_META}), **components})


def _document(where: Place, paths: dict[str, Node], components: dict[str, Node]) -> bytes:
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


def _served(resource: BuiltinResource) -> Served:
    component = component_name(resource.group, resource.version, resource.kind)
    below = tuple(
        Served(
            kind={"group": part.group, "kind": part.kind, "version": part.version},
            verbs=part.verbs,
            component=_known(component_name(part.group, part.version, part.kind)),
            name=part.name,
        )
        for part in resource.subresources
    )
    listed = _known(component + "List") if "list" in resource.verbs else ""
    kind = {"group": resource.group, "kind": resource.kind, "version": resource.version}
    return Served(kind, resource.verbs, component, listed, below=below)


def _known(component: str) -> str:
    """The component's name, or nothing when it is only a set of options without a schema."""
    try:
        catalogue().node(component)
    except KeyError:
        return ""
    return component


def _closed(names: set[str]) -> dict[str, Node]:
    """The components with these names, and all they refer to."""
    found: dict[str, Node] = {}
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        found[name] = _rendered(catalogue().node(name), waiting)
        waiting -= found.keys()
    return found


def _rendered(node: Any, references: set[str], *, names: bool = False, field: bool = False) -> Any:
    """A node of the data as OpenAPI writes it: notes on Go are left out, references spelled in full, those of fields in `allOf`."""
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


def _custom_served(spec: Node, version: Node) -> Served:
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    component = ".".join([*reversed(group.split(".")), name, kind])
    listed = ".".join([*reversed(group.split(".")), name, spec["names"].get("listKind") or f"{kind}List"])
    own = {"group": group, "kind": kind, "version": name}
    below = version.get("subresources") or {}
    parts = []
    if "status" in below:
        parts.append(Served(own, _PART_VERBS, component, strategic=False, name="status"))
    if "scale" in below:
        scale = {"group": "autoscaling", "kind": "Scale", "version": "v1"}
        parts.append(Served(scale, _PART_VERBS, _SCALE, strategic=False, name="scale"))
    return Served(own, _OBJECT_VERBS, component, listed, strategic=False, below=tuple(parts))


def _custom_components(version: Node, served: Served) -> dict[str, Node]:
    root = dict((version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"})
    described = root.get("properties", {})
    standard = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    root["properties"] = {**standard, **described, "metadata": {"allOf": [{"$ref": REFERENCE + OBJECT_META}]}}
    root["x-kubernetes-group-version-kind"] = [served.kind]
    list_kind = served.list_component.rpartition(".")[2]
    listed = {
        "type": "object",
        "required": ["items"],
        "properties": {
            **standard,
            "items": {"type": "array", "items": {"$ref": REFERENCE + served.component}},
            "metadata": {"allOf": [{"$ref": REFERENCE + LIST_META}]},
        },
        "x-kubernetes-group-version-kind": [{**served.kind, "kind": list_kind}],
    }
    return {served.component: root, served.list_component: listed}
