"""Protobuf bodies: read and written as Kubernetes' own serializers write them, and refused when they are broken."""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sliceworks import schemas
from sliceworks.base.protobuf_wire import length_delimited, string, varint
from sliceworks.schemas import builtins
from sliceworks.twin.apiserver import protobuf_encoder
from sliceworks.twin.apiserver.protobuf import MAGIC, ProtobufError, decode, wire_format
from sliceworks.twin.apiserver.protobuf_encoder import encode, envelope

Object = dict[str, Any]


@cache
def bodies() -> list[tuple[str, bytes, Object]]:
    """Kind, protobuf and JSON of the same objects, written by Go (tests/real/gotypes/bodies): all fields filled, then all empty."""
    lines = (Path(__file__).parent / "protobuf_bodies.jsonl").read_bytes().splitlines()
    return [(line["kind"], base64.b64decode(line["protobuf"]), line["json"]) for line in map(orjson.loads, lines)]


def read(body: bytes) -> Object:
    return decode(body, builtins.component_name)


def settled(obj: Object) -> Object:
    """The object as its schema reads it: what JSON writes as null or empty and protobuf leaves out is the same."""
    group, _, version = obj["apiVersion"].rpartition("/")
    schema = builtins.builtin_scheme().component(builtins.component_name(group, version, obj["kind"]))
    unknown: list[str] = []
    found: Object = schemas.decode(schema, orjson.loads(orjson.dumps(obj)), unknown)
    assert not unknown
    return found


@pytest.mark.parametrize("index", range(len(bodies())))
def test_reads_what_go_writes(index: int) -> None:
    kind, body, obj = bodies()[index]
    assert settled(read(body)) == settled(obj), kind


@pytest.mark.parametrize("index", range(len(bodies()) // 2))
def test_writes_the_bytes_that_go_writes(index: int) -> None:
    kind, body, obj = bodies()[index]
    assert encode(obj) == body, kind


@pytest.mark.parametrize("index", range(len(bodies()) // 2, len(bodies())))
def test_writes_empty_fields(index: int) -> None:
    kind, _, obj = bodies()[index]
    assert settled(read(encode(obj))) == settled(obj), kind


def test_every_list_that_is_served_has_a_message() -> None:
    for resource in builtins.builtin_scheme().resources:
        if "list" in resource.verbs:
            name = builtins.component_name(resource.group, resource.version, resource.kind)
            assert {"1", "2"} <= set(wire_format()[f"{name}List"])


def test_every_kind_that_is_served_is_there() -> None:
    sent = {kind for kind, _, _ in bodies()}
    served = {
        f"{resource.group}/{resource.version} {resource.kind}".removeprefix("/")
        for resource in builtins.builtin_scheme().resources
        if {"create", "update"} & set(resource.verbs)
    }
    assert served <= sent


def test_filled_objects_come_back_field_by_field() -> None:
    pod = next(obj for kind, _, obj in bodies() if kind == "v1 Pod")
    seen = read(next(body for kind, body, _ in bodies() if kind == "v1 Pod"))
    assert seen == pod


def test_writer_of_the_tests_agrees() -> None:
    for kind, body, obj in bodies()[: len(bodies()) // 2]:
        if "CustomResourceDefinition" not in kind:
            assert read(encode(obj)) == read(body), kind


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "does not appear to be a protobuf message"),
        (b"{}", "does not appear to be a protobuf message"),
        (MAGIC, "Object 'Kind' is missing"),
        (envelope("v1", "", b""), "Object 'Kind' is missing"),
        (envelope("v1", "Nothing", b""), 'no kind "Nothing" is registered for version "v1"'),
        (envelope("v9", "Pod", b""), 'no kind "Pod" is registered for version "v9"'),
        (MAGIC + b"\x0a\xff", "unexpected EOF"),
        (MAGIC + b"\x0b", "illegal wire"),
        (MAGIC + b"\xff" * 12, "unexpected EOF"),
        (envelope("v1", "Pod", b"\x0a\x7f"), "unexpected EOF"),
        (envelope("v1", "Pod", varint(1, 5)), "wrong wire type"),
        (envelope("v1", "Pod", length_delimited(1, length_delimited(1, b"\xff\xfe"))), "UTF-8"),
        (envelope("v1", "Pod", length_delimited(1, string(7, "x"))), "wrong wire type"),
        (envelope("v1", "Pod", length_delimited(1, length_delimited(8, varint(1, 1 << 60)))), "out of range"),
        (envelope("apps/v1", "ControllerRevision", length_delimited(2, length_delimited(1, b"{"))), "embedded JSON"),
    ],
)
def test_broken_bodies_are_refused(body: bytes, words: str) -> None:
    with pytest.raises(ProtobufError, match=words):
        read(body)


def test_deep_nesting_is_refused() -> None:
    schema = b""
    for _ in range(200):
        schema = length_delimited(26, schema)
    spec = length_delimited(7, string(1, "v1") + length_delimited(4, length_delimited(1, schema)))
    with pytest.raises(ProtobufError, match="nested too deeply"):
        read(envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", length_delimited(2, spec)))


def test_unknown_fields_are_passed_over() -> None:
    body = envelope(
        "v1", "ConfigMap", length_delimited(1, string(1, "c") + string(99, "new")) + varint(88, 7) + length_delimited(77, b"x")
    )
    assert read(body) == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}}


def test_numbers_are_as_wide_as_go_has_them() -> None:
    """A number of ten bytes may carry bits that no field of 64 bits has room for."""
    body = envelope("v1", "Pod", length_delimited(1, b"\x38" + b"\xff" * 9 + b"\x7f"))
    assert read(body)["metadata"] == {"generation": -1}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_bodies_never_fail(data: st.DataObject) -> None:
    """Cut, changed and grown at random, a body is read or refused; what is read can be written as JSON."""
    _, body, _ = bodies()[data.draw(st.integers(0, len(bodies()) - 1))]
    at = data.draw(st.integers(0, len(body)))
    damaged = body[:at] + data.draw(st.binary(max_size=12)) + body[at + data.draw(st.integers(0, 12)) :]
    _survive(damaged)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted({kind for kind, _, _ in bodies()})), st.binary(max_size=200))
def test_noise_never_fails(kind: str, noise: bytes) -> None:
    api_version, _, name = kind.rpartition(" ")
    _survive(envelope(api_version, name, noise))
    _survive(MAGIC + noise)


def _survive(body: bytes) -> None:
    try:
        found = read(body)
    except ProtobufError:
        return
    orjson.dumps(found)


def test_threads_encode_with_complete_messages_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that has just begun to read the fields of a kind does not affect others."""
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "c"}}
    expected = protobuf_encoder.encode(obj)
    monkeypatch.setattr(protobuf_encoder, "_messages", {})
    started, finish, real = Event(), Event(), protobuf_encoder._field
    worker = Thread(target=protobuf_encoder.encode, args=(obj,))

    def read_field(*arguments: Any) -> Any:
        if current_thread() is worker and not finish.is_set():
            started.set()
            finish.wait()
        return real(*arguments)

    monkeypatch.setattr(protobuf_encoder, "_field", read_field)
    worker.start()
    started.wait()
    try:
        assert protobuf_encoder.encode(obj) == expected
    finally:
        finish.set()
        worker.join()
    assert protobuf_encoder.encode(obj) == expected
