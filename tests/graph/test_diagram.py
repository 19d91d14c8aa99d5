"""Diagrams: boxes do not overlap, and edges do not cross boxes."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from sliceworks.graph import layout
from sliceworks.graph.diagram import PENDING, READY, Box, render_mermaid, render_svg
from sliceworks.graph.model import NodeType


@st.composite
def graphs(draw: st.DrawFn) -> list[layout.Block]:
    """Boxes with dependencies on earlier ones, each with the lowest possible rank."""
    blocks: list[layout.Block] = []
    ranks: dict[str, int] = {}
    for number in range(draw(st.integers(1, 14))):
        names = [block.id for block in blocks]
        dependencies = tuple(draw(st.sets(st.sampled_from(names), max_size=3))) if names else ()
        rank = 1 + max((ranks[name] for name in dependencies), default=0)
        ranks[f"n{number}"] = rank
        blocks.append(layout.Block(f"n{number}", rank, float(draw(st.integers(60, 240))), dependencies))
    return blocks


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_boxes_and_edges_do_not_overlap(blocks: list[layout.Block]) -> None:
    placed = layout.place(blocks)
    assert set(placed.positions) == {block.id for block in blocks}
    for first, second in combinations(placed.positions.values(), 2):
        apart = abs(first.y - second.y) >= (first.height + second.height) / 2 - 0.01
        assert first.x + first.width <= second.x or second.x + second.width <= first.x or apart
    for (near, far), points in placed.edges.items():
        # An edge is horizontal within a column; it must not cross a box there.
        for (left, top), (right, _) in zip(points[1:-1:2], points[2:-1:2], strict=True):
            for name, position in placed.positions.items():
                beside = position.x + position.width <= left or right <= position.x
                assert beside or name in (near, far) or abs(top - position.y) > position.height / 2


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_transitive_reduction_keeps_reachability(blocks: list[layout.Block]) -> None:
    dependencies = layout.transitive_reduction(blocks)

    def reached(name: str) -> set[str]:
        return {far for near in dependencies[name] for far in (near, *reached(near))}

    for block in blocks:
        assert set(block.dependencies) <= reached(block.id)
        assert set(dependencies[block.id]) <= set(block.dependencies)


def test_states_have_colours_and_legend() -> None:
    boxes = [
        Box("a", "ConfigMap", 1, (), NodeType.RESOURCE, state=READY),
        Box("b", "ConfigMap", 2, ("a",), NodeType.COLLECTION, "collection", PENDING),
    ]
    picture = render_svg(boxes, "Shop", "kro.run/v1alpha1 <& more>")
    assert "kro.run/v1alpha1 &lt;&amp; more&gt;" in picture
    assert picture.count(">ready<") == picture.count(">pending<") == 1
    flowchart = render_mermaid(boxes)
    assert '  b[["<b>b</b><br/>ConfigMap · collection"]]:::pending\n' in flowchart
    assert "  a --> b\n" in flowchart
    assert "classDef ready" in flowchart
    assert "classDef failed" not in flowchart
