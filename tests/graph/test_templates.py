"""Splitting of strings into literals and expressions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.graph.templates import (
    NestedExpressionError,
    RawExpression,
    has_expressions,
    split_expressions,
    standalone_expression,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("plain", ["plain"]),
        ("${a}", [RawExpression("a")]),
        ("x${a}y${b}", ["x", RawExpression("a"), "y", RawExpression("b")]),
        ("${a}${b}", [RawExpression("a"), RawExpression("b")]),
        ('${{"k": {"l": 1}}}', [RawExpression('{"k": {"l": 1}}')]),
        ('${a == "}"}', [RawExpression('a == "}"')]),
        ("${a == '}'}", [RawExpression("a == '}'")]),
        ('${a == "\\"}"}', [RawExpression('a == "\\"}"')]),
        ('${"it\'s"}', [RawExpression('"it\'s"')]),
        ('${f("${x}")}', [RawExpression('f("${x}")')]),
        ("${a", ["${a"]),
        ("$a {b} $", ["$a {b} $"]),
        ("${a} and ${b", [RawExpression("a"), " and ${b"]),
        ("$${a}", ["$", RawExpression("a")]),
    ],
)
def test_split_expressions(text: str, expected: list[str | RawExpression]) -> None:
    assert split_expressions(text) == expected
    assert has_expressions(text) == any(isinstance(piece, RawExpression) for piece in expected)


def test_split_rejects_nested_expressions() -> None:
    with pytest.raises(NestedExpressionError):
        split_expressions("${f(${x})}")


@pytest.mark.parametrize(("text", "expected"), [("${a}", "a"), (" ${a}", None), ("${a}${b}", None), ("a", None), ("${}", "")])
def test_standalone_expression(text: str, expected: str | None) -> None:
    assert standalone_expression(text) == expected


_PLAIN = st.text(st.characters(exclude_characters="$"), min_size=1, max_size=8)
_INNER = st.text("abc .+", min_size=1, max_size=8)


@given(st.lists(st.one_of(_PLAIN, _INNER.map(RawExpression)), max_size=6))
def test_split_round_trips(parts: list[str | RawExpression]) -> None:
    text = "".join(part if isinstance(part, str) else f"${{{part.text}}}" for part in parts)
    pieces = split_expressions(text)
    assert [piece for piece in pieces if isinstance(piece, RawExpression)] == [
        part for part in parts if isinstance(part, RawExpression)
    ]
    assert "".join(piece if isinstance(piece, str) else f"${{{piece.text}}}" for piece in pieces) == text
