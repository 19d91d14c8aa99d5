"""The CustomResourceDefinitions that the controller installs: ResourceGraphDefinition and GraphRevision."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import yaml_documents
from sliceworks.controllers.graphs.well_known import GRAPH_DEFINITION, GRAPH_REVISION

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object, Resource

_DATA = Path(__file__).parent / "data" / "definitions.yaml"
_READY = {"jsonPath": '.status.conditions[?(@.type=="Ready")].status', "name": "READY", "type": "string"}
_AGE = {"jsonPath": ".metadata.creationTimestamp", "name": "AGE", "type": "date"}


def build_crds() -> list[Object]:
    """The CustomResourceDefinitions to apply."""
    return [_graph_definition(), _graph_revision()]


def _graph_definition() -> Object:
    parts = _parts()
    columns: list[Object] = [
        {"jsonPath": ".spec.schema.apiVersion", "name": "APIVERSION", "type": "string"},
        {"jsonPath": ".spec.schema.kind", "name": "KIND", "type": "string"},
        {"jsonPath": ".status.state", "name": "STATE", "type": "string"},
        _READY,
        {"jsonPath": ".status.topologicalOrder", "name": "TOPOLOGICALORDER", "priority": 1, "type": "string"},
        _AGE,
    ]
    status = {**_common_status(), "lastIssuedRevision": {"type": "integer", "format": "int64"}, "state": {"type": "string"}}
    return _definition(GRAPH_DEFINITION, "rgd", columns, parts["spec"], status)


def _graph_revision() -> Object:
    columns: list[Object] = [
        {"jsonPath": ".spec.snapshot.name", "name": "RGD", "priority": 1, "type": "string"},
        {"jsonPath": ".spec.revision", "name": "REVISION", "type": "integer"},
        {"jsonPath": r".metadata.labels.kro\.run/graph-revision-hash", "name": "HASH", "priority": 1, "type": "string"},
        _READY,
        _AGE,
    ]
    snapshot = {
        "type": "object",
        "required": ["generation", "name", "spec"],
        "properties": {
            "generation": {"type": "integer", "format": "int64"},
            "name": {"type": "string"},
            "spec": _parts()["spec"],
        },
    }
    spec = {
        "type": "object",
        "required": ["revision", "snapshot"],
        "properties": {"revision": {"type": "integer", "format": "int64", "minimum": 1}, "snapshot": snapshot},
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "spec is immutable"}],
    }
    crd = _definition(GRAPH_REVISION, "gr", columns, spec, _common_status())
    crd["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.snapshot.name"}]
    return crd


def _common_status() -> Object:
    parts = _parts()
    return {name: parts[name] for name in ("conditions", "resources", "topologicalOrder")}


def _definition(resource: Resource, short: str, columns: list[Object], spec: Object, status: Object) -> Object:
    schema = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": {"type": "object", "properties": status},
        },
    }
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    kind = resource.kind
    names = {"kind": kind, "listKind": f"{kind}List", "plural": resource.plural, "singular": kind.lower(), "shortNames": [short]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified},
        "spec": {"group": resource.group, "names": names, "scope": "Cluster", "versions": [version]},
    }


@cache
def _parts() -> dict[str, Any]:
    return yaml_documents.load_path(_DATA)[0].data
