"""The RBAC rules that the graphs controller needs for the resources of a definition. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.graph.crds import plural_of
from sliceworks.graph.model import DEFAULT_GROUP
from sliceworks.schemas import builtins, config_connector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.graph.model import Object

AGGREGATION_LABEL = {"rbac.kro.run/aggregate-to-controller": "true"}
"""ClusterRoles with this label, which is kro's, are aggregated into the role of the controller."""
WORKLOADS = frozenset({"DaemonSet", "Deployment", "Job", "JobSet", "LeaderWorkerSet", "Pod", "ReplicaSet", "StatefulSet"})
"""Kinds with pods: the controller lists pods and events to say why they are not ready."""
_MANAGE_VERBS = ["get", "list", "watch", "create", "patch", "delete"]
_READ_VERBS = ["get", "list", "watch"]


def cluster_role(name: str, rules: list[Object]) -> Object:
    """A ClusterRole that is aggregated into the role of the controller."""
    metadata = {"name": f"kro:controller:{name}", "labels": dict(AGGREGATION_LABEL)}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}


def graph_rules(definitions: Iterable[Object], plurals: Mapping[tuple[str, str], str] | None = None) -> list[Object]:
    """The rules for the resources of these definitions; `plurals` are the resource names of kinds that are not built in."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for definition in definitions:
        for _name, obj, external in list_objects(definition):
            resource = group_of(obj), _plural(obj, plurals or {})
            verbs[resource] = _MANAGE_VERBS if not external or verbs.get(resource) == _MANAGE_VERBS else _READ_VERBS
            if obj["kind"] in WORKLOADS and not external:
                for name in ("pods", "events"):
                    verbs.setdefault(("", name), ["list"])
        schema = definition["spec"]["schema"]
        prefix, _, _ = str(schema.get("apiVersion") or "").rpartition("/")
        group = str(schema.get("group") or prefix or DEFAULT_GROUP)
        if group != DEFAULT_GROUP:
            plural = plural_of(str(schema["kind"]).lower())
            verbs[group, plural] = [*_READ_VERBS, "patch", "update", "delete"]
            verbs[group, f"{plural}/status"] = ["get", "update", "patch"]
    return [{"apiGroups": [group], "resources": [name], "verbs": list(verbs[group, name])} for group, name in sorted(verbs)]


def list_objects(definition: Object) -> Iterator[tuple[str, Object, bool]]:
    """The resources of a definition: id, template, and whether it is an external reference."""
    for resource in definition["spec"].get("resources") or ():
        external = "externalRef" in resource
        obj = resource.get("externalRef") if external else resource.get("template")
        if isinstance(obj, dict) and obj.get("kind") and obj.get("apiVersion"):
            yield str(resource.get("id", "")), obj, external


def group_of(obj: Object) -> str:
    """The API group of an object."""
    return str(obj["apiVersion"]).rpartition("/")[0]


def _plural(obj: Object, plurals: Mapping[tuple[str, str], str]) -> str:
    group, kind = group_of(obj), str(obj["kind"])
    known = {(resource.group, resource.kind): resource.plural for resource in builtins.builtin_scheme().resources}
    info = config_connector.kind_infos().get(kind)
    if (group, kind) in plurals:
        return plurals[group, kind]
    if info is not None and info.group == group:
        return info.plural
    return known.get((group, kind)) or plural_of(kind.lower())
