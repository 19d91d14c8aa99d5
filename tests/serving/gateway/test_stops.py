"""Texts at which an answer ends, however it is cut into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.serving.gateway.stops import Stops

_LETTERS = st.text("ab.", max_size=12)


def passed(texts: list[str], pieces: list[str]) -> tuple[list[str], bool]:
    stops, said = Stops(texts), []
    for piece in pieces:
        said.append(stops.add(piece))
        if stops.met:
            return said, True
    return [*said, stops.held], False


@pytest.mark.parametrize(
    ("texts", "pieces", "said"),
    [
        ([], ["a", "b"], (["a", "b", ""], False)),
        (["\n\n"], ["a\n", "b\n", "\nc"], (["a", "\nb", ""], True)),
        (["END"], ["the E", "N", "d"], (["the ", "", "ENd", ""], False)),
        (["END", "E"], ["the E", "ND"], (["the "], True)),
        (["END"], ["EN"], (["", "EN"], False)),
    ],
)
def test_what_is_passed_on(texts: list[str], pieces: list[str], said: tuple[list[str], bool]) -> None:
    assert passed(texts, pieces) == said


@given(st.lists(_LETTERS.filter(bool), min_size=1, max_size=3), st.lists(_LETTERS, max_size=8))
def test_cuts_do_not_matter(texts: list[str], pieces: list[str]) -> None:
    whole = "".join(pieces)
    at = min((found for each in texts if (found := whole.find(each)) >= 0), default=None)
    said, met = passed(texts, pieces)
    assert met == (at is not None)
    if at is None:
        assert "".join(said) == whole
    else:
        assert whole.startswith("".join(said))
        assert not any(each in "".join(said) for each in texts)
