"""Messages of Pub/Sub: publish, schema validation, pull, acknowledge, and delivery to BigQuery tables."""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.twin.cloud.core.document_store import Document, Table
from sliceworks.twin.cloud.core.exceptions import GoogleError, invalid_argument
from sliceworks.twin.cloud.core.routes import Call, Route
from sliceworks.twin.cloud.google.bigquery.table_data import TableRows, fit_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.core.collection import Collection
    from sliceworks.twin.store.store import Store
Obj = dict[str, Any]
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_HEAD = re.compile(r"^\s*(?:syntax\s*=\s*[\"'](proto[23])[\"']\s*;)?\s*(?:package\s+[\w.]+\s*;)?\s*")
_BODY = re.compile(r"message\s+(\w+)\s*\{([^{}]*)\}\s*$", re.DOTALL)
_FIELD = re.compile(r"(?:(optional|required|repeated)\s+)?(\w+)\s+(\w+)\s*=\s*([0-9]+)\s*(?:\[[^\]]*\])?")
_TYPES = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9, "bytes": 12,
    "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_LABELS = {"optional": 1, "required": 2, "repeated": 3, "": 1}


def check_schema(definition: str) -> None:
    """Raise INVALID_ARGUMENT for a definition that the twin does not support."""
    _message_class(definition)


