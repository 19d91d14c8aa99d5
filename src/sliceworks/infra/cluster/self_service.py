"""Self-service: Config Connector, published graphs, and the roles that these graphs need. Pure."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument
from sliceworks.base.names import suggest_name
from sliceworks.catalog import gke_rules
from sliceworks.graph.rbac import group_of, list_objects
from sliceworks.infra.cluster.inventory import ConditionTrue, KindsServed, ObjectReference, Step, availability_waits
from sliceworks.infra.stages import Names
from sliceworks.schemas import config_connector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sliceworks.specs.environment import Environment
    from sliceworks.specs.environment.services import SelfService

Object = dict[str, Any]

STATEFUL_KINDS: dict[str, tuple[str, ...]] = {
    "ArtifactRegistryRepository": ("roles/artifactregistry.admin",),
    "ContainerCluster": ("roles/container.clusterAdmin", "roles/iam.serviceAccountUser"),
    "ContainerNodePool": ("roles/container.clusterAdmin", "roles/iam.serviceAccountUser"),
    "IAMServiceAccount": ("roles/iam.serviceAccountAdmin",),
    "PubSubTopic": ("roles/pubsub.editor",),
    "StorageBucket": ("roles/storage.admin",),
}
"""Project roles that Config Connector needs to manage a resource, by kind."""

GRANTS: dict[str, tuple[str, ...]] = {
    "ArtifactRegistryRepository": ("roles/artifactregistry.admin",),
    "IAMServiceAccount": ("roles/iam.serviceAccountAdmin",),
    "Project": ("roles/resourcemanager.projectIamAdmin",),
    "PubSubTopic": ("roles/pubsub.admin",),
    "StorageBucket": ("roles/storage.admin",),
}
"""Project roles needed to change the IAM policy of a resource, by kind of the resource."""

READ_ROLES = ("roles/browser",)
"""Read-only roles in the project."""

_POLICIES = ("IAMPolicyMember", "IAMPartialPolicy")


def config_connector_roles(definitions: Iterable[Object]) -> list[str]:
    """The roles that Config Connector needs in the project for these graphs."""
    roles: set[str] = set()
    for definition in definitions:
        for name, obj, external in list_objects(definition):
            if group_of(obj).endswith(config_connector.GROUPS):
                roles.update(_roles_for(f"{definition['metadata']['name']}, {name}", obj, external))
    return sorted(roles)


def granted_roles(definitions: Iterable[Object]) -> list[str]:
    """Project roles that these graphs grant; raises InvalidDocument for a role that is an expression."""
    roles: set[str] = set()
    for definition in definitions:
        for name, obj, _external in list_objects(definition):
            spec = obj.get("spec") or {}
            if obj["kind"] in _POLICIES and (spec.get("resourceRef") or {}).get("kind") == "Project":
                names = [spec.get("role"), *(binding.get("role") for binding in spec.get("bindings") or ())]
                roles.update(_literal_role(f"{definition['metadata']['name']}, {name}", role) for role in names if role)
    return sorted(roles)


def _literal_role(place: str, role: Any) -> str:
    if "${" in str(role):
        raise InvalidDocument(
            f"the role {role} is not known in advance, and Config Connector may grant only known roles",
            place=place,
            hint="write a literal role; a graph that chooses between roles needs one object per role",
        )
    if violation := gke_rules.check_role(str(role)):
        raise InvalidDocument(violation.message, place=place, hint=suggest_name(str(role), gke_rules.predefined_roles()))
    return str(role)


def _roles_for(place: str, obj: Object, external: bool) -> tuple[str, ...]:
    kind = str(obj["kind"])
    if external:
        return READ_ROLES
    if kind in STATEFUL_KINDS:
        return STATEFUL_KINDS[kind]
    target = str(((obj.get("spec") or {}).get("resourceRef") or {}).get("kind", ""))
    if kind in _POLICIES and target in GRANTS:
        return GRANTS[target]
    what = f"{kind} about {target or 'an unknown kind'}" if kind in _POLICIES else kind
    hint = (
        "roles of a folder or an organization must be granted manually: refer to the project with externalRef"
        if kind == "Project"
        else ""
    )
    raise InvalidDocument(
        f"no role is known for Config Connector to manage a {what}",
        place=place,
        hint=hint or f"kinds: {', '.join(sorted(STATEFUL_KINDS))}; policies about {', '.join(sorted(GRANTS))}",
    )


_CORE = f"{config_connector.CORE}/v1beta1"
_PROJECT = ("resourcemanager.cnrm.cloud.google.com/v1beta1", "Project")


def config_connector_step(environment: Environment, release: Sequence[Object], emails: Mapping[str, str]) -> tuple[Step, Step]:
    """Config Connector: its operator, and the ConfigConnector object that configures it."""
    service = _of(environment)
    name = service.config_connector.service_account
    connector: Object = {
        "apiVersion": _CORE,
        "kind": "ConfigConnector",
        "metadata": {"name": config_connector.INSTALLED["ConfigConnector"]},
        "spec": {
            "mode": "cluster",
            "googleServiceAccount": emails.get(name) or Names(environment).account(name),
            "stateIntoSpec": "Absent",
        },
    }
    healthy = ConditionTrue(_CORE, "ConfigConnector", "", connector["metadata"]["name"], field="healthy")
    return (
        Step(
            "config-connector", tuple(release), (*availability_waits(release), KindsServed(((_CORE, "ConfigConnector"),))), "Warn"
        ),
        Step("config-connector-settings", (connector,), (healthy, KindsServed((_PROJECT,)))),
    )


def namespace_objects(environment: Environment) -> Step:
    """The Project object that graphs refer to."""
    service = _of(environment)
    if service.project is None:
        return Step("self-service")
    ready = ConditionTrue(*_PROJECT, service.namespace, service.project.name)
    return Step("self-service", (_project(environment, service),), (ready,))


def secret_objects(environment: Environment, values: Mapping[str, Mapping[str, str]]) -> Step:
    """Secrets with credentials of model registries; Secrets without values are kept unchanged."""
    namespace, secret_names = _of(environment).namespace, [registry.secret for registry in _of(environment).model_registries]
    secrets = [_secret(namespace, name, values[name]) for name in secret_names if name in values]
    unchanged = [ObjectReference("v1", "Secret", namespace, name) for name in secret_names if name not in values]
    return Step("secrets", tuple(secrets), keeps=tuple(unchanged))


def graphs_step(graphs: Iterable[Object]) -> Step:
    """The published graphs."""
    definitions = tuple(graphs)
    ready = tuple(ConditionTrue(item["apiVersion"], item["kind"], "", item["metadata"]["name"]) for item in definitions)
    return Step("definitions", definitions, ready)


def project_annotations(environment: Environment) -> dict[str, str]:
    """Annotations that bind the Config Connector objects of a namespace to the project."""
    return {f"{config_connector.PREFIX}project-id": environment.spec.project}


def _project(environment: Environment, service: SelfService) -> Object:
    """A Project object that acquires the existing project and abandons it on deletion."""
    project = service.project
    assert project is not None
    parent = (
        {"folderRef": {"external": project.folder}} if project.folder else {"organizationRef": {"external": project.organization}}
    )
    prefix = config_connector.PREFIX
    return {
        "apiVersion": _PROJECT[0],
        "kind": _PROJECT[1],
        "metadata": {
            "name": project.name,
            "namespace": service.namespace,
            "annotations": {f"{prefix}auto-create-network": "false", f"{prefix}deletion-policy": "abandon"},
        },
        "spec": {"name": "", "resourceID": environment.spec.project, **parent},
    }


def _secret(namespace: str, name: str, data: Mapping[str, str]) -> Object:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded}


def _of(environment: Environment) -> SelfService:
    assert environment.spec.self_service is not None
    return environment.spec.self_service
