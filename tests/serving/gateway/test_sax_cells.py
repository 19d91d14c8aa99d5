"""Sax's protocol: our client beside a cell that knows messages by their numbers alone, and the whole gateway in front of one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from tests.support.gateways import ask, chat, document, gateway
from tests.support.sax_cell import Cell, cell, fields, one

from sliceworks.base import clock
from sliceworks.serving.gateway.sax_cells import Cells

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODEL = "/sax/test/llama7b"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Cell]:
    with cell(tmp_path) as made:
        Cells(str(tmp_path)).publish(MODEL, "lm.params.Llama", "gs://b/checkpoint", 2)
        yield made


@pytest.fixture
def cells(there: Cell) -> Cells:
    return Cells(str(there.root))


def test_texts_and_their_scores(there: Cell, cells: Cells) -> None:
    options = {"temperature": 0.5, "per_example_top_k": 40.0}
    for _ in range(2):
        assert cells.generate(MODEL, "hello", options, 5) == [("HELLO", -0.5), ("second", -2.0)]
    assert [server.asked for server in there.servers] == [[(MODEL, "hello", options)]] * 2, "each server in its turn"
    assert there.admin.watched == 1
    assert cells.score(MODEL, "a", ["b", "cc"], 5) == [-1.0, -2.0]


def test_a_stream_in_pieces(cells: Cells) -> None:
    heard: list[tuple[bool, list[Any]]] = []
    cells.generate_stream(MODEL, "hello", {}, 5, lambda last, items: heard.append((last, items)))
    assert [items[0][:2] for _, items in heard[:-1]] == [("Hel", 0), ("lo", 3), (" wor", 5), ("ld", 9)]
    assert heard[-1] == (True, [])


def test_models_are_published_changed_and_taken_away(there: Cell, cells: Cells) -> None:
    model = fields(there.admin.models[MODEL])
    assert (one(model, 2), one(model, 3), model[4]) == ("lm.params.Llama", "gs://b/checkpoint", [2])
    told = {"model": MODEL, "model_path": "lm.params.Llama", "checkpoint": "gs://b/checkpoint"}
    assert cells.details(MODEL) == {**told, "max_replicas": 2, "active_replicas": 2}
    cells.update(MODEL, "lm.params.Llama", "gs://b/newer", 1)
    assert cells.details(MODEL)["checkpoint"] == "gs://b/newer"
    cells.unpublish(MODEL)
    assert there.admin.models == {}
    with pytest.raises(RuntimeError, match="is not published"):
        cells.details(MODEL)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_server_that_goes_away_is_passed_over(there: Cell, cells: Cells, streamed: bool) -> None:
    there.servers[0].busy = True
    heard: list[bool] = []
    for _ in range(3):
        if streamed:
            cells.generate_stream(MODEL, "hello", {}, 5, lambda last, _: heard.append(last))
            assert heard[-1]
        else:
            assert cells.generate(MODEL, "hello", {}, 5)[0][0] == "HELLO"
    there.servers[1].busy = True
    with pytest.raises(RuntimeError, match="the server is going away"):
        cells.generate(MODEL, "hello", {}, 5)


def test_the_time_of_a_call_is_for_all_its_tries_together(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second goes by at each look at the clock: at the beginning, when servers are found, and before each try."""
    monkeypatch.setattr(clock, "effort", Mock(side_effect=itertools.count(100.0)))
    assert [left for _, left, _ in cells._tries(MODEL, 5)] == [3, 2]


def test_a_refusal_is_no_reason_to_ask_another(there: Cell, cells: Cells) -> None:
    with pytest.raises(RuntimeError, match="the prompt is too long"):
        cells.generate(MODEL, "fail", {}, 5)
    with pytest.raises(RuntimeError, match="the prompt is too long"):
        cells.generate_stream(MODEL, "fail", {}, 5, lambda *_: None)


def test_another_admin_server_is_found(there: Cell, cells: Cells) -> None:
    cells.details(MODEL)
    there.end(there.admin_address)
    there.place_admin()
    assert cells.details(MODEL)["model"] == MODEL


@pytest.mark.parametrize(
    ("root", "model", "words"),
    [
        ("", MODEL, "SAX_ROOT does not say where the cells are"),
        (None, "/sax/other/m", "the admin server of /sax/other is not known"),
        (None, "/sax/test/other", "no such model"),
    ],
)
def test_what_is_not_there_is_told(there: Cell, monkeypatch: pytest.MonkeyPatch, root: str | None, model: str, words: str) -> None:
    monkeypatch.delenv("SAX_ROOT", raising=False)
    with pytest.raises(RuntimeError, match=words):
        Cells(str(there.root) if root is None else root).generate(model, "x", {}, 5)


@pytest.mark.parametrize("count", [1, 2])
def test_all_servers_are_found_and_none_that_is_gone(there: Cell, cells: Cells, count: int) -> None:
    there.admin.servers = there.addresses[:count]
    for _ in range(2 * count):
        assert cells.generate(MODEL, "hello", {}, 5)[0][0] == "HELLO"
    assert [len(server.asked) for server in there.servers[:count]] == [2] * count


def test_a_model_that_no_server_has_yet(there: Cell, cells: Cells) -> None:
    there.admin.servers = []
    with pytest.raises(RuntimeError, match="no model server has /sax/test/llama7b ready"):
        cells.generate(MODEL, "x", {}, 5)
    there.admin.servers = there.addresses
    assert cells.generate(MODEL, "x", {}, 5)[0][0] == "X"


def test_the_gateway_in_front_of_a_cell(there: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAX_ROOT", str(there.root))
    (tmp_path / "key").write_text("boss")

    async def main() -> None:
        async with gateway(document(MODEL, kind="sax", admin={"port": 0, "key": {"file": str(tmp_path / "key")}})) as gate:
            got = await gate.ask("POST", "/generate", {"prompt": "hello", "model_id": MODEL})
            assert got.json == {"completions": [["HELLO", -0.5], ["second", -2.0]]}
            assert (await gate.ask("GET", f"/listcell?model_id={MODEL}")).json["active_replicas"] == 2
            whole = await gate.ask("POST", "/v1/chat/completions", chat("hi", max_tokens=9))
            assert whole.json["choices"][0]["message"]["content"] == "HI"
            streamed = await gate.ask("POST", "/v1/chat/completions", chat("hi", stream=True))
            assert b"".join(streamed.pieces).count(b'"content"') == 4
            assert gate.admin is not None
            taken = await ask(gate.admin, "POST", f"/unpublish?model_id={MODEL}", key="boss")
            assert (taken.status, there.admin.models) == (200, {})

    clock.run(main())
