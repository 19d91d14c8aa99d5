"""The first field of a protobuf message is found and changed without its definition."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import StringValue
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.base import protobuf_wire
from sliceworks.serving.gateway import grpc_message


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300), st.text(st.characters(exclude_categories=["Cs"]))
)
def test_encoding_equals_protobuf(name: str, other: str) -> None:
    message = StringValue(value=name).SerializeToString()
    assert grpc_message.read_model_name(message) == name
    assert StringValue.FromString(grpc_message.replace_model_name(message, other)).value == other


@given(st.binary(max_size=60))
def test_random_bytes_are_handled(message: bytes) -> None:
    try:
        grpc_message.read_model_name(message)
    except protobuf_wire.DecodeError:
        return
    assert grpc_message.read_model_name(grpc_message.replace_model_name(message, "x")) == "x"


def test_other_fields_are_kept_and_the_last_name_counts() -> None:
    others = b"\x10\x05" + b"\x19" + bytes(8) + b"\x25" + bytes(4) + protobuf_wire.string(6, "kept")
    message = protobuf_wire.string(1, "first") + others + protobuf_wire.string(1, "last")
    assert grpc_message.read_model_name(message) == "last"
    assert grpc_message.replace_model_name(message, "new") == protobuf_wire.string(1, "new") + others


def test_non_string_field_is_not_a_name() -> None:
    with pytest.raises(protobuf_wire.DecodeError):
        grpc_message.read_model_name(b"\x08\x00")
    with pytest.raises(protobuf_wire.DecodeError):
        grpc_message.read_model_name(b"\x0a\x02\xff\xff")
    assert grpc_message.read_model_name(b"") is None


def tensor(name: str, kind: str, contents: bytes = b"") -> bytes:
    parts = [protobuf_wire.string(1, name), protobuf_wire.string(2, kind), protobuf_wire.length_delimited(5, contents)]
    return protobuf_wire.length_delimited(5, b"".join(parts))


def parameter(name: str, value: bytes) -> bytes:
    pair = protobuf_wire.string(1, name) + protobuf_wire.length_delimited(2, value)
    return protobuf_wire.length_delimited(4, pair)


def raw(data: bytes) -> bytes:
    return protobuf_wire.length_delimited(7, data)


PACKED = protobuf_wire.length_delimited(2, b"\x05\xac\x02")
INFERENCES: dict[str, tuple[bytes, list[Any]]] = {
    "packed numbers": (tensor("n", "INT32", PACKED), [("n", [5, 300])]),
    "a number": (tensor("n", "INT64", protobuf_wire.varint(3, 9)), [("n", [9])]),
    "strings": (tensor("n", "BYTES", protobuf_wire.string(8, "a") + protobuf_wire.string(8, "b")), [("n", ["a", "b"])]),
    "floats": (tensor("n", "FP32", protobuf_wire.length_delimited(6, bytes(4))), [("n", None)]),
    "raw numbers": (tensor("n", "INT16") + raw(b"\x05\0\x2c\x01"), [("n", [5, 300])]),
    "raw strings": (tensor("n", "BYTES") + raw(b"\x01\0\0\0a\x02\0\0\0bc"), [("n", ["a", "bc"])]),
    "raw floats": (tensor("n", "FP32") + raw(bytes(4)), [("n", None)]),
    "several": (tensor("a", "INT8") + raw(b"\x01") + tensor("b", "INT8") + raw(b"\x02"), [("a", [1]), ("b", [2])]),
    "parameters": (
        parameter("a", protobuf_wire.varint(2, 7)) + parameter("b", protobuf_wire.string(3, "x")),
        [("a", [7]), ("b", ["x"])],
    ),
    "parameter without a value": (parameter("a", b""), [("a", None)]),
}


@pytest.mark.parametrize(("message", "expected"), INFERENCES.values(), ids=INFERENCES)
def test_tensors_are_read(message: bytes, expected: list[Any]) -> None:
    assert list(grpc_message.read_tensors(protobuf_wire.string(1, "m") + message)) == expected


@given(st.binary(max_size=80))
def test_random_tensors_are_read_or_rejected(message: bytes) -> None:
    for data in (message, tensor("n", "BYTES", message), tensor("n", "INT32") + raw(message), parameter("n", message)):
        try:
            for name, values in grpc_message.read_tensors(data):
                assert isinstance(name, str)
                assert values is None or isinstance(values, list)
        except protobuf_wire.DecodeError:
            pass
