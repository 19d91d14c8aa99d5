"""Config Connector's kinds, as version 1.155 has them: their CustomResourceDefinitions, and what its webhooks know beyond those.

The data holds names, types and what is required. Marks in it tell what refers to other objects and what may not change; they are
taken out of the definitions and given by `marks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]
Steps = tuple[str, ...]
"""Steps into an object; `*` stands for each item of a list."""

VERSION = "v1beta1"
PREFIX = "cnrm.cloud.google.com/"
GROUPS = ".cnrm.cloud.google.com"
CORE = "core.cnrm.cloud.google.com"
INSTALLED = {"ConfigConnector": f"configconnector.{CORE}", "ConfigConnectorContext": f"configconnectorcontext.{CORE}"}
"""What sets Config Connector up, and the only name that each may have."""
_DATA = Path(__file__).parent / "data" / "config-connector-1.155" / "kinds.json"
_CONDITION: Object = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("lastTransitionTime", "message", "reason", "status", "type")},
}
_READY = ".status.conditions[?(@.type=='Ready')]"
_COLUMNS = (
    ("Age", "date", ".metadata.creationTimestamp"),
    ("Ready", "string", f"{_READY}.status"),
    ("Status", "string", f"{_READY}.reason"),
    ("Status Age", "date", f"{_READY}.lastTransitionTime"),
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A field that names another object. `kind` is empty where the field says it itself."""

    path: Steps
    kind: str


@dataclass(frozen=True, slots=True)
class Marks:
    """What is known of a kind beyond its definition."""

    kind: str
    group: str
    plural: str
    controller: str
    container: tuple[str, ...]
    """What it lies in: a project, a folder or an organization, told by annotations."""
    iam_target: bool
    iam_conditions: bool
    references: tuple[Reference, ...]
    immutable: tuple[Steps, ...]

    @property
    def resource(self) -> str:
        """`group/plural`."""
        return f"{self.group}/{self.plural}"


@cache
def _data() -> dict[str, Object]:
    found: dict[str, Object] = orjson.loads(_DATA.read_bytes())
    return found


@cache
def marks() -> dict[str, Marks]:
    """What is known of each kind, by its name."""
    return {kind: _marks(kind, entry) for kind, entry in _data().items()}


def definitions() -> list[Object]:
    """The CustomResourceDefinitions, made anew: they may be changed."""
    return [_definition(kind, entry) for kind, entry in _data().items()]


def installation() -> list[Object]:
    """The CustomResourceDefinitions of what sets Config Connector up: for the cluster, and for a namespace."""
    text: Object = {"type": "string"}
    common: Object = {
        "googleServiceAccount": text,
        "actuationMode": {"type": "string", "enum": ["Reconciling", "Paused"]},
        "stateIntoSpec": {"type": "string", "enum": ["Absent", "Merge"]},
        "experiments": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    whole = {
        "mode": {"type": "string", "enum": ["cluster", "namespaced"], "default": "namespaced"},
        "credentialSecretName": text,
        **common,
    }
    policies = ["SERVICE_ACCOUNT_PROJECT", "RESOURCE_PROJECT", "BILLING_PROJECT"]
    part = {
        **common,
        "requestProjectPolicy": {"type": "string", "enum": policies},
        **dict.fromkeys(("billingProject", "managerNamespace", "version"), text),
    }
    return [
        _core("ConfigConnector", "Cluster", whole, []),
        _core("ConfigConnectorContext", "Namespaced", part, ["googleServiceAccount"]),
    ]


def _core(kind: str, scope: str, fields: Object, required: list[str]) -> Object:
    group, plural = CORE, f"{kind.lower()}s"
    spec: Object = {"type": "object", "properties": fields, **({"required": required} if required else {})}
    status: Object = {
        "type": "object",
        "properties": {
            "healthy": {"type": "boolean"},
            "observedGeneration": {"type": "integer", "format": "int64"},
            "errors": {"type": "array", "items": {"type": "string"}},
        },
    }
    root = {"type": "object", "properties": {"metadata": {"type": "object"}, "spec": spec, "status": status}}
    columns = [
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Healthy", "type": "boolean", "jsonPath": ".status.healthy"},
    ]
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": root},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "labels": {f"{PREFIX}operator-system": "true"}},
        "spec": {
            "group": group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": scope,
            "versions": [version],
        },
    }


def _marks(kind: str, entry: Object) -> Marks:
    found = list(_marked(entry["spec"], ("spec",)))
    return Marks(
        kind,
        entry["group"],
        entry["plural"],
        entry["controller"],
        tuple(entry["container"]),
        entry["iam"]["target"],
        entry["iam"]["conditions"],
        tuple(Reference(path, "" if "kind" in node["properties"] else node["x-ref"]) for path, node in found if node.get("x-ref")),
        tuple(path for path, node in found if node.get("x-immutable")),
    )


def _marked(node: Object, path: Steps) -> Iterator[tuple[Steps, Object]]:
    if node.get("x-ref") or node.get("x-immutable"):
        yield path, node
    for name, child in (node.get("properties") or {}).items():
        yield from _marked(child, (*path, name))
    if isinstance(node.get("items"), dict):
        yield from _marked(node["items"], (*path, "*"))


def _definition(kind: str, entry: Object) -> Object:
    group, plural, singular = entry["group"], entry["plural"], entry["singular"]
    labels = {f"{PREFIX}{name}": "true" for name in ("managed-by-kcc", "system")} | {f"{PREFIX}stability-level": "stable"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "labels": labels},
        "spec": {
            "group": group,
            "names": {
                "categories": ["gcp"],
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "shortNames": [f"gcp{singular}", f"gcp{plural}"],
                "singular": singular,
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [{"name": name, "type": type_, "jsonPath": path} for name, type_, path in _COLUMNS],
                    "schema": {"openAPIV3Schema": _root(entry)},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def _root(entry: Object) -> Object:
    status = _plain(entry["status"])
    status["properties"]["conditions"] = {"type": "array", "items": _CONDITION}
    root: Object = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _plain(entry["spec"]),
            "status": status,
        },
    }
    return {**root, "required": ["spec"]} if entry["specRequired"] else root


def _plain(node: Object) -> Object:
    """A node as a definition has it: marks become the keywords that say the same, or go."""
    found: Object = {key: value for key, value in node.items() if key[:2] != "x-"}
    if "properties" in node:
        found["properties"] = {name: _plain(child) for name, child in node["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if isinstance(node.get(keyword), dict):
            found[keyword] = _plain(node[keyword])
    if rules := node.get("x-rules"):
        found["x-kubernetes-validations"] = [{"rule": rule, "message": "field is immutable"} for rule in rules]
    if node.get("x-ref") and "kind" not in node["properties"]:
        found["oneOf"] = [
            {"required": ["name"], "not": {"required": ["external"]}},
            {"required": ["external"], "not": {"anyOf": [{"required": ["name"]}, {"required": ["namespace"]}]}},
        ]
    elif node.get("x-exactlyOne"):
        found["oneOf"] = [{"required": [name]} for name in node["x-exactlyOne"]]
    elif node.get("x-sensitive"):
        found["oneOf"] = [{"required": [name]} for name in ("value", "valueFrom")]
    elif node.get("x-atMostOne"):
        found["not"] = {"required": list(node["x-atMostOne"])}
    return found
