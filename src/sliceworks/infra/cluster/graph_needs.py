"""What published graphs need: roles of Config Connector in the project, and rights of the graph controller in the cluster. Pure.

The roles are the narrowest of Google's own that let Config Connector keep each kind; a kind that the table does not know is an
error, never a wider role.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument
from sliceworks.graph.plurals import plural
from sliceworks.schemas import builtins, config_connector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Object = dict[str, Any]
KEEPS: dict[str, tuple[str, ...]] = {
    "ArtifactRegistryRepository": ("roles/artifactregistry.admin",),
    "ContainerCluster": ("roles/container.clusterAdmin", "roles/iam.serviceAccountUser"),
    "ContainerNodePool": ("roles/container.clusterAdmin", "roles/iam.serviceAccountUser"),
    "IAMServiceAccount": ("roles/iam.serviceAccountAdmin",),
    "PubSubTopic": ("roles/pubsub.editor",),
    "StorageBucket": ("roles/storage.admin",),
}
"""By kind, the roles in the project with which its objects are made, changed and deleted."""
GRANTS: dict[str, tuple[str, ...]] = {
    "ArtifactRegistryRepository": ("roles/artifactregistry.admin",),
    "IAMServiceAccount": ("roles/iam.serviceAccountAdmin",),
    "Project": ("roles/resourcemanager.projectIamAdmin",),
    "PubSubTopic": ("roles/pubsub.admin",),
    "StorageBucket": ("roles/storage.admin",),
}
"""By the kind that a policy is about, the roles with which it is changed."""
READS = ("roles/browser",)
"""With which a project is looked at, and nothing in it is changed."""
_POLICIES = ("IAMPolicyMember", "IAMPartialPolicy")
_MADE = ["get", "list", "watch", "create", "patch", "delete"]
_READ = ["get", "list", "watch"]


def roles(definitions: Iterable[Object]) -> list[str]:
    """The roles that Config Connector needs in the project for these graphs."""
    found: set[str] = set()
    for definition in definitions:
        for name, obj, external in _objects(definition):
            if _group(obj).endswith(config_connector.GROUPS):
                found.update(_roles_for(f"{definition['metadata']['name']}, {name}", obj, external))
    return sorted(found)


def grants(definitions: Iterable[Object]) -> list[str]:
    """The roles in the project that these graphs give to others; one that is only known later cannot be told."""
    found: set[str] = set()
    for definition in definitions:
        for name, obj, _external in _objects(definition):
            spec = obj.get("spec") or {}
            if obj["kind"] in _POLICIES and (spec.get("resourceRef") or {}).get("kind") == "Project":
                given = [spec.get("role"), *(each.get("role") for each in spec.get("bindings") or ())]
                found.update(_told(f"{definition['metadata']['name']}, {name}", role) for role in given if role)
    return sorted(found)


def _told(place: str, role: Any) -> str:
    if "${" in str(role):
        raise InvalidDocument(
            f"the role {role} is only known later, and Config Connector may give no others than those that are known",
            place=place,
            hint="write the role itself; graphs that choose between roles have one object for each",
        )
    return str(role)


def _roles_for(place: str, obj: Object, external: bool) -> tuple[str, ...]:
    kind = str(obj["kind"])
    if external:
        return READS
    if kind in KEEPS:
        return KEEPS[kind]
    target = str(((obj.get("spec") or {}).get("resourceRef") or {}).get("kind", ""))
    if kind in _POLICIES and target in GRANTS:
        return GRANTS[target]
    what = f"{kind} about {target or 'something'}" if kind in _POLICIES else kind
    hint = (
        "roles of a folder or an organization are given by hand: refer to the project with externalRef" if kind == "Project" else ""
    )
    raise InvalidDocument(
        f"no role is known with which Config Connector keeps a {what}",
        place=place,
        hint=hint or f"kinds: {', '.join(sorted(KEEPS))}; policies about {', '.join(sorted(GRANTS))}",
    )


def rules(definitions: Iterable[Object], plurals: Mapping[tuple[str, str], str] | None = None) -> list[Object]:
    """The rights that the graph controller needs for what these graphs are made of: an aggregated role's rules."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for definition in definitions:
        for _name, obj, external in _objects(definition):
            what = _group(obj), _plural(obj, plurals or {})
            verbs[what] = _MADE if not external or verbs.get(what) == _MADE else _READ
        schema = definition["spec"]["schema"]
        group = str(schema.get("group") or "kro.run")
        if group != "kro.run":
            verbs[group, plural(str(schema["kind"]).lower())] = [*_READ, "patch", "update", "delete"]
            verbs[group, plural(str(schema["kind"]).lower()) + "/status"] = ["get", "update", "patch"]
    return [{"apiGroups": [group], "resources": [name], "verbs": list(verbs[group, name])} for group, name in sorted(verbs)]


def _objects(definition: Object) -> Iterator[tuple[str, Object, bool]]:
    """What a graph is made of: the name, the object as written, and whether it only refers to it."""
    for resource in definition["spec"].get("resources") or ():
        external = "externalRef" in resource
        obj = resource.get("externalRef") if external else resource.get("template")
        if isinstance(obj, dict) and obj.get("kind") and obj.get("apiVersion"):
            yield str(resource.get("id", "")), obj, external


def _group(obj: Object) -> str:
    return str(obj["apiVersion"]).rpartition("/")[0]


def _plural(obj: Object, plurals: Mapping[tuple[str, str], str]) -> str:
    group, kind = _group(obj), str(obj["kind"])
    known = {(each.group, each.kind): each.plural for each in builtins.catalogue().resources}
    marks = config_connector.marks().get(kind)
    if (group, kind) in plurals:
        return plurals[group, kind]
    if marks is not None and marks.group == group:
        return marks.plural
    return known.get((group, kind)) or plural(kind.lower())
