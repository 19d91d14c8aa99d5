"""Stop sequences, independent of chunk boundaries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.serving.gateway.payload import StopSequences

_LETTERS = st.text("ab.", max_size=12)


def passed(texts: list[str], pieces: list[str]) -> tuple[list[str], bool]:
    stops, output = StopSequences(texts), []
    for piece in pieces:
        output.append(stops.add(piece))
        if stops.is_met:
            return output, True
    return [*output, stops.held], False


@pytest.mark.parametrize(
    ("texts", "pieces", "expected"),
    [
        ([], ["a", "b"], (["a", "b", ""], False)),
        (["\n\n"], ["a\n", "b\n", "\nc"], (["a", "\nb", ""], True)),
        (["END"], ["the E", "N", "d"], (["the ", "", "ENd", ""], False)),
        (["END", "E"], ["the E", "ND"], (["the "], True)),
        (["END"], ["EN"], (["", "EN"], False)),
    ],
)
def test_text_before_a_stop_sequence_is_forwarded(texts: list[str], pieces: list[str], expected: tuple[list[str], bool]) -> None:
    assert passed(texts, pieces) == expected


@given(st.lists(_LETTERS.filter(bool), min_size=1, max_size=3), st.lists(_LETTERS, max_size=8))
def test_chunk_boundaries_do_not_matter(texts: list[str], pieces: list[str]) -> None:
    whole = "".join(pieces)
    at = min((result for item in texts if (result := whole.find(item)) >= 0), default=None)
    output, met = passed(texts, pieces)
    assert met == (at is not None)
    if at is None:
        assert "".join(output) == whole
    else:
        assert whole.startswith("".join(output))
        assert not any(item in "".join(output) for item in texts)
