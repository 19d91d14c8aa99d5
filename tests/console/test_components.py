"""HTML components of pages: plain nodes whose strings cannot become markup."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sliceworks.console import components
from sliceworks.console.components import el, empty, facts, flat, meter, panel, prose, state, table, tone

ASSETS = Path(components.__file__).parent / "assets"


def find(node: Any, tag: str) -> list[Any]:
    """Every element with this tag, outermost first."""
    if not isinstance(node, list):
        return []
    inner = [result for child in node[2:] for result in find(child, tag)]
    return [node, *inner] if node[0] == tag else inner


def text(node: Any) -> str:
    """The concatenated text of a node."""
    return node if isinstance(node, str) else "".join(map(text, node[2:]))


def test_element_omits_none() -> None:
    created = el(
        "a", "x", None, 3, [el("b", "y"), None, "z"], key="k", cls="c", aria_label="l", hidden=False, disabled=True, title=None
    )
    assert created == ["a", {"class": "c", "key": "k", "aria-label": "l", "disabled": ""}, "x", "3", ["b", {}, "y"], "z"]


def test_nested_groups_are_flattened() -> None:
    assert flat(["a", ["b", ["c", None]], (el("i"),)]) == ["a", "b", "c", ["i", {}]]


def test_markup_in_strings_is_escaped() -> None:
    assert el("p", "<script>alert(1)</script>")[2] == "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("word", "kind"), [("running", "good"), ("Failed", "bad"), ("queued", "wait"), ("starting", "busy"), ("odd", "idle")]
)
def test_state_has_its_tone(word: str, kind: str) -> None:
    assert tone(word) == kind
    assert state(word) == ["span", {"class": f"state {kind}"}, word]


def test_meter_has_an_accessible_label() -> None:
    created = meter("v5e", 24, 16, borrowed=8, lent=0, unit="chips")
    bar = next(item for item in find(created, "div") if item[1].get("role") == "meter")
    assert bar[1]["aria-valuetext"] == "24 of 16 chips, 8 borrowed"
    assert [(item[1]["class"], item[1]["style"]) for item in find(bar, "i")] == [
        ("own", "width:66.67%"),
        ("borrowed", "width:33.33%"),
    ]
    assert text(created) == "v5e24 of 16 chips, 8 borrowed"


def test_meter_without_total_and_with_zero() -> None:
    assert find(meter("a", 5, None), "i")[0][1] == {"class": "own", "style": "width:100.00%"}
    assert find(meter("a", 0, 0), "i") == []


def test_lent_part_of_meter_never_overflows() -> None:
    widths = [item[1]["style"] for item in find(meter("a", 6, 8, lent=4), "i")]
    assert widths == ["width:60.00%", "width:40.00%"]


def test_facts_without_value_are_omitted() -> None:
    assert text(facts((("A", "1"), ("B", None), ("C", ""), ("D", el("b", "2"))))) == "A1D2"


def test_commands_in_prose_are_code() -> None:
    assert prose("ask `kubectl get` now") == ["ask ", ["code", {}, "kubectl get"], " now"]


def test_table_has_heads_rows_and_a_caption() -> None:
    created = table(("Name", "Chips"), [("a", ("x", "16"))], numbers=(1,), caption="Jobs")
    assert [item[1].get("class") for item in find(created, "th")] == [None, "number"]
    assert find(created, "tr")[1][1] == {"key": "a"}
    assert find(created, "caption")[0][2] == "Jobs"


def test_panels_and_empty_states_are_named() -> None:
    assert find(panel("Queues"), "section")[0][1]["aria-label"] == "Queues"
    assert text(empty("Nothing.", "And that is good.")) == "inboxNothing.And that is good."


def test_amounts_are_formatted() -> None:
    assert [components.format_amount(item) for item in (1024, 2.5, None, 0)] == ["1,024", "2.5", "?", "0"]


def test_styles_of_pages_do_not_change_the_title_of_a_panel() -> None:
    """A class of both style sheets laid the queue's teams out as the columns of a page."""
    common, pages = ((ASSETS / name).read_text() for name in ("console.css", "pages.css"))
    titles = set(re.findall(r"\.panel \.title \.([\w-]+)", common))
    assert titles >= {"note", "teams"}
    assert not titles & set(re.findall(r"^\.([\w-]+)", pages, re.MULTILINE))
