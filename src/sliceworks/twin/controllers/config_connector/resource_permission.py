"""The permission that Config Connector needs to apply an object, and the accounts that it acts as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.schemas.config_connector import CORE, INSTALLED
from sliceworks.twin.controllers.config_connector.resource_state import MANAGER, find_reference

if TYPE_CHECKING:
    from sliceworks.twin.controllers.config_connector.resource_state import Get

Obj = dict[str, Any]
_PERMISSIONS = {
    "ArtifactRegistryRepository": "artifactregistry.repositories",
    "ContainerCluster": "container.clusters",
    "ContainerNodePool": "container.clusters",
    "IAMServiceAccount": "iam.serviceAccounts",
    "Project": "resourcemanager.projects",
    "PubSubTopic": "pubsub.topics",
    "StorageBucket": "storage.buckets",
}


class Identity(NamedTuple):
    """The service account of Config Connector, as `namespace/name`, and the Google service account that it acts as."""

    service_account: str
    email: str


def find_identity(namespace: str, get: Get) -> Identity | None:
    """What Config Connector acts as for the objects of a namespace; None if it has no Google service account."""
    settings = [("ConfigConnectorContext", namespace, f"{MANAGER}-{namespace}"), ("ConfigConnector", "", MANAGER)]
    for kind, place, account in settings:
        obj = get(f"{CORE}/{kind.lower()}s", place, INSTALLED[kind])
        email = str(((obj or {}).get("spec") or {}).get("googleServiceAccount") or "")
        if email:
            return Identity(f"cnrm-system/{account}", email)
    return None


def permission_for(obj: Obj) -> str:
    """The permission that a create or update of an object needs in its project."""
    kind, spec = obj["kind"], obj.get("spec") or {}
    if "resourceRef" in spec:  # a policy
        return f"{_PERMISSIONS.get(spec['resourceRef']['kind'], 'resourcemanager.projects')}.setIamPolicy"
    verb = "update" if spec.get("resourceID") or kind == "ContainerNodePool" else "create"
    # Projects can only be acquired, which reads them.
    return f"{_PERMISSIONS[kind]}.{'get' if kind == 'Project' else verb}"


def project_for(obj: Obj, project: str, get: Get) -> str:
    """The project in which the permission is needed: for the policy of a Project that project, else that of the object."""
    reference = (obj.get("spec") or {}).get("resourceRef") or {}
    if reference.get("kind") != "Project":
        return project
    if external := reference.get("external"):
        return str(external).rpartition("/")[2]
    name = str(reference.get("name") or project)
    target = find_reference("Project", str(reference.get("namespace") or obj["metadata"]["namespace"]), name, get)
    return str(((target or {}).get("spec") or {}).get("resourceID") or name)
