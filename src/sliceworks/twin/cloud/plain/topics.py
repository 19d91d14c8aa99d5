"""Pub/Sub: schemas, topics and subscriptions, and the messages that go through them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.names import camel
from sliceworks.twin.cloud.errors import GoogleError, invalid
from sliceworks.twin.cloud.plain import protos
from sliceworks.twin.cloud.plain.guarded import Guarded
from sliceworks.twin.cloud.plain.messages import Messages
from sliceworks.twin.cloud.plain.operations import Direct
from sliceworks.twin.cloud.plain.pages import page
from sliceworks.twin.cloud.plain.policies import Policies
from sliceworks.twin.cloud.plain.service import PlainService
from sliceworks.twin.cloud.plain.shelves import Kind, Shelf, named_in_path, named_in_query, number, stamp
from sliceworks.twin.cloud.routes import Call, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.cloud.plain.rows import Rows
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_AT = "projects/{project}"
_DELETED = "_deleted-topic_"
_USUAL: Obj = {
    "ackDeadlineSeconds": 10,
    "messageRetentionDuration": "604800s",
    "expirationPolicy": {"ttl": "2678400s"},
    "state": "ACTIVE",
    "pushConfig": {},
}


class PubSub:
    """All topics and subscriptions. Rows of BigQuery subscriptions go to `rows`."""

    def __init__(self, store: Store, rows: Rows) -> None:
        self._policies = Policies(store, "pubsub")
        self._style = Direct()
        self.schemas = Shelf(
            store, self._kind("schemas", "Schema", named=named_in_query("schemaId"), filled=_schema, update="", removed=self._bare)
        )
        self.topics = Shelf(
            store,
            self._kind(
                "topics", "Topic", named=named_in_path("topics"), create="PUT", filled=self._topic, unwrapped=_inner("topic"),
                removed=self._orphaned,
            ),
        )  # fmt: skip
        self.subscriptions = Shelf(
            store,
            self._kind(
                "subscriptions", "Subscription", named=named_in_path("subscriptions"), create="PUT", filled=self._subscription,
                unwrapped=_inner("subscription"), removed=self._ended,
            ),
        )  # fmt: skip
        self.messages = Messages(store, self.schemas, self.topics, self.subscriptions, rows)

    def _kind(self, plural: str, message: str, **other: Any) -> Kind:
        return Kind("pubsub", plural, _AT, message, f"pubsub.{plural}", self._style, **other)

    def service(self) -> PlainService:
        """The API."""
        return PlainService("pubsub", "v1", self._routes())

    def _routes(self) -> Iterator[Route]:
        yield from self.schemas.routes()
        for shelf, request in ((self.topics, "UpdateTopicRequest"), (self.subscriptions, "UpdateSubscriptionRequest")):
            for route in shelf.routes():
                answer = _masked_body(shelf)
                changed = route.http == "PATCH"
                yield Route(route.http, route.template, route.method, answer, route.permission, request) if changed else route
        topic, subscription = f"{_AT}/topics/{{topics}}", f"{_AT}/subscriptions/{{subscriptions}}"
        yield from Guarded(self.topics, self._policies).routes(topic, "pubsub.topics")
        yield from Guarded(self.subscriptions, self._policies).routes(subscription, "pubsub.subscriptions")
        yield Route("GET", f"{topic}/subscriptions", "topics.subscriptions.list", self._followers, "pubsub.topics.get")
        yield from self.messages.routes(topic, subscription)

    def _topic(self, call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
        schema = str((body.get("schemaSettings") or {}).get("schema") or "")
        if schema and self.schemas.at(*_split(schema, "schemas")) is None:
            raise GoogleError("NOT_FOUND", f"Resource not found (resource={schema.rpartition('/')[2]}).")
        return {"state": "ACTIVE", **body, "name": f"projects/{call.params['project']}/topics/{name}"}

    def _subscription(self, call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
        topic = str(body.get("topic") or "")
        if topic != _DELETED and self.topics.at(*_split(topic, "topics")) is None:
            raise GoogleError("NOT_FOUND", f"Resource not found (resource={topic.rpartition('/')[2]}).")
        made = {**_USUAL, **body, "name": f"projects/{call.params['project']}/subscriptions/{name}"}
        if body.get("bigqueryConfig"):
            made["bigqueryConfig"] = {"state": "ACTIVE", **body["bigqueryConfig"]}
        return made

    def _followers(self, call: Call) -> Obj:
        """The subscriptions of a topic."""
        topic = self.topics.found(call).body["name"]
        found, more = page(call, (each for each in self.subscriptions.everything() if each.body["topic"] == topic))
        return {**({"subscriptions": [each.body["name"] for each in found]} if found else {}), **more}

    def _orphaned(self, path: str) -> None:
        """Subscriptions outlive their topic, and say so."""
        self._policies.forget(path)
        for document in list(self.subscriptions.everything()):
            if document.body["topic"] == path:
                document.body["topic"] = _DELETED
                self.subscriptions.put(document)

    def _ended(self, path: str) -> None:
        self._policies.forget(path)
        self.messages.forget(path)

    def _bare(self, path: str) -> None:
        """Topics outlive their schema, and take no messages any more."""
        for document in list(self.topics.everything()):
            settings = document.body.get("schemaSettings") or {}
            if settings.get("schema") == path:
                document.body["schemaSettings"] = {**settings, "schema": "_deleted-schema_"}
                self.topics.put(document)


def _schema(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
    if not body.get("definition"):
        raise invalid("Invalid schema: definition must be set.")
    if body.get("type") != "PROTOCOL_BUFFER":
        raise invalid(f"The twin reads schemas of type PROTOCOL_BUFFER, not {body.get('type')}.")
    protos.check(body["definition"])
    path = f"projects/{call.params['project']}/schemas/{name}"
    return {**body, "name": path, "revisionId": number(path + body["definition"])[-8:], "revisionCreateTime": stamp()}


def _split(path: str, plural: str) -> tuple[str, str]:
    parent, _, name = path.rpartition(f"/{plural}/")
    return parent, name


def _inner(key: str) -> Callable[[Obj], Obj]:
    """Pub/Sub wraps what changes; what is made comes bare."""
    return lambda body: body[key] if key in body and isinstance(body[key], dict) else body


def _masked_body(shelf: Shelf) -> Callable[[Call], Obj]:
    """An update whose mask stands in its body."""

    def change(call: Call) -> Obj:
        mask = str(call.body.get("updateMask") or "")
        if not mask:
            raise invalid("The update_mask in the request must be set, and must contain a valid field.")
        document = shelf.found(call)
        inner = shelf.kind.unwrapped(call.body)
        wanted = {camel(field.split(".")[0]) for field in mask.split(",") if field}
        merged = {**document.body, **{field: inner.get(field) for field in wanted}}
        document.body = shelf.kind.filled(
            call, document.name, {key: value for key, value in merged.items() if value is not None}, document.body
        )
        shelf.put(document)
        return document.body

    return change
