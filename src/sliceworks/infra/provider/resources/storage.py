"""Cloud Storage: buckets, objects and their IAM members."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudInvalid
from sliceworks.infra.provider.conversion import FieldNames, quote_segment
from sliceworks.infra.provider.resources.iam_member import IamMember
from sliceworks.infra.provider.rest_resource import Resource, RestResource

if TYPE_CHECKING:
    from sliceworks.infra.provider.rest_resource import ProviderConfig
    from sliceworks.infra.provider.schema import Block

Object = dict[str, Any]


class Bucket(RestResource):
    """A bucket; `force_destroy` empties it before deletion."""

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Delete it."""
        session, path = settings.session("storage"), f"/b/{prior['name']}/o"
        objects = [item async for page in session.pages(path, {"versions": "true"}) for item in page.get("items") or ()]
        if objects and not prior.get("force_destroy"):
            raise CloudInvalid(
                f"Error trying to delete bucket {prior['name']} containing objects without `force_destroy` set to true"
            )
        for item in objects:
            await session.call("DELETE", f"{path}/{quote_segment(item['name'])}")
        await super().delete(settings, block, prior)


class BucketObject(Resource):
    """An object whose content is in the configuration."""

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Upload the content."""
        content = (planned.get("content") or "").encode()
        path = f"/upload/storage/v1/b/{planned['bucket']}/o"
        query = {"uploadType": "media", "name": planned["name"]}
        answer = await settings.upload(path, content, query, planned.get("content_type") or "text/plain; charset=utf-8")
        return _object(planned, answer)

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object:
        """Read the object; a changed content shows in its hash."""
        path = f"/b/{known['bucket']}/o/{quote_segment(known['name'])}"
        return _object(known, await settings.session("storage").call("GET", path))

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Upload the new content."""
        return await self.create(settings, block, planned)

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Delete it."""
        await settings.session("storage").call("DELETE", f"/b/{prior['bucket']}/o/{quote_segment(prior['name'])}")


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
        "storage",
        "b/{name}",
        FieldNames(
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
        id="{name}",
        create_query="project={project}",
        derived={"url": "gs://{name}"},
        also=("{project}/{name}",),
    ),
    "google_storage_bucket_iam_member": IamMember("storage", "b/{bucket}", get=("GET", "/iam"), set=("PUT", "/iam"), wrapped=False),
    "google_storage_bucket_object": BucketObject(),
}
