"""Cloud Storage: buckets and their IAM policies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sliceworks.base import clock
from sliceworks.base.names import project_number
from sliceworks.twin.cloud.core.authorization import Authorizer
from sliceworks.twin.cloud.core.collection import check_preconditions, paginate
from sliceworks.twin.cloud.core.document_store import Document, Table
from sliceworks.twin.cloud.core.exceptions import GoogleError, invalid_argument, refuse
from sliceworks.twin.cloud.core.iam_policy import IamPolicies
from sliceworks.twin.cloud.core.routes import Call, Route
from sliceworks.twin.cloud.core.service import RestService
from sliceworks.twin.cloud.google.storage.blob import Objects, Uploads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.core.service import ServiceContext
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_BUCKETS, _MAX_LABEL = "buckets", 63


def create(context: ServiceContext) -> list[RestService]:
    """Create the service and its `upload` and `download` endpoints."""
    buckets, objects = Buckets(context.store), Objects(context.store)
    return [
        _StorageService(buckets, objects),
        RestService("upload", "storage", Uploads(objects).routes(), has_messages=False),
        RestService("download", "storage", objects.download_routes(), has_messages=False),
    ]


class _StorageService(RestService):
    """The JSON API, which also knows the URLs of the XML API."""

    def __init__(self, buckets: Buckets, objects: Objects) -> None:
        super().__init__("storage", "v1", [*buckets.routes(), *objects.routes()])
        self._buckets = buckets

    def resolve_alias(self, path: str) -> str | None:
        """The download path of `/BUCKET/OBJECT`, as some clients fetch objects by the XML API's URLs."""
        bucket, _, name = path.lstrip("/").partition("/")
        if not name or not self._buckets.has(unquote(bucket)):
            return None
        return f"/download/storage/v1/b/{bucket}/o/{name.replace('/', '%2F')}"


