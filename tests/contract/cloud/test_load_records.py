"""The records of a load test go through Pub/Sub into BigQuery, and Google's own client counts as many as were sent."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.google_clients import PROJECT
from tests.support.load_metrics import count, stream, table
from tests.support.load_tests import failed, record, written

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.cloud import Session, Token
from sliceworks.loadtest import publishing
from sliceworks.loadtest.publishing import Place, Publisher
from sliceworks.loadtest.rows import Failure

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.google_clients import Google

RUN: dict[str, Any] = {"began": 1_800_000_000.0, "spec": {"api": "sax", "model": "llama"}}
ROWS = 1_203


def run_folder(folder: Path, name: str) -> Path:
    place = folder / name
    place.mkdir()
    records = [record(n, n / 100, sent=0.01, ends=0.25, tokens_in=7, tokens_out=11, bytes_in=64) for n in range(ROWS - 3)]
    records += [failed(ROWS - 3 + n, 20.0, Failure.STATUS, 503) for n in range(3)]
    return written(place, records)


def publish(url: str, token: str, place: Place, folder: Path) -> tuple[int, int]:
    async def main() -> tuple[int, int]:
        async with Session(url, Token(token)) as session:
            sent = await Publisher(session, place, folder, "/pubsub").publish(RUN, lambda _done: None)
            return sent, await publishing.counted(session, place, folder)

    return clock.run(main())


def test_both_ends_count_the_same(google: Google, tmp_path: Path) -> None:
    table(google, "tests")
    stream(google, "tests", "tests", drop_unknown_fields=True)
    folder, place = run_folder(tmp_path, "llama-1"), Place(PROJECT, "tests", "tests", "records")
    assert publish(google.served.url, google.served.token, place, folder) == (ROWS, ROWS)
    figures = "COUNT(*) AS n, AVG(response_time), SUM(num_output_tokens)"
    sql = f"SELECT exception, {figures} FROM tests.records GROUP BY exception ORDER BY n"
    assert count(google, sql) == [
        ("status 503", 3, pytest.approx(100.0), None),
        (None, ROWS - 3, pytest.approx(260.0), 11 * (ROWS - 3)),
    ]
    assert publish(google.served.url, google.served.token, place, folder) == (ROWS, ROWS)  # nothing is sent twice


class Unsteady(BaseHTTPRequestHandler):
    """Fails now and then before it takes a batch."""

    answers = iter([503, 200, 429, 503, 200, 403])
    got: list[int] = []  # noqa: RUF012 - one server, one list

    def do_POST(self) -> None:
        messages = orjson.loads(self.rfile.read(int(self.headers["content-length"])))["messages"]
        status = next(self.answers, 200)
        body = orjson.dumps(
            {"messageIds": ["x"] * len(messages)} if status == 200 else {"error": {"code": status, "message": "no"}}
        )
        if status == 200:
            self.got.append(len(messages))
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def test_a_second_try_goes_on_where_the_first_one_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_seconds: float) -> None: ...

    monkeypatch.setattr(clock, "sleep", at_once)
    folder, place = run_folder(tmp_path, "llama-2"), Place(PROJECT, "tests", "tests", "records")
    with ThreadingHTTPServer(("127.0.0.1", 0), Unsteady) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        async def main() -> int:
            async with Session(f"http://127.0.0.1:{server.server_port}", Token("t")) as session:
                return await Publisher(session, place, folder).publish(RUN, lambda _done: None)

        with pytest.raises(SliceworksError, match="no"):
            clock.run(main())
        assert Unsteady.got == [500, 500]
        assert clock.run(main()) == ROWS
        assert Unsteady.got == [500, 500, ROWS - 1000]
        server.shutdown()
