"""Cloud Storage: buckets, objects and their IAM members."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudInvalid, CloudNotFound
from sliceworks.infra.provider import conversion
from sliceworks.infra.provider.conversion import FieldNames
from sliceworks.infra.provider.resources.iam_member import IamMember
from sliceworks.infra.provider.rest_resource import Resource, RestResource

if TYPE_CHECKING:
    from sliceworks.infra.provider.rest_resource import ProviderConfig
    from sliceworks.infra.provider.schema import Block

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bucket(RestResource):
    """A bucket; `force_destroy` empties it before deletion."""

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Delete it."""
        session = settings.session("storage")
        listed = await session.call("GET", f"/b/{prior['name']}/o", query={"versions": "true"})
        if listed.get("items") and not prior.get("force_destroy"):
            raise CloudInvalid(
                f"Error trying to delete bucket {prior['name']} containing objects without `force_destroy` set to true"
            )
        if prior.get("force_destroy"):
            for item in listed.get("items") or ():
                await session.call("DELETE", f"/b/{prior['name']}/o/{conversion.quote_segment(item['name'])}")
        await RestResource.delete(self, settings, block, prior)


class BucketObject:
    """An object whose content is in the configuration."""

    filled_in: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Upload the content."""
        content = (planned.get("content") or "").encode()
        path = f"/upload/storage/v1/b/{planned['bucket']}/o"
        query = {"uploadType": "media", "name": planned["name"]}
        answer = await settings.upload(path, content, query, planned.get("content_type") or "text/plain; charset=utf-8")
        return _object(planned, answer)

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object | None:
        """Read the object; a changed content shows in its hash."""
        try:
            answer = await settings.session("storage").call(
                "GET", f"/b/{known['bucket']}/o/{conversion.quote_segment(known['name'])}"
            )
        except CloudNotFound:
            return None
        return _object(known, answer)

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Upload the new content."""
        return await self.create(settings, block, planned)

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Delete it."""
        try:
            await settings.session("storage").call("DELETE", f"/b/{prior['bucket']}/o/{conversion.quote_segment(prior['name'])}")
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


RESOURCES: dict[str, Resource] = {
    "google_storage_bucket": Bucket(
        api="storage",
        collection="b?project={project}",
        path="b/{name}",
        id="{name}",
        names=FieldNames(
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
    "google_storage_bucket_iam_member": IamMember(
        "storage",
        "b/{bucket}",
        get=("GET", "/iam"),
        set=("PUT", "/iam"),
        wrapped=False,
    ),
    "google_storage_bucket_object": BucketObject(),
}
