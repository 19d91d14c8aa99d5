"""Pub/Sub: schemas, topics and subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.names import numeric_id
from sliceworks.twin.cloud.core.authorization import Authorizer
from sliceworks.twin.cloud.core.collection import (
    Collection,
    ResourceType,
    name_from_path,
    name_from_query,
    paginate,
)
from sliceworks.twin.cloud.core.document_store import Table
from sliceworks.twin.cloud.core.exceptions import GoogleError, invalid_argument, refuse
from sliceworks.twin.cloud.core.iam_policy import ServiceAgents
from sliceworks.twin.cloud.core.operations import DirectResponse
from sliceworks.twin.cloud.core.routes import Call, Route
from sliceworks.twin.cloud.core.service import RestService
from sliceworks.twin.cloud.google.pubsub import delivery
from sliceworks.twin.cloud.google.pubsub.delivery import PendingMessages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.core.service import ServiceContext
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_PROJECT = "projects/{project}"
_DELETED_TOPIC = "_deleted-topic_"
_WRITER_ROLES = frozenset({"WRITER", "OWNER", "roles/bigquery.dataEditor", "roles/bigquery.dataOwner", "roles/bigquery.admin"})
_DEFAULTS: Obj = {
    "ackDeadlineSeconds": 10,
    "messageRetentionDuration": "604800s",
    "expirationPolicy": {"ttl": "2678400s"},
    "state": "ACTIVE",
    "pushConfig": {},
}


def create(context: ServiceContext) -> list[RestService]:
    """Create the service."""
    return [RestService("pubsub", "v1", PubSub(context.store).routes())]


class PubSub:
    """All topics and subscriptions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._agents, self._authorizer = ServiceAgents(store), Authorizer(store)
        self._datasets, self._tables = Table(store, "bigquery/datasets", "Dataset"), Table(store, "bigquery/tables", "Table")
        self._schemas = self._collection(
            "schemas",
            "Schema",
            get_name=name_from_query("schemaId"),
            fill=_fill_schema,
            update="",
            on_delete=self._on_schema_deleted,
        )
        self._topics = self._collection(
            "topics",
            "Topic",
            get_name=name_from_path("topics"),
            fill=self._fill_topic,
            create="PUT",
            update_request="UpdateTopicRequest",
            update_field="topic",
            has_update_mask=True,
            on_delete=self._on_topic_deleted,
            has_policy=True,
        )
        self._subscriptions = self._collection(
            "subscriptions",
            "Subscription",
            get_name=name_from_path("subscriptions"),
            fill=self._fill_subscription,
            create="PUT",
            update_request="UpdateSubscriptionRequest",
            update_field="subscription",
            has_update_mask=True,
            on_delete=self._on_subscription_deleted,
            has_policy=True,
        )
        self._messages = PendingMessages(store, self._schemas, self._topics, self._subscriptions)

    def _collection(self, plural: str, message: str, **hooks: Any) -> Collection:
        resource = ResourceType(plural, _PROJECT, message, f"pubsub.{plural}", **hooks)
        return Collection(self._store, "pubsub", resource, DirectResponse())

    def routes(self) -> Iterator[Route]:
        """All routes of the service."""
        for collection in (self._schemas, self._topics, self._subscriptions):
            yield from collection.routes()
        topic, subscription = f"{_PROJECT}/topics/{{topics}}", f"{_PROJECT}/subscriptions/{{subscriptions}}"
        yield Route("GET", f"{topic}/subscriptions", "topics.subscriptions.list", self._list_subscriptions, "pubsub.topics.get")
        yield from self._messages.routes(topic, subscription)

    def _fill_topic(self, call: Call, path: str, body: Obj, before: Obj | None) -> Obj:
        # The first topic of a project creates the service agent of Pub/Sub.
        self._agents.create(call.params["project"], "pubsub")
        schema = str((body.get("schemaSettings") or {}).get("schema") or "")
        if schema and self._schemas.find(*_split(schema, "schemas")) is None:
            raise GoogleError("NOT_FOUND", f"Resource not found (resource={schema.rpartition('/')[2]}).")
        return {"state": "ACTIVE", **body, "name": path}

    def _fill_subscription(self, call: Call, path: str, body: Obj, before: Obj | None) -> Obj:
        topic = str(body.get("topic") or "")
        if topic != _DELETED_TOPIC and self._topics.find(*_split(topic, "topics")) is None:
            raise GoogleError("NOT_FOUND", f"Resource not found (resource={topic.rpartition('/')[2]}).")
        subscription = {**_DEFAULTS, **body, "name": path}
        if body.get("bigqueryConfig"):
            self._check_bigquery(call.params["project"], topic, body["bigqueryConfig"])
            subscription["bigqueryConfig"] = {"state": "ACTIVE", **body["bigqueryConfig"]}
        return subscription

    def _check_bigquery(self, project: str, topic: str, config: Obj) -> None:
        """Raise INVALID_ARGUMENT if the service agent may not write to a table, or if the table requires optional fields."""
        name = str(config.get("table") or "").replace(":", ".").split(".")
        if len(name) != 3:
            return
        dataset_project, dataset, table = name
        document, stored = self._datasets.get(dataset_project, dataset), self._tables.get(f"{dataset_project}:{dataset}", table)
        if document is None or stored is None:
            return
        agent = self._agents.create(project, "pubsub")
        roles = {entry.get("role") for entry in document.body.get("access") or () if agent in str(entry)}
        allowed = self._authorizer.is_allowed(agent, "bigquery.tables.updateData", dataset_project)
        if not allowed and not roles & _WRITER_ROLES:
            raise refuse("bigquery-subscription-access", account=agent)
        if config.get("useTopicSchema") and topic != _DELETED_TOPIC:
            columns = (stored.body.get("schema") or {}).get("fields") or ()
            optional = self._optional_fields(topic)
            for column in columns:
                if column.get("mode") == "REQUIRED" and column.get("name") in optional:
                    raise refuse("bigquery-subscription-schema", field=column["name"])

    def _optional_fields(self, topic: str) -> set[str]:
        """The fields of a topic's schema that a message may omit."""
        document = self._topics.find(*_split(topic, "topics"))
        schema = str(((document.body if document else {}).get("schemaSettings") or {}).get("schema") or "")
        stored = self._schemas.find(*_split(schema, "schemas")) if schema else None
        return delivery.optional_fields(stored.body["definition"]) if stored else set()

    def _list_subscriptions(self, call: Call) -> Obj:
        topic = self._topics.get_document(call).body["name"]
        subscriptions = (document for document in self._subscriptions.all() if document.body["topic"] == topic)
        page, token = paginate(call, subscriptions)
        return {**({"subscriptions": [document.body["name"] for document in page]} if page else {}), **token}

    def _on_topic_deleted(self, path: str) -> None:
        """Subscriptions outlive their topic and refer to the deleted topic."""
        for document in list(self._subscriptions.all()):
            if document.body["topic"] == path:
                document.body["topic"] = _DELETED_TOPIC
                self._subscriptions.put(document)

    def _on_subscription_deleted(self, path: str) -> None:
        self._messages.delete_subscription(path)

    def _on_schema_deleted(self, path: str) -> None:
        """Topics outlive their schema but reject messages."""
        for document in list(self._topics.all()):
            settings = document.body.get("schemaSettings") or {}
            if settings.get("schema") == path:
                document.body["schemaSettings"] = {**settings, "schema": "_deleted-schema_"}
                self._topics.put(document)


def _fill_schema(call: Call, path: str, body: Obj, before: Obj | None) -> Obj:
    if not body.get("definition"):
        raise invalid_argument("Invalid schema: definition must be set.")
    if body.get("type") != "PROTOCOL_BUFFER":
        raise invalid_argument(f"The twin reads schemas of type PROTOCOL_BUFFER, not {body.get('type')}.")
    delivery.check_schema(body["definition"])
    return {**body, "name": path, "revisionId": numeric_id(path + body["definition"])[-8:], "revisionCreateTime": clock.timestamp()}


def _split(path: str, plural: str) -> tuple[str, str]:
    parent, _, name = path.rpartition(f"/{plural}/")
    return parent, name
