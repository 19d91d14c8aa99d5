"""Diagrams: no boxes over each other, no lines through boxes, whatever the graph."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from sliceworks.graph import layout
from sliceworks.graph.model import Role
from sliceworks.graph.pictures import READY, WAITING, Box, mermaid, svg


@st.composite
def graphs(draw: st.DrawFn) -> list[layout.Block]:
    """Boxes that need some of those before them, each in the first column where it can be."""
    found: list[layout.Block] = []
    ranks: dict[str, int] = {}
    for number in range(draw(st.integers(1, 14))):
        names = [block.id for block in found]
        needs = tuple(draw(st.sets(st.sampled_from(names), max_size=3))) if names else ()
        rank = 1 + max((ranks[name] for name in needs), default=0)
        ranks[f"n{number}"] = rank
        found.append(layout.Block(f"n{number}", rank, float(draw(st.integers(60, 240))), needs))
    return found


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_boxes_and_lines_keep_apart(blocks: list[layout.Block]) -> None:
    placed = layout.place(blocks)
    assert set(placed.spots) == {block.id for block in blocks}
    for one, other in combinations(placed.spots.values(), 2):
        apart = abs(one.y - other.y) >= (one.height + other.height) / 2 - 0.01
        assert one.x + one.width <= other.x or other.x + other.width <= one.x or apart
    for (near, far), points in placed.lines.items():
        # A line is straight where it crosses a column: it must not cross a box there.
        for (left, top), (right, _) in zip(points[1:-1:2], points[2:-1:2], strict=True):
            for name, spot in placed.spots.items():
                beside = spot.x + spot.width <= left or right <= spot.x
                assert beside or name in (near, far) or abs(top - spot.y) > spot.height / 2


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_every_need_is_drawn_or_follows(blocks: list[layout.Block]) -> None:
    needs = layout.reduced(blocks)

    def reached(name: str) -> set[str]:
        return {far for near in needs[name] for far in (near, *reached(near))}

    for block in blocks:
        assert set(block.needs) <= reached(block.id)
        assert set(needs[block.id]) <= set(block.needs)


def test_states_have_colours_and_a_legend() -> None:
    drawn = [
        Box("a", "ConfigMap", 1, (), Role.RESOURCE, state=READY),
        Box("b", "ConfigMap", 2, ("a",), Role.COLLECTION, "one for each", WAITING),
    ]
    picture = svg(drawn, "Shop", "kro.run/v1alpha1 <& more>")
    assert "kro.run/v1alpha1 &lt;&amp; more&gt;" in picture
    assert picture.count(">ready<") == picture.count(">waiting<") == 1
    text = mermaid(drawn)
    assert '  b[["<b>b</b><br/>ConfigMap · one for each"]]:::waiting\n' in text
    assert "  a --> b\n" in text
    assert "classDef ready" in text
    assert "classDef failed" not in text
