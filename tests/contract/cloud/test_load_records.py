"""Load test records through Pub/Sub into BigQuery, counted by Google's client."""

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
from sliceworks.cli.main import run
from sliceworks.cloud import Session, Token
from sliceworks.loadtest import bigquery_export
from sliceworks.loadtest.bigquery_export import Publisher, PubSubSink
from sliceworks.loadtest.request_log import Failure
from sliceworks.loadtest.results import FORMAT_VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.google_clients import Google

RUN: dict[str, Any] = {"started": 1_800_000_000.0, "spec": {"api": "sax", "model": "llama"}}
ROWS = 1_203


def run_folder(folder: Path, name: str) -> Path:
    place = folder / name
    place.mkdir()
    records = [record(n, n / 100, sent=0.01, ends=0.25, tokens_in=7, tokens_out=11, bytes_in=64) for n in range(ROWS - 3)]
    records += [failed(ROWS - 3 + n, 20.0, Failure.STATUS, 503) for n in range(3)]
    return written(place, records)


def publish(url: str, token: str, place: PubSubSink, folder: Path) -> tuple[int, int]:
    async def main() -> tuple[int, int]:
        async with Session(url, Token(token)) as session:
            sent = await Publisher(session, place, folder, "/pubsub").publish(RUN, lambda _done: None)
            return sent, await bigquery_export.count_rows(session, place, folder)

    return clock.run(main())


def test_published_records_equal_table_rows(google: Google, tmp_path: Path) -> None:
    table(google, "tests")
    stream(google, "tests", "tests", drop_unknown_fields=True)
    folder, place = run_folder(tmp_path, "llama-1"), PubSubSink(PROJECT, "tests", "tests", "records")
    assert publish(google.served.url, google.served.token, place, folder) == (ROWS, ROWS)
    figures = "COUNT(*) AS n, AVG(response_time), SUM(num_output_tokens)"
    sql = f"SELECT exception, {figures} FROM tests.records GROUP BY exception ORDER BY n"
    assert count(google, sql) == [
        ("status 503", 3, pytest.approx(100.0), None),
        (None, ROWS - 3, pytest.approx(260.0), 11 * (ROWS - 3)),
    ]
    assert publish(google.served.url, google.served.token, place, folder) == (ROWS, ROWS)  # nothing is sent twice


def test_nothing_is_published_unless_topic_and_table_exist(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table(google, "checked")
    stream(google, "checked", "checked", drop_unknown_fields=True)
    folder = run_folder(tmp_path, "llama-3")
    (folder / "run.json").write_bytes(orjson.dumps({**RUN, "format": FORMAT_VERSION}))
    addresses = dict.fromkeys(("pubsub", "bigquery"), google.served.url)
    monkeypatch.setattr("sliceworks.cli.load._cloud", lambda _twin: (addresses, "/pubsub", Token(google.served.token)))
    for dataset, topic in (("nope", "checked"), ("checked", "nope")):
        place = ["--project", PROJECT, "--topic", topic, "--dataset", dataset, "--table", "records"]
        assert run(["load", "publish", str(folder), *place]) == 1
        assert count(google, "SELECT COUNT(*) FROM checked.records") == [(0,)]
        assert not (folder / bigquery_export.PROGRESS).exists()
        assert ("with loadMetrics" in capsys.readouterr().err) == (dataset == "nope")


class Unsteady(BaseHTTPRequestHandler):
    """Fails sometimes before it accepts a batch."""

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


def test_retry_continues_after_the_last_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_seconds: float) -> None: ...

    monkeypatch.setattr(clock, "sleep", at_once)
    folder, place = run_folder(tmp_path, "llama-2"), PubSubSink(PROJECT, "tests", "tests", "records")
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
