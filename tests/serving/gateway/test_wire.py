"""The first field of a message is found and changed without knowing the message."""

from __future__ import annotations

import pytest
from google.protobuf.wrappers_pb2 import StringValue
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.schemas import wire_writer
from sliceworks.serving.gateway import wire


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300), st.text(st.characters(exclude_categories=["Cs"]))
)
def test_as_protobuf_itself_does(name: str, other: str) -> None:
    message = StringValue(value=name).SerializeToString()
    assert wire.name_of(message) == name
    assert StringValue.FromString(wire.renamed(message, other)).value == other


@given(st.binary(max_size=60))
def test_no_bytes_break_it(message: bytes) -> None:
    try:
        wire.name_of(message)
    except wire.NotProtobuf:
        return
    assert wire.name_of(wire.renamed(message, "x")) == "x"


def test_other_fields_stay_and_the_last_name_counts() -> None:
    others = b"\x10\x05" + b"\x19" + bytes(8) + b"\x25" + bytes(4) + wire_writer.text(6, "kept")
    message = wire_writer.text(1, "first") + others + wire_writer.text(1, "last")
    assert wire.name_of(message) == "last"
    assert wire.renamed(message, "new") == wire_writer.text(1, "new") + others


def test_what_is_no_text_is_no_name() -> None:
    with pytest.raises(wire.NotProtobuf):
        wire.name_of(b"\x08\x00")
    with pytest.raises(wire.NotProtobuf):
        wire.name_of(b"\x0a\x02\xff\xff")
    assert wire.name_of(b"") is None
