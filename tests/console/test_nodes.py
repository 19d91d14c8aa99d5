"""What pages are made of: plain nodes, with nothing in a text that could become markup."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.console import nodes
from sliceworks.console.nodes import el, empty, facts, flat, meter, panel, prose, state, table, tone


def find(node: Any, tag: str) -> list[Any]:
    """Every element of a tag, from the outside in."""
    if not isinstance(node, list):
        return []
    inner = [found for child in node[2:] for found in find(child, tag)]
    return [node, *inner] if node[0] == tag else inner


def text(node: Any) -> str:
    """All texts, one after the other."""
    return node if isinstance(node, str) else "".join(map(text, node[2:]))


def test_an_element_leaves_out_what_is_not_there() -> None:
    made = el(
        "a", "x", None, 3, [el("b", "y"), None, "z"], key="k", cls="c", aria_label="l", hidden=False, disabled=True, title=None
    )
    assert made == ["a", {"class": "c", "key": "k", "aria-label": "l", "disabled": ""}, "x", "3", ["b", {}, "y"], "z"]


def test_groups_are_opened_however_deep() -> None:
    assert flat(["a", ["b", ["c", None]], (el("i"),)]) == ["a", "b", "c", ["i", {}]]


def test_a_text_that_looks_like_markup_stays_a_text() -> None:
    assert el("p", "<script>alert(1)</script>")[2] == "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("word", "kind"), [("running", "good"), ("Failed", "bad"), ("queued", "wait"), ("starting", "busy"), ("odd", "idle")]
)
def test_a_word_has_its_tone(word: str, kind: str) -> None:
    assert tone(word) == kind
    assert state(word) == ["span", {"class": f"state {kind}"}, word]


def test_a_meter_tells_its_numbers_to_those_who_do_not_see_it() -> None:
    made = meter("v5e", 24, 16, borrowed=8, lent=0, unit="chips")
    bar = next(each for each in find(made, "div") if each[1].get("role") == "meter")
    assert bar[1]["aria-valuetext"] == "24 of 16 chips, 8 borrowed"
    assert [(each[1]["class"], each[1]["style"]) for each in find(bar, "i")] == [
        ("own", "width:66.67%"),
        ("borrowed", "width:33.33%"),
    ]
    assert text(made) == "v5e24 of 16 chips, 8 borrowed"


def test_a_meter_without_a_whole_and_one_of_nothing() -> None:
    assert find(meter("a", 5, None), "i")[0][1] == {"class": "own", "style": "width:100.00%"}
    assert find(meter("a", 0, 0), "i") == []


def test_what_is_lent_is_not_ours_and_never_overflows() -> None:
    widths = [each[1]["style"] for each in find(meter("a", 6, 8, lent=4), "i")]
    assert widths == ["width:60.00%", "width:40.00%"]


def test_facts_without_a_value_are_left_out() -> None:
    assert text(facts((("A", "1"), ("B", None), ("C", ""), ("D", el("b", "2"))))) == "A1D2"


def test_commands_in_words_are_code() -> None:
    assert prose("ask `kubectl get` now") == ["ask ", ["code", {}, "kubectl get"], " now"]


def test_a_table_has_heads_rows_and_a_caption() -> None:
    made = table(("Name", "Chips"), [("a", ("x", "16"))], numbers=(1,), caption="Jobs")
    assert [each[1].get("class") for each in find(made, "th")] == [None, "number"]
    assert find(made, "tr")[1][1] == {"key": "a"}
    assert find(made, "caption")[0][2] == "Jobs"


def test_panels_and_empty_places_are_named() -> None:
    assert find(panel("Queues"), "section")[0][1]["aria-label"] == "Queues"
    assert text(empty("Nothing.", "And that is good.")) == "inboxNothing.And that is good."


def test_amounts_are_read_by_people() -> None:
    assert [nodes.amount_of(each) for each in (1024, 2.5, None, 0)] == ["1,024", "2.5", "?", "0"]
