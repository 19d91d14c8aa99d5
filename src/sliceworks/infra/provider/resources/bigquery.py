"""BigQuery, Pub/Sub, Artifact Registry and GKE Hub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import CloudNotFound
from sliceworks.base.names import to_camel_case
from sliceworks.infra.provider import conversion
from sliceworks.infra.provider.conversion import FieldNames
from sliceworks.infra.provider.resources.iam_member import IamMember
from sliceworks.infra.provider.rest_resource import Resource, RestResource, fill_template, wait_for_operation

if TYPE_CHECKING:
    from sliceworks.infra.provider.rest_resource import ProviderConfig
    from sliceworks.infra.provider.schema import Block

Object = dict[str, Any]
_LABELS = frozenset({"labels", "terraform_labels"})
_SENT = frozenset({"effective_labels"})


def _names(local: set[str], **renamed: str) -> FieldNames:
    return FieldNames({"effective_labels": "labels", **renamed}, frozenset(local) | _LABELS, _SENT)


class Dataset(RestResource):
    """A dataset; `delete_contents_on_destroy` deletes its tables too."""

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Delete it."""
        query = {"deleteContents": "true"} if prior.get("delete_contents_on_destroy") else None
        await settings.session("big_query").call("DELETE", "/" + fill_template(self.path, prior), query=query)


class Table(RestResource):
    """A table: its columns are a JSON string in Terraform and a list in the API."""

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Create the table."""
        await settings.session("big_query").call("POST", "/" + fill_template(_TABLES, planned), self._body(block, planned))
        return await self.read(settings, block, planned)

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Update columns or settings."""
        await settings.session("big_query").call("PUT", "/" + fill_template(self.path, prior), self._body(block, planned))
        return await self.read(settings, block, planned)

    def _body(self, block: Block, planned: Object) -> Object:
        body = conversion.to_api_body(block, planned, self.names)
        body["tableReference"] = {
            "projectId": planned["project"],
            "datasetId": planned["dataset_id"],
            "tableId": planned["table_id"],
        }
        if planned.get("schema"):
            body["schema"] = {"fields": orjson.loads(planned["schema"])}
        return body


_DATASET_ROLES = {"roles/bigquery.dataOwner": "OWNER", "roles/bigquery.dataEditor": "WRITER", "roles/bigquery.dataViewer": "READER"}


