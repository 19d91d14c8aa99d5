"""Registries, topics, datasets and fleets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import CloudNotFound
from sliceworks.base.names import camel
from sliceworks.infra.standin import mapping
from sliceworks.infra.standin.kinds import Kind, Rest, fill, finished
from sliceworks.infra.standin.mapping import Names
from sliceworks.infra.standin.resources.members import Member

if TYPE_CHECKING:
    from sliceworks.infra.standin.schemas import Block
    from sliceworks.infra.standin.settings import Settings

Object = dict[str, Any]
_LABELS = frozenset({"labels", "terraform_labels"})
_SENT = frozenset({"effective_labels"})


def _names(local: set[str], **renamed: str) -> Names:
    return Names({"effective_labels": "labels", **renamed}, frozenset(local) | _LABELS, _SENT)


class Dataset(Rest):
    """A dataset, whose tables go with it where Terraform was told so."""

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Remove it."""
        query = {"deleteContents": "true"} if prior.get("delete_contents_on_destroy") else None
        try:
            await settings.session("big_query").call("DELETE", "/" + fill(self.path, prior), query=query)
        except CloudNotFound:
            return


class Table(Rest):
    """A table: its columns are a JSON text to Terraform and a list to the API."""

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """A new table."""
        body = self._body(block, planned)
        await settings.session("big_query").call("POST", "/" + fill(self.collection, planned), body)
        made = await self.read(settings, block, planned)
        if made is None:
            raise CloudNotFound(f"{fill(self.path, planned)} is not there")
        return made

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """Other columns or settings."""
        await settings.session("big_query").call("PUT", "/" + fill(self.path, prior), self._body(block, planned))
        made = await self.read(settings, block, planned)
        if made is None:
            raise CloudNotFound(f"{fill(self.path, planned)} is gone")
        return made

    def _body(self, block: Block, planned: Object) -> Object:
        body = mapping.body(block, planned, self.names)
        body["tableReference"] = {
            "projectId": planned["project"],
            "datasetId": planned["dataset_id"],
            "tableId": planned["table_id"],
        }
        if planned.get("schema"):
            body["schema"] = {"fields": orjson.loads(planned["schema"])}
        return body


_DATASET_ROLES = {"roles/bigquery.dataOwner": "OWNER", "roles/bigquery.dataEditor": "WRITER", "roles/bigquery.dataViewer": "READER"}


class DatasetMember:
    """A member of a dataset, which keeps its own list of who may use it."""

    fixed = ("dataset_id", "project", "role", "member", "condition")
    filled_in: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    _path = "/projects/{project}/datasets/{dataset_id}"

    def _entry(self, state: Object) -> Object:
        kind, _, name = state["member"].partition(":")
        key = {"user": "userByEmail", "serviceAccount": "userByEmail", "group": "groupByEmail", "domain": "domain"}.get(kind)
        role = _DATASET_ROLES.get(state["role"], state["role"])
        return {"role": role, key: name} if key else {"role": role, "iamMember": state["member"]}

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """Add it."""
        await self._write(settings, planned, add=True)
        return {**planned, "id": fill("projects/{project}/datasets/{dataset_id}/{role}/{member}", planned)}

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """It, if it still is one."""
        try:
            dataset = await settings.session("big_query").call("GET", fill(self._path, known))
        except CloudNotFound:
            return None
        return {**known, "etag": dataset.get("etag")} if self._entry(known) in (dataset.get("access") or ()) else None

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """Nothing of it can change."""
        return planned

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Take it out."""
        try:
            await self._write(settings, prior, add=False)
        except CloudNotFound:
            return

    async def _write(self, settings: Settings, state: Object, *, add: bool) -> None:
        session, path, entry = settings.session("big_query"), fill(self._path, state), self._entry(state)
        async with settings.lock(path):
            dataset = await session.call("GET", path)
            others = [each for each in dataset.get("access") or () if each != entry]
            await session.call("PATCH", path, {"access": [*others, entry] if add else others})


class FeatureMembership:
    """What a fleet's feature does with one member: an entry of the feature's own specification."""

    fixed = ("feature", "location", "membership", "membership_location", "project")
    filled_in: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    _path = "/projects/{project}/locations/{location}/features/{feature}"

    def _member(self, state: Object) -> str:
        place = state.get("membership_location") or "global"
        return f"projects/{state['project']}/locations/{place}/memberships/{state['membership']}"

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """Say it of the member."""
        await self._write(settings, planned, {"mesh": _mesh(planned)})
        return {**planned, "id": fill(self._path, planned)[1:] + f"/membershipId/{planned['membership']}"}

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """What is said of the member."""
        try:
            feature = await settings.session("gke_hub2").call("GET", fill(self._path, known))
        except CloudNotFound:
            return None
        return known if self._member(known) in (feature.get("membershipSpecs") or {}) else None

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """Say something else."""
        return await self.create(settings, block, planned)

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Say nothing any more."""
        try:
            await self._write(settings, prior, None)
        except CloudNotFound:
            return

    async def _write(self, settings: Settings, state: Object, said: Object | None) -> None:
        session, path = settings.session("gke_hub2"), fill(self._path, state)
        async with settings.lock(path):
            feature = await session.call("GET", path)
            specs = {key: value for key, value in (feature.get("membershipSpecs") or {}).items() if key != self._member(state)}
            if said is not None:
                specs[self._member(state)] = said
            operation = await session.call("PATCH", path, {"membershipSpecs": specs}, {"updateMask": "membershipSpecs"})
            await finished(settings, "gke_hub2", "longrunning", state, operation)


