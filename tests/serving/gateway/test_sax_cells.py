"""Sax's protocol: our client with a cell that decodes messages by field number, and the gateway in front of it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from tests.support.gateways import chat, document, gateway, send_request
from tests.support.sax_cell import Cell, cell, fields, one

from sliceworks.base import clock
from sliceworks.serving.gateway.sax_cell import CellClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODEL = "/sax/test/llama7b"


@pytest.fixture
def sax_cell(tmp_path: Path) -> Iterator[Cell]:
    with cell(tmp_path) as created:
        CellClient(str(tmp_path)).publish(MODEL, "lm.params.Llama", "gs://b/checkpoint", 2)
        yield created


@pytest.fixture
def cells(sax_cell: Cell) -> CellClient:
    return CellClient(str(sax_cell.root))


def test_text_and_scores(sax_cell: Cell, cells: CellClient) -> None:
    options = {"temperature": 0.5, "per_example_top_k": 40.0}
    for _ in range(2):
        assert cells.generate(MODEL, "hello", options, 5) == [("HELLO", -0.5), ("second", -2.0)]
    assert [server.asked for server in sax_cell.servers] == [[(MODEL, "hello", options)]] * 2, "each server in its turn"
    assert sax_cell.admin.watched == 1
    assert cells.score(MODEL, "a", ["b", "cc"], 5) == [-1.0, -2.0]


def test_root_is_the_address_of_an_admin_server(sax_cell: Cell) -> None:
    address = CellClient(str(sax_cell.root))._locate("/sax/test")
    assert CellClient(f"grpc://{address}").generate(MODEL, "hello", {}, 5)[0] == ("HELLO", -0.5)


def test_stream(cells: CellClient) -> None:
    received: list[tuple[bool, list[Any]]] = []
    cells.generate_stream(MODEL, "hello", {}, 5, lambda last, items: received.append((last, items)))
    assert [items[0][:2] for _, items in received[:-1]] == [("Hel", 0), ("lo", 3), (" wor", 5), ("ld", 9)]
    assert received[-1] == (True, [])


def test_models_are_published_updated_and_unpublished(sax_cell: Cell, cells: CellClient) -> None:
    model = fields(sax_cell.admin.models[MODEL])
    assert (one(model, 2), one(model, 3), model[4]) == ("lm.params.Llama", "gs://b/checkpoint", [2])
    reported = {"model": MODEL, "model_path": "lm.params.Llama", "checkpoint": "gs://b/checkpoint"}
    assert cells.details(MODEL) == {**reported, "max_replicas": 2, "active_replicas": 2}
    cells.update(MODEL, "lm.params.Llama", "gs://b/newer", 1)
    assert cells.details(MODEL)["checkpoint"] == "gs://b/newer"
    cells.unpublish(MODEL)
    assert sax_cell.admin.models == {}
    with pytest.raises(RuntimeError, match="is not published"):
        cells.details(MODEL)


@pytest.mark.parametrize("streamed", [False, True])
def test_stopped_server_is_skipped(sax_cell: Cell, cells: CellClient, streamed: bool) -> None:
    sax_cell.servers[0].busy = True
    received: list[bool] = []
    for _ in range(3):
        if streamed:
            cells.generate_stream(MODEL, "hello", {}, 5, lambda last, _: received.append(last))
            assert received[-1]
        else:
            assert cells.generate(MODEL, "hello", {}, 5)[0][0] == "HELLO"
    sax_cell.servers[1].busy = True
    with pytest.raises(RuntimeError, match="the server is going away"):
        cells.generate(MODEL, "hello", {}, 5)


def test_call_timeout_covers_all_attempts(cells: CellClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read of the clock advances it by a second: at the start, when servers are found, and before each attempt."""
    monkeypatch.setattr(clock, "perf_counter", Mock(side_effect=itertools.count(100.0)))
    assert [left for _, left, _ in cells._attempts(MODEL, 5)] == [3, 2]


def test_rejection_is_not_retried(sax_cell: Cell, cells: CellClient) -> None:
    with pytest.raises(RuntimeError, match="the prompt is too long"):
        cells.generate(MODEL, "fail", {}, 5)
    with pytest.raises(RuntimeError, match="the prompt is too long"):
        cells.generate_stream(MODEL, "fail", {}, 5, lambda *_: None)


def test_another_admin_server_is_found(sax_cell: Cell, cells: CellClient) -> None:
    cells.details(MODEL)
    sax_cell.end(sax_cell.admin_address)
    sax_cell.place_admin()
    assert cells.details(MODEL)["model"] == MODEL


@pytest.mark.parametrize(
    ("root", "model", "words"),
    [
        ("", MODEL, "SAX_ROOT is not set to the root of the cells"),
        (None, "/sax/other/m", "cannot locate the admin server of /sax/other"),
        (None, "/sax/test/other", "no such model"),
    ],
)
def test_missing_model_is_an_error(
    sax_cell: Cell, monkeypatch: pytest.MonkeyPatch, root: str | None, model: str, words: str
) -> None:
    monkeypatch.delenv("SAX_ROOT", raising=False)
    with pytest.raises(RuntimeError, match=words):
        CellClient(str(sax_cell.root) if root is None else root).generate(model, "x", {}, 5)


@pytest.mark.parametrize("count", [1, 2])
def test_running_servers_are_found(sax_cell: Cell, cells: CellClient, count: int) -> None:
    sax_cell.admin.servers = sax_cell.addresses[:count]
    for _ in range(2 * count):
        assert cells.generate(MODEL, "hello", {}, 5)[0][0] == "HELLO"
    assert [len(server.asked) for server in sax_cell.servers[:count]] == [2] * count


def test_model_without_server(sax_cell: Cell, cells: CellClient) -> None:
    sax_cell.admin.servers = []
    with pytest.raises(RuntimeError, match="no model server is ready for /sax/test/llama7b"):
        cells.generate(MODEL, "x", {}, 5)
    sax_cell.admin.servers = sax_cell.addresses
    assert cells.generate(MODEL, "x", {}, 5)[0][0] == "X"


def test_gateway_in_front_of_a_cell(sax_cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAX_ROOT", str(sax_cell.root))
    (tmp_path / "key").write_text("boss")

    async def main() -> None:
        async with gateway(document(MODEL, kind="sax", admin={"port": 0, "key": {"file": str(tmp_path / "key")}})) as gate:
            response = await gate.request("POST", "/generate", {"prompt": "hello", "model_id": MODEL})
            assert response.json == {"completions": [["HELLO", -0.5], ["second", -2.0]]}
            assert (await gate.request("GET", f"/listcell?model_id={MODEL}")).json["active_replicas"] == 2
            whole = await gate.request("POST", "/v1/chat/completions", chat("hi", max_tokens=9))
            assert whole.json["choices"][0]["message"]["content"] == "HI"
            streamed = await gate.request("POST", "/v1/chat/completions", chat("hi", stream=True))
            assert b"".join(streamed.chunks).count(b'"content"') == 4
            assert gate.admin is not None
            taken = await send_request(gate.admin, "POST", f"/unpublish?model_id={MODEL}", key="boss")
            assert (taken.status, sax_cell.admin.models) == (200, {})

    clock.run(main())