class DatasetMember(Resource):
    """A member of a dataset's access list."""

    _path = "/projects/{project}/datasets/{dataset_id}"

    def _entry(self, state: Object) -> Object:
        kind, _, name = state["member"].partition(":")
        key = {"user": "userByEmail", "serviceAccount": "userByEmail", "group": "groupByEmail", "domain": "domain"}.get(kind)
        role = _DATASET_ROLES.get(state["role"], state["role"])
        return {"role": role, key: name} if key else {"role": role, "iamMember": state["member"]}

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Add the member."""
        await self._write(settings, planned, add=True)
        return {**planned, "id": fill_template("projects/{project}/datasets/{dataset_id}/{role}/{member}", planned)}

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object:
        """Read the member."""
        dataset = await settings.session("big_query").call("GET", fill_template(self._path, known))
        if self._entry(known) not in (dataset.get("access") or ()):
            raise CloudNotFound(f"{known['member']} does not have {known['role']}")
        return {**known, "etag": dataset.get("etag")}

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Members are immutable."""
        return planned

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Remove the member."""
        await self._write(settings, prior, add=False)

    async def _write(self, settings: ProviderConfig, state: Object, *, add: bool) -> None:
        session, path, entry = settings.session("big_query"), fill_template(self._path, state), self._entry(state)
        async with settings.lock(path):
            dataset = await session.call("GET", path)
            others = [item for item in dataset.get("access") or () if item != entry]
            await session.call("PATCH", path, {"access": [*others, entry] if add else others})


class FeatureMembership(Resource):
    """The configuration of a fleet feature for one membership: an entry of the feature's membershipSpecs."""

    _path = "/projects/{project}/locations/{location}/features/{feature}"

    def _member(self, state: Object) -> str:
        place = state.get("membership_location") or "global"
        return f"projects/{state['project']}/locations/{place}/memberships/{state['membership']}"

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Add the entry."""
        await self._write(settings, planned, {"mesh": _mesh(planned)})
        return {**planned, "id": fill_template(self._path, planned)[1:] + f"/membershipId/{planned['membership']}"}

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object:
        """Read the entry."""
        feature = await settings.session("gke_hub2").call("GET", fill_template(self._path, known))
        if self._member(known) not in (feature.get("membershipSpecs") or {}):
            raise CloudNotFound(f"feature {known['feature']} has no membership {known['membership']}")
        return known

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Replace the entry."""
        return await self.create(settings, block, planned)

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Remove the entry."""
        await self._write(settings, prior, {})

    async def _write(self, settings: ProviderConfig, state: Object, entry: Object) -> None:
        """Set the entry; an empty one removes it."""
        session, path = settings.session("gke_hub2"), fill_template(self._path, state)
        async with settings.lock(path):
            feature = await session.call("GET", path)
            specs = {**(feature.get("membershipSpecs") or {}), self._member(state): entry}
            operation = await session.call("PATCH", path, {"membershipSpecs": specs}, {"updateMask": "membershipSpecs"})
            await wait_for_operation(settings, "gke_hub2", "longrunning", state, operation)


def _mesh(state: Object) -> Object:
    mesh = (state.get("mesh") or [{}])[0]
    return {to_camel_case(key): value for key, value in mesh.items() if value}


def _pubsub(path: str, wrapped: str) -> RestResource:
    """A Pub/Sub resource: created by PUT; an update contains the whole resource, and the provider sends the mask in the query."""
    names = _names({"project", "name"})
    return RestResource("pubsub", path, names, collection=path, create_method="PUT", wrapped=wrapped, update_mask=True)


_LOCATION = "projects/{project}/locations/{location}"
_REPOSITORY = f"{_LOCATION}/repositories"
_DATASETS = "projects/{project}/datasets"
_TABLES = f"{_DATASETS}/{{dataset_id}}/tables"

RESOURCES: dict[str, Resource] = {
    "google_artifact_registry_repository": RestResource(
        "artifact_registry",
        f"{_REPOSITORY}/{{repository_id}}",
        _names({"project", "location", "repository_id", "name"}),
        create_query="repository_id={repository_id}",
        update_mask=True,
        operations="longrunning",
        update_operations=False,
        derived={"name": "{repository_id}"},
    ),
    "google_artifact_registry_repository_iam_member": IamMember(
        "artifact_registry", f"{_REPOSITORY}/{{repository:last}}", get=("GET", ":getIamPolicy")
    ),
    "google_pubsub_schema": RestResource(
        "pubsub",
        "projects/{project}/schemas/{name}",
        FieldNames(local=frozenset({"project", "name"})),
        create_query="schemaId={name}",
    ),
    "google_pubsub_topic": _pubsub("projects/{project}/topics/{name}", "topic"),
    "google_pubsub_subscription": _pubsub("projects/{project}/subscriptions/{name}", "subscription"),
    "google_pubsub_topic_iam_member": IamMember("pubsub", "projects/{project}/topics/{topic:last}", get=("GET", ":getIamPolicy")),
    "google_bigquery_dataset": Dataset(
        "big_query",
        f"{_DATASETS}/{{dataset_id}}",
        _names({"project", "delete_contents_on_destroy", "access"}, dataset_id="datasetReference.datasetId"),
    ),
    "google_bigquery_dataset_iam_member": DatasetMember(),
    "google_bigquery_table": Table(
        "big_query",
        f"{_TABLES}/{{table_id}}",
        _names({"project", "dataset_id", "table_id", "schema", "deletion_protection", "table_metadata_view"}),
    ),
    "google_gke_hub_membership": RestResource(
        "gke_hub",
        f"{_LOCATION}/memberships/{{membership_id}}",
        _names({"project", "location", "membership_id"}),
        create_query="membershipId={membership_id}",
        update_mask=True,
        operations="longrunning",
    ),
    "google_gke_hub_feature": RestResource(
        "gke_hub2",
        f"{_LOCATION}/features/{{name}}",
        _names({"project", "location", "name", "resource_state", "state"}),
        create_query="featureId={name}",
        update_mask=True,
        operations="longrunning",
    ),
    "google_gke_hub_feature_membership": FeatureMembership(),
}
