"""Objects that follow one another are cut apart, wherever their bytes are."""

from __future__ import annotations

from itertools import pairwise

import orjson
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.base.object_stream import Objects

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='a"\\{}[]é\n', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='k"\\}', max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(st.text(max_size=3), _VALUES, max_size=3), max_size=5), st.data(), st.sampled_from([b"", b"\n", b" "])
)
def test_the_same_objects_come_out(wanted: list[dict[str, object]], data: st.DataObject, between: bytes) -> None:
    text = between.join(orjson.dumps(each) for each in wanted)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    reader = Objects()
    found = [orjson.loads(one) for start, end in pairwise([0, *cuts, len(text)]) for one in reader.feed(text[start:end])]
    assert found == wanted
    assert not reader.unfinished()


def test_what_is_left_is_known() -> None:
    reader = Objects()
    assert reader.feed(b'{"a":"\\"}"}{"b"') == [b'{"a":"\\"}"}']
    assert reader.unfinished()
    assert reader.feed(b":1} \n") == [b'{"b":1}']
    assert not reader.unfinished()
    assert reader.feed(b"no object {}") == [b" \nno object {}"]
