"""Cloud Storage: buckets, who may use them, and what is in them."""

from __future__ import annotations

import base64
import email
import email.message
import hashlib
import re
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.twin.cloud.errors import GoogleError, invalid, not_found
from sliceworks.twin.cloud.plain.policies import Policies
from sliceworks.twin.cloud.plain.projects import project_number
from sliceworks.twin.cloud.plain.service import PlainService
from sliceworks.twin.cloud.plain.shelves import number, stamp
from sliceworks.twin.cloud.routes import Call, Media, Route
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_BUCKETS, _LONGEST, _PARTS = "buckets", 63, 2


class Storage:
    """Buckets of all projects: their names are everybody's."""

    def __init__(self, store: Store) -> None:
        self._buckets = Table(store, "storage/buckets", "Bucket")
        self._objects = Table(store, "storage/objects", "Object")
        self._policies = Policies(store, "storage")

    def service(self) -> PlainService:
        """The API."""
        return PlainService("storage", "v1", self._routes())

    def uploads(self) -> PlainService:
        """Where contents are sent to: `/upload/storage/v1/b/BUCKET/o`."""
        at = "v1/b/{bucket}/o"
        routes = [Route("POST", at, "objects.insert", self.upload, "storage.objects.create")]
        return PlainService("upload", "storage", routes, messages=False)

    def downloads(self) -> PlainService:
        """Where contents are fetched from: `/download/storage/v1/b/BUCKET/o/OBJECT`."""
        at = "v1/b/{bucket}/o/{object}"
        routes = [Route("GET", at, "objects.get", self.download, "storage.objects.get")]
        return PlainService("download", "storage", routes, messages=False)

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
        yield Route("GET", f"{one}/anywhereCaches", "anywhereCaches.list", lambda call: {}, "storage.anywhereCaches.list")
        yield Route("GET", f"{one}/anywhereCaches/", "anywhereCaches.list", lambda call: {}, "storage.anywhereCaches.list")
        yield Route("GET", f"{one}/o", "objects.list", self.objects, "storage.objects.list")
        yield Route("GET", f"{one}/o/{{object}}", "objects.get", self.get_object, "storage.objects.get")
        yield Route("DELETE", f"{one}/o/{{object}}", "objects.delete", self.delete_object, "storage.objects.delete")

    def create(self, call: Call) -> Obj:
        """A new bucket."""
        name, project = str(call.body.get("name") or ""), call.query.get("project", "")
        if not _NAME.fullmatch(name) or any(len(part) > _LONGEST for part in name.split(".")):
            raise invalid(f"Invalid bucket name: '{name}'")
        if self._buckets.get(_BUCKETS, name) is not None:
            taken = "The requested bucket name is not available. The bucket namespace is shared by all users of the system."
            raise GoogleError("ALREADY_EXISTS", taken, reason="conflict")
        body = _filled(call, name, dict(call.body), None)
        body["projectNumber"] = project_number(project)
        self._buckets.put(Document(_BUCKETS, name, body, {"project": project}))
        return body

    def get(self, call: Call) -> Obj:
        """A bucket."""
        return self._bucket(call).body

    def find_all(self, call: Call) -> Obj:
        """The buckets of a project."""
        project = call.query.get("project", "")
        found = [each.body for each in self._buckets.all(_BUCKETS) if each.inner["project"] == project]
        return {"kind": "storage#buckets", **({"items": found} if found else {})}

    def change(self, call: Call) -> Obj:
        """Other settings of a bucket; its name and place stay."""
        document = self._bucket(call)
        before = document.body
        merged = {key: value for key, value in {**before, **call.body}.items() if value is not None}
        for key in ("name", "location", "projectNumber", "id", "timeCreated"):
            merged[key] = before[key]
        document.body = _filled(call, document.name, merged, before)
        self._buckets.put(document)
        return document.body

    def delete(self, call: Call) -> Obj:
        """Remove a bucket that is empty."""
        document = self._bucket(call)
        if next(self._objects.all(f"b/{document.name}"), None) is not None:
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

    def _shown(self, name: str) -> Obj:
        return {"kind": "storage#policy", "resourceId": f"projects/_/buckets/{name}", **self._policies.get(f"b/{name}")}

    def objects(self, call: Call) -> Obj:
        """What is in a bucket."""
        bucket, prefix = self._bucket(call).name, call.query.get("prefix", "")
        found = [each.body for each in self._objects.all(f"b/{bucket}") if each.name.startswith(prefix)]
        return {"kind": "storage#objects", **({"items": found} if found else {})}

    def get_object(self, call: Call) -> Obj | Media:
        """What is known of an object, or its content."""
        return self.download(call) if call.query.get("alt") == "media" else self._object(call).body

    def download(self, call: Call) -> Media:
        """The content of an object."""
        document = self._object(call)
        return Media(base64.b64decode(document.inner["content"]), document.body["contentType"])

    def upload(self, call: Call) -> Obj:
        """A new content, alone or behind a description of the object."""
        described: Obj = {}
        content, kind = call.raw, call.content_type
        if call.query.get("uploadType") == "multipart":
            described, content, kind = _two_parts(call)
        elif call.query.get("uploadType") != "media":
            raise invalid("The twin's cloud takes uploads of type media and multipart.")
        return self._store(call.params["bucket"], {"name": call.query.get("name", ""), **described}, content, kind)

    def delete_object(self, call: Call) -> Obj:
        """Remove an object."""
        self._objects.remove(self._object(call))
        return {}

    def _store(self, bucket: str, described: Obj, content: bytes, kind: str) -> Obj:
        if self._buckets.get(_BUCKETS, bucket) is None:
            raise not_found(f"b/{bucket}")
        name = str(described.get("name") or "")
        if not name:
            raise invalid("Required: object name")
        path = f"{bucket}/{name}"
        body = {
            "kind": "storage#object",
            **described,
            "id": f"{path}/1",
            "name": name,
            "bucket": bucket,
            "generation": number(path + str(len(content))),
            "metageneration": "1",
            "contentType": described.get("contentType") or kind,
            "storageClass": "STANDARD",
            "size": str(len(content)),
            "md5Hash": base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode(),
            "crc32c": "AAAAAA==",
            "etag": "CAE=",
            "timeCreated": stamp(),
            "updated": stamp(),
            "selfLink": f"https://www.googleapis.com/storage/v1/b/{bucket}/o/{name}",
            "mediaLink": f"https://storage.googleapis.com/download/storage/v1/b/{bucket}/o/{name}?generation=1&alt=media",
        }
        self._objects.put(Document(f"b/{bucket}", name, body, {"content": base64.b64encode(content).decode()}))
        return body

    def _bucket(self, call: Call) -> Document:
        document = self._buckets.get(_BUCKETS, call.params["bucket"])
        if document is None:
            raise GoogleError("NOT_FOUND", "The specified bucket does not exist.")
        return document

    def _object(self, call: Call) -> Document:
        bucket, name = self._bucket(call).name, call.params["object"]
        document = self._objects.get(f"b/{bucket}", name)
        if document is None:
            raise GoogleError("NOT_FOUND", f"No such object: {bucket}/{name}")
        return document