def _mesh(state: Object) -> Object:
    found = (state.get("mesh") or [{}])[0]
    return {camel(key): value for key, value in found.items() if value}


@dataclass(frozen=True, slots=True)
class _Wrapped(Rest):
    """Pub/Sub wraps what changes, and says in the body which fields these are."""

    inner: str = ""

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """Send what differs."""
        new, old = mapping.body(block, planned, self.names), mapping.body(block, prior, self.names)
        changed = sorted(key for key in new.keys() | old.keys() if new.get(key) != old.get(key))
        if changed:
            body = {self.inner: new, "updateMask": ",".join(changed)}
            await settings.session(self.api).call("PATCH", "/" + fill(self.path, prior), body)
        made = await self.read(settings, block, planned)
        if made is None:
            raise CloudNotFound(f"{fill(self.path, planned)} is gone")
        return made


_REPOSITORY = "projects/{project}/locations/{location}/repositories"
_DATASETS = "projects/{project}/datasets"

KINDS: dict[str, Kind] = {
    "google_artifact_registry_repository": Rest(
        api="artifact_registry",
        collection=f"{_REPOSITORY}?repository_id={{repository_id}}",
        path=f"{_REPOSITORY}/{{repository_id}}",
        id=f"{_REPOSITORY}/{{repository_id}}",
        fixed=("repository_id", "location", "project", "format", "kms_key_name"),
        names=_names({"project", "location", "repository_id", "name"}),
        update_mask=True,
        operations="longrunning",
        update_operations=False,
        derived={"name": "{repository_id}"},
    ),
    "google_artifact_registry_repository_iam_member": Member(
        "artifact_registry",
        f"{_REPOSITORY}/{{repository:last}}",
        get=("GET", ":getIamPolicy"),
        fixed=("repository", "location", "project", "role", "member", "condition"),
    ),
    "google_pubsub_schema": Rest(
        api="pubsub",
        collection="projects/{project}/schemas?schemaId={name}",
        path="projects/{project}/schemas/{name}",
        id="projects/{project}/schemas/{name}",
        fixed=("name", "project", "type", "definition"),
        names=Names(local=frozenset({"project", "name"})),
    ),
    "google_pubsub_topic": _Wrapped(
        api="pubsub",
        collection="projects/{project}/topics/{name}",
        path="projects/{project}/topics/{name}",
        id="projects/{project}/topics/{name}",
        fixed=("name", "project"),
        names=_names({"project", "name"}),
        create_method="PUT",
        inner="topic",
    ),
    "google_pubsub_subscription": _Wrapped(
        api="pubsub",
        collection="projects/{project}/subscriptions/{name}",
        path="projects/{project}/subscriptions/{name}",
        id="projects/{project}/subscriptions/{name}",
        fixed=("name", "project", "topic"),
        names=_names({"project", "name"}),
        create_method="PUT",
        inner="subscription",
    ),
    "google_pubsub_topic_iam_member": Member(
        "pubsub",
        "projects/{project}/topics/{topic:last}",
        get=("GET", ":getIamPolicy"),
        fixed=("topic", "project", "role", "member", "condition"),
    ),
    "google_bigquery_dataset": Dataset(
        api="big_query",
        collection=_DATASETS,
        path=f"{_DATASETS}/{{dataset_id}}",
        id=f"{_DATASETS}/{{dataset_id}}",
        fixed=("dataset_id", "project", "location"),
        names=_names({"project", "delete_contents_on_destroy", "access"}, dataset_id="datasetReference.datasetId"),
    ),
    "google_bigquery_dataset_iam_member": DatasetMember(),
    "google_bigquery_table": Table(
        api="big_query",
        collection=f"{_DATASETS}/{{dataset_id}}/tables",
        path=f"{_DATASETS}/{{dataset_id}}/tables/{{table_id}}",
        id=f"{_DATASETS}/{{dataset_id}}/tables/{{table_id}}",
        fixed=("dataset_id", "table_id", "project", "time_partitioning.type", "time_partitioning.field"),
        names=_names({"project", "dataset_id", "table_id", "schema", "deletion_protection", "table_metadata_view"}),
    ),
    "google_gke_hub_membership": Rest(
        api="gke_hub",
        collection="projects/{project}/locations/{location}/memberships?membershipId={membership_id}",
        path="projects/{project}/locations/{location}/memberships/{membership_id}",
        id="projects/{project}/locations/{location}/memberships/{membership_id}",
        fixed=("membership_id", "location", "project", "endpoint"),
        names=_names({"project", "location", "membership_id"}),
        update_mask=True,
        operations="longrunning",
    ),
    "google_gke_hub_feature": Rest(
        api="gke_hub2",
        collection="projects/{project}/locations/{location}/features?featureId={name}",
        path="projects/{project}/locations/{location}/features/{name}",
        id="projects/{project}/locations/{location}/features/{name}",
        fixed=("name", "location", "project"),
        names=_names({"project", "location", "name", "resource_state", "state"}),
        update_mask=True,
        operations="longrunning",
    ),
    "google_gke_hub_feature_membership": FeatureMembership(),
}