def decode_message(definition: str, encoding: str, data: bytes) -> Obj:
    """Decode a message into fields by name; raises INVALID_ARGUMENT if it does not match the schema."""
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError

    message = _message_class(definition)()
    try:
        if encoding == "JSON":
            json_format.Parse(data.decode(), message)
        else:
            message.MergeFromString(data)
    except (json_format.ParseError, DecodeError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise GoogleError(
            "INVALID_ARGUMENT", f"Invalid data in message: Message failed schema validation. Errors encountered: {problem}"
        ) from error
    fields: Obj = json_format.MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    return {field.name: fields[field.name] for field in _sent_fields(message, encoding, data) if field.name in fields}


def optional_fields(definition: str) -> set[str]:
    """The fields that a message may omit: all of proto3, and those of proto2 that are not required."""
    fields = _message_class(definition).DESCRIPTOR.fields
    return {field.name for field in fields if not field.is_required}


def _sent_fields(message: Any, encoding: str, data: bytes) -> list[Any]:
    """The fields that the publisher set; in JSON, also those set to their default value."""
    if encoding != "JSON":
        return [field for field, _ in message.ListFields()]
    names = orjson.loads(data)
    return [field for field in message.DESCRIPTOR.fields if field.name in names or field.json_name in names]


@lru_cache(maxsize=64)
def _message_class(definition: str) -> Any:
    """The protobuf class of a schema definition."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    source = _COMMENT.sub(" ", definition)
    head = _HEAD.match(source)
    body = _BODY.match(source[head.end() if head else 0 :])
    if body is None:
        raise invalid_argument("Invalid schema definition: the twin reads one message of scalar fields, without others inside it.")
    syntax = (head[1] if head else "") or "proto2"
    file = descriptor_pb2.FileDescriptorProto(name="schema.proto", package="topic", syntax=syntax)
    descriptor = file.message_type.add(name=body[1])
    for declaration in filter(None, (part.strip() for part in body[2].split(";"))):
        field = _FIELD.fullmatch(declaration)
        if field is None or field[2] not in _TYPES:
            raise invalid_argument(f"Invalid schema definition: the twin does not read `{declaration}`.")
        added: Any = descriptor.field.add(name=field[3], number=int(field[4]))
        added.type, added.label = _TYPES[field[2]], _LABELS[field[1] or ""]
        if field[1] == "optional" and syntax == "proto3":
            added.proto3_optional, added.oneof_index = True, len(descriptor.oneof_decl)
            descriptor.oneof_decl.add(name=f"_{field[3]}")
    pool = descriptor_pool.DescriptorPool()
    try:
        pool.AddSerializedFile(file.SerializeToString())
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"topic.{body[1]}"))
    except (TypeError, KeyError) as error:
        raise invalid_argument(f"Invalid schema definition: {' '.join(str(error).split())}") from error


def decode_data(data: str) -> str:
    """The data of a message as UTF-8, or as base64 if it is not UTF-8."""
    try:
        return base64.b64decode(data).decode()
    except UnicodeDecodeError:
        return data


_MESSAGE_FIELDS = ("data", "attributes", "orderingKey")
_MAX_MESSAGES, _MAX_BYTES, _MAX_ACK_DEADLINE = 1000, 10 * 1024 * 1024, 600


class PendingMessages:
    """Published messages that are not acknowledged or written to a table yet."""

    def __init__(self, store: Store, schemas: Collection, topics: Collection, subscriptions: Collection) -> None:
        self._schemas, self._topics, self._subscriptions, self._rows = schemas, topics, subscriptions, TableRows(store)
        self._pending = Table(store, "pubsub/messages", "Message")
        self._counters = Table(store, "pubsub/counters", "Counter")

    def routes(self, topic: str, subscription: str) -> Iterator[Route]:
        """Publish, pull, acknowledge and modifyAckDeadline. The twin has no gRPC and therefore no StreamingPull."""
        permission = "pubsub.subscriptions.consume"
        yield Route("POST", f"{topic}:publish", "topics.publish", self.publish, "pubsub.topics.publish", "PublishRequest")
        for verb, handler in (
            ("pull", self.pull),
            ("acknowledge", self.acknowledge),
            ("modifyAckDeadline", self.modify_ack_deadline),
        ):
            request = f"{verb[0].upper()}{verb[1:]}Request"
            yield Route("POST", f"{subscription}:{verb}", f"subscriptions.{verb}", handler, permission, request)

    def publish(self, call: Call) -> Obj:
        """Publish messages, all or none, to the subscriptions of the topic."""
        topic = self._topics.get_document(call)
        messages = call.body.get("messages") or []
        if not messages:
            raise invalid_argument(
                "The value for message_count is too small. You passed 0 in the request, but the minimum value is 1."
            )
        if len(messages) > _MAX_MESSAGES or sum(len(message.get("data") or "") for message in messages) > _MAX_BYTES:
            raise invalid_argument(
                f"The request is too large: no more than {_MAX_MESSAGES} messages and {_MAX_BYTES} bytes are taken at once."
            )
        fields = [self._decode(topic, message) for message in messages]
        first = self._allocate_ids(len(messages))
        now = clock.timestamp()
        published = [
            {
                **{key: message[key] for key in _MESSAGE_FIELDS if message.get(key)},
                "messageId": str(first + index),
                "publishTime": now,
            }
            for index, message in enumerate(messages)
        ]
        for subscription in list(self._subscriptions.all()):
            if subscription.body["topic"] == topic.body["name"]:
                self._deliver(subscription, published, fields)
        return {"messageIds": [message["messageId"] for message in published]}

    def _decode(self, topic: Document, message: Obj) -> Obj:
        """Validate a message; returns its fields by the topic's schema, or nothing without a schema."""
        try:
            data = base64.b64decode(message.get("data") or "", validate=True)
        except binascii.Error as error:
            raise invalid_argument("Invalid value at 'messages.data' (TYPE_BYTES), Base64 decoding failed.") from error
        if not data and not message.get("attributes"):
            raise invalid_argument(
                "One or more messages in the publish request is empty. Each message must contain data or attributes."
            )
        settings = topic.body.get("schemaSettings") or {}
        if not settings.get("schema"):
            return {}
        parent, _, name = str(settings["schema"]).rpartition("/schemas/")
        schema = self._schemas.find(parent, name)
        if schema is None:
            raise invalid_argument("The topic's schema has been deleted: messages cannot be checked against it.")
        return decode_message(schema.body["definition"], str(settings.get("encoding") or "JSON"), data)

    def _deliver(self, subscription: Document, messages: list[Obj], fields: list[Obj]) -> None:
        for message, decoded in zip(messages, fields, strict=True):
            self._pending.put(
                Document(subscription.body["name"], f"{int(message['messageId']):020d}", message, {"fields": decoded})
            )
        if subscription.body.get("bigqueryConfig"):
            self._write(subscription)

    def _write(self, subscription: Document) -> None:
        """Write pending messages to the table; rows that do not match stay pending, and the subscription reports the state."""
        config = subscription.body["bigqueryConfig"]
        table = self._rows.find_table(*str(config["table"]).replace(":", ".").split("."))
        state = "NOT_FOUND" if table is None else self._write_rows(subscription, table)
        if config.get("state") != state:
            config["state"] = state
            self._subscriptions.put(subscription)

    def _write_rows(self, subscription: Document, table: Document) -> str:
        drop = bool(subscription.body["bigqueryConfig"].get("dropUnknownFields"))
        rows, state = [], "ACTIVE"
        for message in list(self._pending.all(subscription.body["name"])):
            row, problems = fit_row(table, _row(subscription, message), drop=drop)
            if problems:
                state = "SCHEMA_MISMATCH"
            else:
                rows.append(row)
                self._pending.delete(message)
        self._rows.append(table, rows)
        return state

    def pull(self, call: Call) -> Obj:
        """Return up to `maxMessages` messages that are not leased."""
        subscription = self._pull_subscription(call)
        limit = int(call.body.get("maxMessages") or 0)
        if limit < 1:
            raise invalid_argument(
                "The value for max_messages is too small. You passed 0 in the request, but the minimum value is 1."
            )
        received: list[Obj] = []
        for message in list(self._pending.all(subscription.body["name"])):
            if len(received) >= limit:
                break
            if _lease_seconds_left(message) > 0:
                continue
            self._lease(message, float(subscription.body["ackDeadlineSeconds"]))
            received.append({"ackId": message.inner["ack"], "message": message.body})
        return {"receivedMessages": received} if received else {}

    def acknowledge(self, call: Call) -> Obj:
        """Delete acknowledged messages."""
        for message in self._leased(call):
            self._pending.delete(message)
        return {}

    def modify_ack_deadline(self, call: Call) -> Obj:
        """Extend the lease of messages, or end it with 0."""
        seconds = int(call.body.get("ackDeadlineSeconds") or 0)
        if not 0 <= seconds <= _MAX_ACK_DEADLINE:
            raise invalid_argument(f"The ack deadline must be between 0 and {_MAX_ACK_DEADLINE} seconds.")
        for message in self._leased(call):
            message.inner["until"] = clock.timestamp_after(seconds)
            self._pending.put(message)
        return {}

    def delete_subscription(self, subscription: str) -> None:
        """Delete the messages of a deleted subscription."""
        for message in list(self._pending.all(subscription)):
            self._pending.delete(message)

    def _pull_subscription(self, call: Call) -> Document:
        subscription = self._subscriptions.get_document(call)
        if subscription.body.get("bigqueryConfig"):
            raise GoogleError("FAILED_PRECONDITION", "This method is not supported for this subscription type.")
        return subscription

    def _lease(self, message: Document, seconds: float) -> None:
        tries = int(message.inner.get("tries", 0)) + 1
        message.inner |= {"ack": f"{message.name}:{tries}", "until": clock.timestamp_after(seconds), "tries": tries}
        self._pending.put(message)

    def _leased(self, call: Call) -> Iterator[Document]:
        """The messages of the call's ack IDs; expired ack IDs of messages leased again are skipped."""
        path = self._pull_subscription(call).body["name"]
        for ack in call.body.get("ackIds") or ():
            message = self._pending.get(path, str(ack).partition(":")[0])
            if message is not None and message.inner.get("ack") == ack:
                yield message

    def _allocate_ids(self, count: int) -> int:
        document = self._counters.get("", "messages") or Document("", "messages", {"next": 1})
        first = int(document.body["next"])
        document.body["next"] = first + count
        self._counters.put(document)
        return first


def _row(subscription: Document, message: Document) -> Obj:
    """The table row of a message."""
    config, body = subscription.body["bigqueryConfig"], message.body
    row: Obj = dict(message.inner["fields"]) if config.get("useTopicSchema") else {"data": decode_data(body.get("data") or "")}
    if config.get("writeMetadata"):
        row |= {
            "subscription_name": subscription.body["name"],
            "message_id": body["messageId"],
            "publish_time": body["publishTime"],
            "attributes": orjson.dumps(body.get("attributes") or {}).decode(),
        }
    return row


def _lease_seconds_left(message: Document) -> float:
    """Seconds until the ack deadline of a leased message."""
    until = message.inner.get("until")
    return clock.seconds_until(until) if until else 0.0
