"""The first field of a protobuf message is found and changed without its definition."""

from __future__ import annotations

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
