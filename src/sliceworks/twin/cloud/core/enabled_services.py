"""The enabled services (APIs) of projects.

A project has all services enabled until Service Usage enables or disables one of them, or until a setting declares it new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.names import project_number
from sliceworks.catalog import gke_rules
from sliceworks.twin.cloud.core.document_store import Document, Table
from sliceworks.twin.cloud.core.exceptions import refusal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.store.store import Store

_DOMAIN = ".googleapis.com"
_INITIAL = ("bigquery", "logging", "monitoring", "serviceusage", "storage")
"""Services that every new project has, and that are never refused."""
_IMPLIED = {"compute": "container", "iam": "container", "iamcredentials": "container"}
"""Services that are enabled together with another one."""
_ALIASES = {"upload": "storage", "download": "storage"}
_TITLES = {
    "aiplatform": "Vertex AI API",
    "artifactregistry": "Artifact Registry API",
    "cloudbilling": "Cloud Billing API",
    "cloudbuild": "Cloud Build API",
    "cloudresourcemanager": "Cloud Resource Manager API",
    "compute": "Compute Engine API",
    "container": "Kubernetes Engine API",
    "gkehub": "GKE Hub API",
    "iam": "Identity and Access Management (IAM) API",
    "iamcredentials": "IAM Service Account Credentials API",
    "pubsub": "Cloud Pub/Sub API",
    "secretmanager": "Secret Manager API",
}


def _initial(project: str) -> list[Document]:
    return [Document(f"projects/{project}", f"{name}{_DOMAIN}", {}) for name in _INITIAL]


class EnabledServices:
    """The enabled services of all projects."""

    def __init__(self, store: Store) -> None:
        self._table = Table(store, "serviceusage/services", "Service")
        self._managed = Table(store, "serviceusage/projects", "Project")

    def manage(self, project: str) -> None:
        """Declare that a project has only the services that it starts with, and those that it enables."""
        if self._managed.get("", project) is None:
            self._managed.put(Document("", project, {}))
            for document in _initial(project):
                self._table.put(document)

    def enable(self, project: str, name: str) -> None:
        """Enable a service by its full name."""
        self.manage(project)
        if self._table.get(f"projects/{project}", name) is None:
            self._table.put(Document(f"projects/{project}", name, {}))

    def disable(self, project: str, name: str) -> None:
        """Disable a service by its full name."""
        self.manage(project)
        document = self._table.get(f"projects/{project}", name)
        if document is not None:
            self._table.delete(document)

    def all(self, project: str) -> Iterable[Document]:
        """The services that a project has enabled."""
        is_managed = self._managed.get("", project) is not None
        return self._table.all(f"projects/{project}") if is_managed else _initial(project)

    def has(self, project: str, name: str) -> bool:
        """Whether a project has enabled a service, given by its full name."""
        return any(document.name == name for document in self.all(project))

    def allows(self, service: str, project: str) -> bool:
        """Whether requests to a service, given by its short name, are allowed in a project."""
        if not project or service in _INITIAL or self._managed.get("", project) is None:
            return True
        names = [service, *([_IMPLIED[service]] if service in _IMPLIED else [])]
        return any(self.has(project, f"{name}{_DOMAIN}") for name in names)

    def check(self, service: str, project: str) -> None:
        """Raise PERMISSION_DENIED if a project has not enabled a service, given by its short name."""
        service = _ALIASES.get(service, service)
        if self.allows(service, project):
            return
        number, full = project_number(project), f"{service}{_DOMAIN}"
        title = _TITLES.get(service, f"{full} API")
        violation = gke_rules.violate("service-disabled", title=title, number=number, service=full)
        raise refusal(violation, service=full, consumer=f"projects/{number}")
