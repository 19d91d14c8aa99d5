"""Cloud Storage: buckets, and who may use them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sliceworks.twin.cloud.errors import GoogleError, invalid
from sliceworks.twin.cloud.plain.conditions import check
from sliceworks.twin.cloud.plain.objects import Objects
from sliceworks.twin.cloud.plain.pages import page
from sliceworks.twin.cloud.plain.policies import Policies
from sliceworks.twin.cloud.plain.projects import project_number
from sliceworks.twin.cloud.plain.service import PlainService
from sliceworks.twin.cloud.plain.shelves import stamp
from sliceworks.twin.cloud.plain.uploads import Uploads
from sliceworks.twin.cloud.routes import Call, Route
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_BUCKETS, _LONGEST = "buckets", 63


class Storage:
    """Buckets of all projects: their names are everybody's."""

    def __init__(self, store: Store) -> None:
        self._buckets = Table(store, "storage/buckets", "Bucket")
        self._policies = Policies(store, "storage", stale=412)
        self.objects = Objects(store, self._buckets)
        self._uploads = Uploads(self.objects)

    def services(self) -> list[PlainService]:
        """The API, and where contents are sent to and fetched from."""
        return [
            PlainService("storage", "v1", [*self._routes(), *self.objects.routes()]),
            PlainService("upload", "storage", self._uploads.routes(), messages=False),
            PlainService("download", "storage", self.objects.downloads(), messages=False),
        ]

    def alias(self, path: str) -> str | None:
        """Where `/BUCKET/OBJECT` leads to: some clients fetch contents by the older addresses, in which nothing else stands."""
        bucket, _, name = path.lstrip("/").partition("/")
        if not name or self._buckets.get(_BUCKETS, unquote(bucket)) is None:
            return None
        return f"/download/storage/v1/b/{bucket}/o/{name.replace('/', '%2F')}"

    def _routes(self) -> Iterator[Route]:
        one = "b/{bucket}"
        may = "storage.buckets"
        yield Route("GET", "b", "buckets.list", self.find_all, f"{may}.list")
        yield Route("POST", "b", "buckets.insert", self.create, f"{may}.create", "Bucket")
        yield Route("GET", one, "buckets.get", self.get, f"{may}.get")
        yield Route("PATCH", one, "buckets.patch", self.change, f"{may}.update", "Bucket")
        yield Route("PUT", one, "buckets.update", self.change, f"{may}.update", "Bucket")
        yield Route("DELETE", one, "buckets.delete", self.delete, f"{may}.delete")
        yield Route("GET", f"{one}/iam", "buckets.getIamPolicy", self.policy, f"{may}.getIamPolicy")
        yield Route("PUT", f"{one}/iam", "buckets.setIamPolicy", self.set_policy, f"{may}.setIamPolicy", "Policy")
        yield Route("GET", f"{one}/iam/testPermissions", "buckets.testIamPermissions", self.test, f"{may}.getIamPolicy")
        yield Route("GET", f"{one}/anywhereCaches", "anywhereCaches.list", _no_caches, "storage.anywhereCaches.list")
        yield Route("GET", f"{one}/anywhereCaches/", "anywhereCaches.list", _no_caches, "storage.anywhereCaches.list")

    def create(self, call: Call) -> Obj:
        """A new bucket."""
        name, project = str(call.body.get("name") or ""), call.query.get("project", "")
        if not _NAME.fullmatch(name) or any(len(part) > _LONGEST for part in name.split(".")):
            raise invalid(f"Invalid bucket name: '{name}'")
        if self._buckets.get(_BUCKETS, name) is not None:
            taken = "The requested bucket name is not available. The bucket namespace is shared by all users of the system."
            raise GoogleError("ALREADY_EXISTS", taken, reason="conflict")
        body = _filled(name, dict(call.body), None)
        body["projectNumber"] = project_number(project)
        self._buckets.put(Document(_BUCKETS, name, body, {"project": project}))
        return body

    def get(self, call: Call) -> Obj:
        """A bucket."""
        document = self._bucket(call)
        check(call, None, document.body["metageneration"])
        return document.body

    def find_all(self, call: Call) -> Obj:
        """The buckets of a project."""
        project, prefix = call.query.get("project", ""), call.query.get("prefix", "")
        mine = (each for each in self._buckets.all(_BUCKETS) if each.inner["project"] == project and each.name.startswith(prefix))
        found, more = page(call, mine)
        return {"kind": "storage#buckets", **({"items": [each.body for each in found]} if found else {}), **more}

    def change(self, call: Call) -> Obj:
        """Other settings of a bucket; its name and place stay."""
        document = self._bucket(call)
        before = document.body
        check(call, None, before["metageneration"])
        merged = {key: value for key, value in {**before, **call.body}.items() if value is not None}
        for key in ("name", "location", "projectNumber", "id", "timeCreated"):
            merged[key] = before[key]
        document.body = _filled(document.name, merged, before)
        self._buckets.put(document)
        return document.body

    def delete(self, call: Call) -> Obj:
        """Remove a bucket that is empty."""
        document = self._bucket(call)
        check(call, None, document.body["metageneration"])
        if not self.objects.is_empty(document.name):
            raise GoogleError("ALREADY_EXISTS", "The bucket you tried to delete is not empty.", reason="conflict")
        self._buckets.remove(document)
        self._policies.forget(f"b/{document.name}")
        return {}

    def policy(self, call: Call) -> Obj:
        """Who may use a bucket."""
        return self._shown(self._bucket(call).name)

    def set_policy(self, call: Call) -> Obj:
        """Others may use it."""
        name = self._bucket(call).name
        self._policies.set(f"b/{name}", call.body)
        return self._shown(name)

    def test(self, call: Call) -> Obj:
        """What the caller may do: everything, for whoever has the twin's token may."""
        self._bucket(call)
        asked = [value for key, value in call.query.items() if key == "permissions"]
        return {"kind": "storage#testIamPermissionsResponse", "permissions": asked}

    def _shown(self, name: str) -> Obj:
        return {"kind": "storage#policy", "resourceId": f"projects/_/buckets/{name}", **self._policies.get(f"b/{name}")}

    def _bucket(self, call: Call) -> Document:
        document = self._buckets.get(_BUCKETS, call.params["bucket"])
        if document is None:
            raise GoogleError("NOT_FOUND", "The specified bucket does not exist.")
        return document


def _no_caches(_: Call) -> Obj:
    return {}


def _filled(name: str, body: Obj, before: Obj | None) -> Obj:
    location = str(body.get("location") or "US").upper()
    settings = body.get("iamConfiguration") or {}
    uniform = bool((settings.get("uniformBucketLevelAccess") or {}).get("enabled"))
    version = str(int((before or {}).get("metageneration") or 0) + 1)
    return {
        "kind": "storage#bucket",
        "storageClass": "STANDARD",
        **({} if "-" in location else {"rpo": "DEFAULT"}),
        "softDeletePolicy": {"retentionDurationSeconds": "604800", "effectiveTime": (before or {}).get("timeCreated") or stamp()},
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
        "timeCreated": (before or {}).get("timeCreated") or stamp(),
        "updated": stamp(),
        "selfLink": f"https://www.googleapis.com/storage/v1/b/{name}",
    }
