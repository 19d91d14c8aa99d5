"""Cloud Storage as simulated pods use it: whether objects exist, and whether the pod's account may read and write them.

Annotations of a pod say what its containers read and write. Pods on nodes with Workload Identity act as the Google service account
of their Kubernetes service account, or as the latter itself. Pods on other nodes are not checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import READS, WRITES
from sliceworks.twin.cloud.core.authorization import Authorizer
from sliceworks.twin.cloud.core.document_store import Table
from sliceworks.twin.cloud.core.workload_access import WorkloadAccess
from sliceworks.twin.cloud.google.storage.blob import Objects

if TYPE_CHECKING:
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_GOOGLE_ACCOUNT = "iam.gke.io/gcp-service-account"
_METADATA_SERVER = "iam.gke.io/gke-metadata-server-enabled"
_READ = ("storage.objects.list", "storage.objects.get")
_CREATE = ("storage.objects.create",)
_CONTENT = b"written by a simulation\n"
_ASSUMED = "assumed-by-the-rehearsal"


class PodStorage:
    """The buckets of a twin for its simulated pods."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._buckets = Table(store, "storage/buckets", "Bucket")
        self._objects = Objects(store)
        self._authorizer = Authorizer(store)
        self._access = WorkloadAccess(store)
        self._assumed: set[tuple[str, str]] = set()

    def find_error(self, pod: Obj, node: Obj) -> str:
        """Why a pod cannot read or write what its annotations say; empty if it can."""
        project = _project(node)
        if not project:
            return ""
        account, error = self._account(pod, project)
        checks = [(url, _READ) for url in _urls(pod, READS)] + [(url, _CREATE) for url in _urls(pod, WRITES)]
        return error or next(filter(None, (self._find_error(account, *url, permissions) for url, permissions in checks)), "")

    def write(self, pod: Obj) -> None:
        """Create the objects that a completed pod has written, in the buckets that exist."""
        for bucket, name in _urls(pod, WRITES):
            if self._buckets.get("buckets", bucket) is not None:
                self._objects.write(bucket, name, _CONTENT)

    def assume(self, url: str) -> bool:
        """Write an object in place of what a URL names; returns False if it exists.

        A bucket that does not exist belongs to another project: the URL is treated as existing.
        """
        bucket, name = _parse(url)
        if self._objects.has_any(bucket, name):
            return False
        if self._buckets.get("buckets", bucket) is None:
            self._assumed.add((bucket, name))
        else:
            self._objects.write(bucket, f"{name}/{_ASSUMED}".lstrip("/"), _CONTENT)
        return True

    def _account(self, pod: Obj, project: str) -> tuple[str, str]:
        """The account that a pod acts as, and why it cannot."""
        namespace, name = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName") or "default"
        principal = f"{project}.svc.id.goog[{namespace}/{name}]"
        entry = self._store.get("/serviceaccounts", namespace, name)
        email = ((entry.object()["metadata"].get("annotations") or {}) if entry else {}).get(_GOOGLE_ACCOUNT)
        if not email:
            return principal, ""
        return email, self._access.find_impersonation_error(principal, email)

    def _find_error(self, account: str, bucket: str, name: str, permissions: tuple[str, ...]) -> str:
        document = self._buckets.get("buckets", bucket)
        if document is None and permissions is _READ and (bucket, name) in self._assumed:
            return ""
        if document is None:
            return f"gs://{bucket}: The specified bucket does not exist."
        for permission in permissions:
            if not self._authorizer.is_allowed(account, permission, document.inner["project"], ("storage", f"b/{bucket}")):
                return (
                    f"{account} does not have {permission} access to the Google Cloud Storage bucket {bucket}. "
                    f"Permission '{permission}' denied on resource (or it may not exist)."
                )
        if permissions is _READ and not self._objects.has_any(bucket, name):
            return f"No such object: {bucket}/{name}"
        return ""


def _project(node: Obj) -> str:
    """The project of a node with Workload Identity; empty for others."""
    if (node["metadata"].get("labels") or {}).get(_METADATA_SERVER) != "true":
        return ""
    provider, _, instance = str((node.get("spec") or {}).get("providerID") or "").partition("://")
    return instance.partition("/")[0] if provider == "gce" else ""


def _urls(pod: Obj, annotation: str) -> list[tuple[str, str]]:
    """Bucket and object name of each URL of an annotation."""
    return [_parse(url) for url in (pod["metadata"].get("annotations") or {}).get(annotation, "").split(",") if url]


def _parse(url: str) -> tuple[str, str]:
    bucket, _, name = url.strip().removeprefix("gs://").partition("/")
    return bucket, name.rstrip("/")
