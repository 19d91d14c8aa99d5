"""Buckets and what is in them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudNotFound
from sliceworks.infra.standin import mapping
from sliceworks.infra.standin.kinds import Kind, Rest
from sliceworks.infra.standin.mapping import Names
from sliceworks.infra.standin.resources.members import Member

if TYPE_CHECKING:
    from sliceworks.infra.standin.schemas import Block
    from sliceworks.infra.standin.settings import Settings

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bucket(Rest):
    """A bucket, which is emptied first where Terraform was told so."""

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Remove it."""
        session = settings.session("storage")
        if prior.get("force_destroy"):
            listed = await session.call("GET", f"/b/{prior['name']}/o", query={"versions": "true"})
            for each in listed.get("items") or ():
                await session.call("DELETE", f"/b/{prior['name']}/o/{mapping.quoted(each['name'])}")
        await Rest.delete(self, settings, block, prior)


class BucketObject:
    """An object with a content that Terraform holds."""

    fixed = ("bucket", "name")
    filled_in: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """Send the content."""
        content = (planned.get("content") or "").encode()
        path = f"/upload/storage/v1/b/{planned['bucket']}/o"
        query = {"uploadType": "media", "name": planned["name"]}
        answer = await settings.upload(path, content, query, planned.get("content_type") or "text/plain; charset=utf-8")
        return _object(planned, answer)

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """What is known of it; a content that somebody changed shows in its hash."""
        try:
            answer = await settings.session("storage").call("GET", f"/b/{known['bucket']}/o/{mapping.quoted(known['name'])}")
        except CloudNotFound:
            return None
        return _object(known, answer)

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """Another content."""
        return await self.create(settings, block, planned)

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Remove it."""
        try:
            await settings.session("storage").call("DELETE", f"/b/{prior['bucket']}/o/{mapping.quoted(prior['name'])}")
        except CloudNotFound:
            return


def _object(known: Object, answer: Object) -> Object:
    return {
        **known,
        "id": f"{answer['bucket']}-{answer['name']}",
        "output_name": answer["name"],
        "content_type": answer.get("contentType"),
        "crc32c": answer.get("crc32c"),
        "md5hash": answer.get("md5Hash"),
        "md5hexhash": base64.b64decode(answer.get("md5Hash") or "").hex(),
        "generation": int(answer.get("generation") or 0),
        "media_link": answer.get("mediaLink"),
        "self_link": answer.get("selfLink"),
        "storage_class": answer.get("storageClass"),
    }


KINDS: dict[str, Kind] = {
    "google_storage_bucket": Bucket(
        api="storage",
        collection="b?project={project}",
        path="b/{name}",
        id="{name}",
        fixed=("name", "location", "project"),
        names=Names(
            renamed={
                "effective_labels": "labels",
                "uniform_bucket_level_access": "iamConfiguration.uniformBucketLevelAccess.enabled",
                "public_access_prevention": "iamConfiguration.publicAccessPrevention",
                "lifecycle_rule": "lifecycle.rule",
            },
            local=frozenset({"project", "force_destroy", "labels", "terraform_labels"}),
            sent=frozenset({"effective_labels"}),
            upper=frozenset({"location"}),
        ),
        derived={"url": "gs://{name}"},
        also=("{project}/{name}",),
    ),
    "google_storage_bucket_iam_member": Member(
        "storage",
        "b/{bucket}",
        get=("GET", "/iam"),
        set=("PUT", "/iam"),
        wrapped=False,
        fixed=("bucket", "role", "member", "condition"),
    ),
    "google_storage_bucket_object": BucketObject(),
}
