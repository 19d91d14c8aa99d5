"""Messages of Pub/Sub: published to a topic, kept for each subscription until they are acknowledged, or written to a table."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.twin.cloud.errors import GoogleError, invalid
from sliceworks.twin.cloud.plain import protos
from sliceworks.twin.cloud.plain.rows import fitted
from sliceworks.twin.cloud.routes import Call, Route
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.plain.rows import Rows
    from sliceworks.twin.cloud.plain.shelves import Shelf
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_PARTS = ("data", "attributes", "orderingKey")
_MOST, _LARGEST, _LONGEST_WAIT = 1000, 10 * 1024 * 1024, 600


class Messages:
    """What was published and is not delivered yet."""

    def __init__(self, store: Store, schemas: Shelf, topics: Shelf, subscriptions: Shelf, rows: Rows) -> None:
        self._schemas, self._topics, self._subscriptions, self._rows = schemas, topics, subscriptions, rows
        self._waiting = Table(store, "pubsub/messages", "Message")
        self._counter = Table(store, "pubsub/counters", "Counter")

    def routes(self, topic: str, subscription: str) -> Iterator[Route]:
        """Publish, pull and acknowledge. Pulling by a stream is gRPC's, which the twin does not speak."""
        may = "pubsub.subscriptions.consume"
        yield Route("POST", f"{topic}:publish", "topics.publish", self.publish, "pubsub.topics.publish", "PublishRequest")
        for verb, answer in (("pull", self.pull), ("acknowledge", self.acknowledge), ("modifyAckDeadline", self.prolong)):
            request = f"{verb[0].upper()}{verb[1:]}Request"
            yield Route("POST", f"{subscription}:{verb}", f"subscriptions.{verb}", answer, may, request)

    def publish(self, call: Call) -> Obj:
        """Take messages in, all or none, and hand them to the topic's subscriptions."""
        topic = self._topics.found(call)
        given = call.body.get("messages") or []
        if not given:
            raise invalid("The value for message_count is too small. You passed 0 in the request, but the minimum value is 1.")
        if len(given) > _MOST or sum(len(each.get("data") or "") for each in given) > _LARGEST:
            raise invalid(f"The request is too large: no more than {_MOST} messages and {_LARGEST} bytes are taken at once.")
        fields = [self._checked(topic, each) for each in given]
        first = self._numbers(len(given))
        moment = clock.timestamp()
        made = [
            {**{key: each[key] for key in _PARTS if each.get(key)}, "messageId": str(first + index), "publishTime": moment}
            for index, each in enumerate(given)
        ]
        for subscription in list(self._subscriptions.everything()):
            if subscription.body["topic"] == topic.body["name"]:
                self._deliver(subscription, made, fields)
        return {"messageIds": [each["messageId"] for each in made]}

    def _checked(self, topic: Document, message: Obj) -> Obj:
        """What a message says by the topic's schema; nothing where there is none."""
        try:
            data = base64.b64decode(message.get("data") or "", validate=True)
        except binascii.Error as error:
            raise invalid("Invalid value at 'messages.data' (TYPE_BYTES), Base64 decoding failed.") from error
        if not data and not message.get("attributes"):
            raise invalid("One or more messages in the publish request is empty. Each message must contain data or attributes.")
        settings = topic.body.get("schemaSettings") or {}
        if not settings.get("schema"):
            return {}
        parent, _, name = str(settings["schema"]).rpartition("/schemas/")
        schema = self._schemas.at(parent, name)
        if schema is None:
            raise invalid("The topic's schema has been deleted: messages cannot be checked against it.")
        return protos.unpacked(schema.body["definition"], str(settings.get("encoding") or "JSON"), data)

    def _deliver(self, subscription: Document, messages: list[Obj], fields: list[Obj]) -> None:
        for message, said in zip(messages, fields, strict=True):
            self._waiting.put(Document(subscription.body["name"], f"{int(message['messageId']):020d}", message, {"fields": said}))
        if subscription.body.get("bigqueryConfig"):
            self._write(subscription)

    def _write(self, subscription: Document) -> None:
        """Write what waits to the table; what does not fit waits on, and the subscription says why."""
        config = subscription.body["bigqueryConfig"]
        table = self._rows.table(*str(config["table"]).replace(":", ".").split("."))
        state = "NOT_FOUND" if table is None else self._written(subscription, table)
        if config.get("state") != state:
            config["state"] = state
            self._subscriptions.put(subscription)

    def _written(self, subscription: Document, table: Document) -> str:
        drop = bool(subscription.body["bigqueryConfig"].get("dropUnknownFields"))
        rows, state = [], "ACTIVE"
        for message in list(self._waiting.all(subscription.body["name"])):
            row, problems = fitted(table, _row(subscription, message), drop=drop)
            if problems:
                state = "SCHEMA_MISMATCH"
            else:
                rows.append(row)
                self._waiting.remove(message)
        self._rows.append(table, rows)
        return state

    def pull(self, call: Call) -> Obj:
        """Messages that nobody else is at, up to so many."""
        subscription = self._pulled(call)
        most = int(call.body.get("maxMessages") or 0)
        if most < 1:
            raise invalid("The value for max_messages is too small. You passed 0 in the request, but the minimum value is 1.")
        found: list[Obj] = []
        for message in list(self._waiting.all(subscription.body["name"])):
            if len(found) >= most:
                break
            if _left(message) > 0:
                continue
            self._lend(message, float(subscription.body["ackDeadlineSeconds"]))
            found.append({"ackId": message.inner["ack"], "message": message.body})
        return {"receivedMessages": found} if found else {}

    def acknowledge(self, call: Call) -> Obj:
        """Messages that are done with."""
        for message in self._lent(call):
            self._waiting.remove(message)
        return {}

    def prolong(self, call: Call) -> Obj:
        """Keep messages longer, or give them back with 0."""
        seconds = int(call.body.get("ackDeadlineSeconds") or 0)
        if not 0 <= seconds <= _LONGEST_WAIT:
            raise invalid(f"The ack deadline must be between 0 and {_LONGEST_WAIT} seconds.")
        for message in self._lent(call):
            message.inner["until"] = _after(seconds)
            self._waiting.put(message)
        return {}

    def forget(self, subscription: str) -> None:
        """A subscription is gone, and what waited for it."""
        for message in list(self._waiting.all(subscription)):
            self._waiting.remove(message)

    def _pulled(self, call: Call) -> Document:
        subscription = self._subscriptions.found(call)
        if subscription.body.get("bigqueryConfig"):
            raise GoogleError("FAILED_PRECONDITION", "This method is not supported for this subscription type.")
        return subscription

    def _lend(self, message: Document, seconds: float) -> None:
        tries = int(message.inner.get("tries", 0)) + 1
        message.inner |= {"ack": f"{message.name}:{tries}", "until": _after(seconds), "tries": tries}
        self._waiting.put(message)

    def _lent(self, call: Call) -> Iterator[Document]:
        """The messages that a call names, as long as nobody else has got them since."""
        path = self._pulled(call).body["name"]
        for ack in call.body.get("ackIds") or ():
            message = self._waiting.get(path, str(ack).partition(":")[0])
            if message is not None and message.inner.get("ack") == ack:
                yield message

    def _numbers(self, count: int) -> int:
        document = self._counter.get("", "messages") or Document("", "messages", {"next": 1})
        first = int(document.body["next"])
        document.body["next"] = first + count
        self._counter.put(document)
        return first


def _row(subscription: Document, message: Document) -> Obj:
    """What of a message goes into a table."""
    config, body = subscription.body["bigqueryConfig"], message.body
    row: Obj = dict(message.inner["fields"]) if config.get("useTopicSchema") else {"data": protos.bare(body.get("data") or "")}
    if config.get("writeMetadata"):
        row |= {
            "subscription_name": subscription.body["name"],
            "message_id": body["messageId"],
            "publish_time": body["publishTime"],
            "attributes": orjson.dumps(body.get("attributes") or {}).decode(),
        }
    return row


def _after(seconds: float) -> str:
    return clock.rfc3339_micro(clock.now() + timedelta(seconds=seconds))


def _left(message: Document) -> float:
    """How long somebody else still has a message."""
    until = message.inner.get("until")
    return (datetime.fromisoformat(until) - clock.now()).total_seconds() if until else 0.0