class Buckets:
    """Buckets of all projects, which share one namespace."""

    def __init__(self, store: Store) -> None:
        self._buckets = Table(store, "storage/buckets", "Bucket")
        self._policies = IamPolicies(store, "storage", conflict="policy-conflict-storage")
        self._objects = Objects(store)
        self._authorizer = Authorizer(store)

    def has(self, name: str) -> bool:
        """Whether a bucket exists."""
        return self._buckets.get(_BUCKETS, name) is not None

    def routes(self) -> Iterator[Route]:
        """The methods of buckets."""
        item, permissions = "b/{bucket}", "storage.buckets"
        yield Route("GET", "b", "buckets.list", self.find_all, f"{permissions}.list")
        yield Route("POST", "b", "buckets.insert", self.create, f"{permissions}.create", "Bucket")
        yield Route("GET", item, "buckets.get", self.get, f"{permissions}.get")
        yield Route("PATCH", item, "buckets.patch", self.update, f"{permissions}.update", "Bucket")
        yield Route("PUT", item, "buckets.update", self.update, f"{permissions}.update", "Bucket")
        yield Route("DELETE", item, "buckets.delete", self.delete, f"{permissions}.delete")
        yield Route("GET", f"{item}/iam", "buckets.getIamPolicy", self.get_policy, f"{permissions}.getIamPolicy")
        yield Route("PUT", f"{item}/iam", "buckets.setIamPolicy", self.set_policy, f"{permissions}.setIamPolicy", "Policy")
        yield Route("GET", f"{item}/iam/testPermissions", "buckets.testIamPermissions", self.test_permissions, "")
        yield Route("GET", f"{item}/anywhereCaches", "anywhereCaches.list", _list_no_caches, "storage.anywhereCaches.list")
        yield Route("GET", f"{item}/anywhereCaches/", "anywhereCaches.list", _list_no_caches, "storage.anywhereCaches.list")

    def create(self, call: Call) -> Obj:
        """Create a bucket."""
        name, project = str(call.body.get("name") or ""), call.query.get("project", "")
        if not _NAME.fullmatch(name) or any(len(part) > _MAX_LABEL for part in name.split(".")):
            raise invalid_argument(f"Invalid bucket name: '{name}'")
        if self._buckets.get(_BUCKETS, name) is not None:
            message = "The requested bucket name is not available. The bucket namespace is shared by all users of the system."
            raise GoogleError("ALREADY_EXISTS", message, reason="conflict")
        body = _fill(name, dict(call.body), None)
        body["projectNumber"] = project_number(project)
        self._buckets.put(Document(_BUCKETS, name, body, {"project": project}))
        return body

    def get(self, call: Call) -> Obj:
        """Return a bucket."""
        document = self._bucket(call)
        check_preconditions(call, None, document.body["metageneration"])
        return document.body

    def find_all(self, call: Call) -> Obj:
        """List the buckets of a project."""
        project, prefix = call.query.get("project", ""), call.query.get("prefix", "")
        buckets = (bucket for bucket in self._buckets.all(_BUCKETS) if bucket.inner["project"] == project)
        page, token = paginate(call, (bucket for bucket in buckets if bucket.name.startswith(prefix)))
        return {"kind": "storage#buckets", **({"items": [bucket.body for bucket in page]} if page else {}), **token}

    def update(self, call: Call) -> Obj:
        """Change the settings of a bucket; its name and location are immutable."""
        document = self._bucket(call)
        before = document.body
        check_preconditions(call, None, before["metageneration"])
        merged = {key: value for key, value in {**before, **call.body}.items() if value is not None}
        for key in ("name", "location", "projectNumber", "id", "timeCreated"):
            merged[key] = before[key]
        document.body = _fill(document.name, merged, before)
        self._buckets.put(document)
        return document.body

    def delete(self, call: Call) -> Obj:
        """Delete an empty bucket."""
        document = self._bucket(call)
        check_preconditions(call, None, document.body["metageneration"])
        if not self._objects.is_empty(document.name):
            raise refuse("bucket-not-empty")
        self._buckets.delete(document)
        self._policies.delete(f"b/{document.name}")
        return {}

    def get_policy(self, call: Call) -> Obj:
        """Return the IAM policy of a bucket."""
        return self._render_policy(self._bucket(call).name)

    def set_policy(self, call: Call) -> Obj:
        """Replace the IAM policy of a bucket."""
        name = self._bucket(call).name
        self._policies.set(f"b/{name}", call.body)
        return self._render_policy(name)

    def test_permissions(self, call: Call) -> Obj:
        """Return the permissions of the request that the caller has on a bucket."""
        bucket = self._bucket(call)
        requested = [value for key, value in call.query_pairs if key == "permissions"]
        permissions = self._authorizer.filter(call.caller, requested, bucket.inner["project"], ("storage", f"b/{bucket.name}"))
        return {"kind": "storage#testIamPermissionsResponse", **({"permissions": permissions} if permissions else {})}

    def _render_policy(self, name: str) -> Obj:
        return {"kind": "storage#policy", "resourceId": f"projects/_/buckets/{name}", **self._policies.get(f"b/{name}")}

    def _bucket(self, call: Call) -> Document:
        return self._objects.bucket(call.params["bucket"])


def _list_no_caches(_: Call) -> Obj:
    return {}


def _fill(name: str, body: Obj, before: Obj | None) -> Obj:
    location = str(body.get("location") or "US").upper()
    settings = body.get("iamConfiguration") or {}
    uniform = bool((settings.get("uniformBucketLevelAccess") or {}).get("enabled"))
    version = str(int((before or {}).get("metageneration") or 0) + 1)
    return {
        "kind": "storage#bucket",
        "storageClass": "STANDARD",
        **({} if "-" in location else {"rpo": "DEFAULT"}),
        "softDeletePolicy": {
            "retentionDurationSeconds": "604800",
            "effectiveTime": (before or {}).get("timeCreated") or clock.timestamp(),
        },
        **body,
        "id": name,
        "name": name,
        "location": location,
        "locationType": "region" if "-" in location else "multi-region",
        "metageneration": version,
        "etag": f"CA{version}=",
        "iamConfiguration": {
            "publicAccessPrevention": "inherited",
            **settings,
            "uniformBucketLevelAccess": {"enabled": uniform},
            "bucketPolicyOnly": {"enabled": uniform},
        },
        "timeCreated": (before or {}).get("timeCreated") or clock.timestamp(),
        "updated": clock.timestamp(),
        "selfLink": f"https://www.googleapis.com/storage/v1/b/{name}",
    }
