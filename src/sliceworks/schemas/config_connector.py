"""Config Connector 1.155: its CustomResourceDefinitions, references and immutable fields.

The data holds field names, types and required fields. Annotations in it mark references and immutable fields; they are
removed from the definitions and available from `kind_infos`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Column = tuple[str, str, str]

Object = dict[str, Any]
FieldPath = tuple[str, ...]
"""Steps into an object; `*` stands for each item of a list."""

VERSION = "v1beta1"
RELEASE = "1.155.0"
OPERATOR, OPERATOR_NAMESPACE = "configconnector-operator", "configconnector-operator-system"
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
    """A field that refers to another object. `kind` is empty if the reference itself has a `kind` field."""

    path: FieldPath
    kind: str


@dataclass(frozen=True, slots=True)
class KindInfo:
    """Properties of a kind that its CustomResourceDefinition does not express."""

    kind: str
    group: str
    plural: str
    controller: str
    container: tuple[str, ...]
    """Kinds of its container (project, folder, organization); annotations name the container of an object."""
    iam_target: bool
    iam_conditions: bool
    references: tuple[Reference, ...]
    immutable: tuple[FieldPath, ...]

    @property
    def resource(self) -> str:
        """`group/plural`."""
        return f"{self.group}/{self.plural}"


@cache
def _data() -> dict[str, Object]:
    result: dict[str, Object] = orjson.loads(_DATA.read_bytes())
    return result


@cache
def kind_infos() -> dict[str, KindInfo]:
    """The properties of every kind, by name."""
    return {kind: _kind_info(kind, entry) for kind, entry in _data().items()}


def definitions() -> list[Object]:
    """The CustomResourceDefinitions, as new objects that the caller can modify."""
    return [_definition(kind, entry) for kind, entry in _data().items()]


def operator_definitions() -> list[Object]:
    """The CustomResourceDefinitions of the operator: ConfigConnector and ConfigConnectorContext."""
    text: Object = {"type": "string"}
    common: Object = {
        "googleServiceAccount": text,
        "actuationMode": {"type": "string", "enum": ["Reconciling", "Paused"]},
        "stateIntoSpec": {"type": "string", "enum": ["Absent", "Merge"]},
        "experiments": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    spec = {
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
        _core("ConfigConnector", "Cluster", spec, []),
        _core("ConfigConnectorContext", "Namespaced", part, ["googleServiceAccount"]),
    ]


def operator_objects() -> list[Object]:
    """The objects of the operator's release bundle."""
    account = {"name": OPERATOR, "namespace": OPERATOR_NAMESPACE}
    labels = {"cnrm.cloud.google.com/component": OPERATOR}
    image = f"gcr.io/gke-release/cnrm/operator:{RELEASE}"
    container = {"name": "manager", "image": image, "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": OPERATOR, "containers": [container]}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE, "labels": labels}},
        *operator_definitions(),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{OPERATOR}-cluster-admin"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {**account, "labels": labels},
            "spec": {"replicas": 1, "serviceName": OPERATOR, "selector": {"matchLabels": labels}, "template": template},
        },
    ]


def _core(kind: str, scope: str, fields: Object, required: list[str]) -> Object:
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
    columns = (("Age", "date", ".metadata.creationTimestamp"), ("Healthy", "boolean", ".status.healthy"))
    names = {"kind": kind, "listKind": f"{kind}List", "plural": f"{kind.lower()}s", "singular": kind.lower()}
    return _crd(CORE, names, scope, labels={f"{PREFIX}operator-system": "true"}, columns=columns, root=root)


def _crd(group: str, names: Object, scope: str, *, labels: Object, columns: Sequence[Column], root: Object) -> Object:
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [{"name": name, "type": type_, "jsonPath": path} for name, type_, path in columns],
        "schema": {"openAPIV3Schema": root},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}", "labels": labels},
        "spec": {"group": group, "names": names, "scope": scope, "versions": [version]},
    }


def _kind_info(kind: str, entry: Object) -> KindInfo:
    marked = list(_marked(entry["spec"], ("spec",)))
    return KindInfo(
        kind,
        entry["group"],
        entry["plural"],
        entry["controller"],
        tuple(entry["container"]),
        entry["iam"]["target"],
        entry["iam"]["conditions"],
        tuple(Reference(path, "" if "kind" in node["properties"] else node["x-ref"]) for path, node in marked if node.get("x-ref")),
        tuple(path for path, node in marked if node.get("x-immutable")),
    )


def _marked(node: Object, path: FieldPath) -> Iterator[tuple[FieldPath, Object]]:
    if node.get("x-ref") or node.get("x-immutable"):
        yield path, node
    for name, child in (node.get("properties") or {}).items():
        yield from _marked(child, (*path, name))
    if isinstance(node.get("items"), dict):
        yield from _marked(node["items"], (*path, "*"))


def _definition(kind: str, entry: Object) -> Object:
    plural, singular = entry["plural"], entry["singular"]
    labels = {f"{PREFIX}{name}": "true" for name in ("managed-by-kcc", "system")} | {f"{PREFIX}stability-level": "stable"}
    names = {
        "categories": ["gcp"],
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "shortNames": [f"gcp{singular}", f"gcp{plural}"],
        "singular": singular,
    }
    return _crd(entry["group"], names, "Namespaced", labels=labels, columns=_COLUMNS, root=_root(entry))


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
    """The node without annotations; those with an equivalent schema keyword are converted to it."""
    result: Object = {key: value for key, value in node.items() if key[:2] != "x-"}
    if "properties" in node:
        result["properties"] = {name: _plain(child) for name, child in node["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if isinstance(node.get(keyword), dict):
            result[keyword] = _plain(node[keyword])
    if rules := node.get("x-rules"):
        result["x-kubernetes-validations"] = [{"rule": rule, "message": "field is immutable"} for rule in rules]
    if node.get("x-ref") and "kind" not in node["properties"]:
        result["oneOf"] = [
            {"required": ["name"], "not": {"required": ["external"]}},
            {"required": ["external"], "not": {"anyOf": [{"required": ["name"]}, {"required": ["namespace"]}]}},
        ]
    elif node.get("x-exactlyOne"):
        result["oneOf"] = [{"required": [name]} for name in node["x-exactlyOne"]]
    elif node.get("x-sensitive"):
        result["oneOf"] = [{"required": [name]} for name in ("value", "valueFrom")]
    elif node.get("x-atMostOne"):
        result["not"] = {"required": list(node["x-atMostOne"])}
    return result
