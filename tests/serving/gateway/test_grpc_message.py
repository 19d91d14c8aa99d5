"""The first field of a protobuf message is found and changed without its definition."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import StringValue
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.base import protobuf_wire
from sliceworks.base.http.messages import HttpError
from sliceworks.serving.gateway import grpc_message
from sliceworks.serving.gateway.token_limit import check_tensors


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
    tensors = grpc_message.read_tensors(protobuf_wire.string(1, "m") + message)
    assert [(name, values if (values := read()) is None else list(values)) for name, read in tensors] == expected


def test_values_of_other_tensors_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_message, "_read_raw", pytest.fail)
    monkeypatch.setattr(grpc_message, "_read_contents", pytest.fail)
    message = tensor("image", "UINT8") + raw(bytes(10)) + tensor("mask", "INT32", PACKED)
    check_tensors(grpc_message.read_tensors(message), 12)


@pytest.mark.parametrize("contents", [protobuf_wire.length_delimited(2, b"\x01" * (1 << 20)), protobuf_wire.varint(3, 1) * 20_000])
def test_many_values_are_not_all_read(contents: bytes) -> None:
    with pytest.raises(HttpError, match=r"max_tokens"):
        check_tensors(grpc_message.read_tensors(tensor("max_tokens", "INT32", contents)), 12)


def test_batch_that_is_larger_than_the_limit_is_rejected() -> None:
    with pytest.raises(HttpError, match="13"):
        check_tensors(grpc_message.read_tensors(tensor("max_tokens", "UINT8") + raw(b"\x01" * (1 << 20))), 12)


@given(st.binary(max_size=80))
def test_random_tensors_are_read_or_rejected(message: bytes) -> None:
    for data in (message, tensor("n", "BYTES", message), tensor("n", "INT32") + raw(message), parameter("n", message)):
        try:
            for name, read in grpc_message.read_tensors(data):
                assert isinstance(name, str)
                assert (values := read()) is None or isinstance(list(values), list)
        except protobuf_wire.DecodeError:
            pass
