"""Texts with expressions in them: each begins and ends where its author meant it to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.graph.texts import Inner, NestedExpression, has_expressions, lone, pieces


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("plain", ["plain"]),
        ("${a}", [Inner("a")]),
        ("x${a}y${b}", ["x", Inner("a"), "y", Inner("b")]),
        ("${a}${b}", [Inner("a"), Inner("b")]),
        ('${{"k": {"l": 1}}}', [Inner('{"k": {"l": 1}}')]),
        ('${a == "}"}', [Inner('a == "}"')]),
        ("${a == '}'}", [Inner("a == '}'")]),
        ('${a == "\\"}"}', [Inner('a == "\\"}"')]),
        ('${"it\'s"}', [Inner('"it\'s"')]),
        ('${f("${x}")}', [Inner('f("${x}")')]),
        ("${a", ["${a"]),
        ("$a {b} $", ["$a {b} $"]),
        ("${a} and ${b", [Inner("a"), " and ${b"]),
        ("$${a}", ["$", Inner("a")]),
    ],
)
def test_a_text_is_cut_at_its_expressions(text: str, expected: list[str | Inner]) -> None:
    assert pieces(text) == expected
    assert has_expressions(text) == any(isinstance(piece, Inner) for piece in expected)


def test_an_expression_in_an_expression_is_refused() -> None:
    with pytest.raises(NestedExpression):
        pieces("${f(${x})}")


@pytest.mark.parametrize(("text", "expected"), [("${a}", "a"), (" ${a}", None), ("${a}${b}", None), ("a", None), ("${}", "")])
def test_a_lone_expression(text: str, expected: str | None) -> None:
    assert lone(text) == expected


_PLAIN = st.text(st.characters(exclude_characters="$"), min_size=1, max_size=8)
_INNER = st.text("abc .+", min_size=1, max_size=8)


@given(st.lists(st.one_of(_PLAIN, _INNER.map(Inner)), max_size=6))
def test_pieces_can_be_put_together_again(parts: list[str | Inner]) -> None:
    text = "".join(part if isinstance(part, str) else f"${{{part.text}}}" for part in parts)
    found = pieces(text)
    assert [piece for piece in found if isinstance(piece, Inner)] == [part for part in parts if isinstance(part, Inner)]
    assert "".join(piece if isinstance(piece, str) else f"${{{piece.text}}}" for piece in found) == text