def _two_parts(call: Call) -> tuple[Obj, bytes, str]:
    """The description and the content of a multipart upload."""
    message = email.message_from_bytes(b"content-type: " + call.content_type.encode() + b"\r\n\r\n" + call.raw)
    parts = message.get_payload() if message.is_multipart() else []
    if not isinstance(parts, list) or len(parts) != _PARTS:
        raise invalid("Failed to parse a multipart request: it must have two parts.")
    first, second = (part for part in parts if isinstance(part, email.message.Message))
    try:
        described = orjson.loads(_bytes(first))
    except orjson.JSONDecodeError as error:
        raise invalid("Failed to parse the JSON of a multipart request.") from error
    if not isinstance(described, dict):
        raise invalid("Failed to parse the JSON of a multipart request.")
    return described, _bytes(second), second.get_content_type()


def _bytes(part: email.message.Message) -> bytes:
    found = part.get_payload(decode=True)
    return found if isinstance(found, bytes) else b""


def _filled(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
    location = str(body.get("location") or "US").upper()
    settings = body.get("iamConfiguration") or {}
    uniform = bool((settings.get("uniformBucketLevelAccess") or {}).get("enabled"))
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
        "metageneration": str(int((before or {}).get("metageneration") or 0) + 1),
        "etag": "CAE=",
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
