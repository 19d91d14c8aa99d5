"""Workload Identity: what Kubernetes service accounts may do in the cloud as Google service accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.cloud.core.authorization import Authorizer
from sliceworks.twin.cloud.core.document_store import Table

if TYPE_CHECKING:
    from sliceworks.twin.store.store import Store

_GET_TOKEN = "iam.serviceAccounts.getAccessToken"
_DENIED = "Permission '{}' denied on resource (or it may not exist)."


class WorkloadAccess:
    """Evaluates the IAM policies of a twin's cloud for service accounts of its cluster."""

    def __init__(self, store: Store) -> None:
        self._authorizer = Authorizer(store)
        self._accounts = Table(store, "iam/serviceAccounts", "ServiceAccount")
        self._clusters = Table(store, "container/clusters", "Cluster")
        self._policies = Table(store, "cloudresourcemanager/policies", "Policy")

    def find_impersonation_error(self, principal: str, email: str) -> str:
        """Why a principal cannot act as a Google service account; empty if it can."""
        owner = project_of(email)
        if self._authorizer.is_allowed(principal, _GET_TOKEN, owner, ("iam", f"projects/{owner}/serviceAccounts/{email}")):
            return ""
        return f"{principal} cannot act as {email}: {_DENIED.format(_GET_TOKEN)}"

    def find_error(self, service_account: str, email: str, permission: str, project: str) -> str:
        """Why `namespace/name` of the cluster lacks a permission as a Google service account; empty if it does not.

        Projects without service accounts and IAM policy are not set up: their callers have all permissions.
        """
        owner = project_of(email)
        if not self.is_set_up(owner):
            return ""
        parent, _ = next(iter(self._clusters.keys()), (f"projects/{owner}", ""))
        pool = parent.split("/")[1]
        if error := self.find_impersonation_error(f"{pool}.svc.id.goog[{service_account}]", email):
            return error
        if not self.is_set_up(project) or self._authorizer.is_allowed(email, permission, project):
            return ""
        return f"{email} does not have {permission} access to project {project}. {_DENIED.format(permission)}"

    def is_set_up(self, project: str) -> bool:
        """Whether a project has an IAM policy or a service account."""
        has_policy = self._policies.get("policies", f"projects/{project}") is not None
        return has_policy or next(self._accounts.all(f"projects/{project}"), None) is not None


def project_of(email: str) -> str:
    """The project of a Google service account."""
    return email.partition("@")[2].partition(".")[0]
