"""Locust's own pages and CSV files, for those who want them. The pages ask for a password, and start nothing: the schedule does."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

import gevent
from flask import Response, request
from locust.stats import PERCENTILES_TO_REPORT, StatsCSVFileWriter

if TYPE_CHECKING:
    from pathlib import Path

_CHANGES = frozenset({"/swarm", "/stats/reset", "/user"})


def write_csv(environment: Any, folder: Path) -> Any:
    """Begin to write `locust_stats.csv` and its like into a folder; call what is returned when the test has ended."""
    writer = StatsCSVFileWriter(environment, PERCENTILES_TO_REPORT, str(folder / "locust"), full_history=True)
    greenlet = gevent.spawn(writer.stats_writer)

    def end() -> None:
        gevent.sleep(1.1)  # it writes once a second
        greenlet.kill()
        writer.close_files()

    return end


def serve(environment: Any, port: int, password: str) -> None:
    """Locust's pages on loopback, for whoever knows the password."""
    pages = environment.create_web_ui(host="127.0.0.1", port=port, delayed_start=True)

    @pages.app.before_request  # type: ignore[untyped-decorator]
    def _ask() -> Response | None:
        given = request.authorization
        known = given is not None and hmac.compare_digest((given.password or "").encode(), password.encode())
        if not known:
            return Response("a password is needed\n", 401, {"WWW-Authenticate": 'Basic realm="load test"'})
        if request.path in _CHANGES:
            return Response("this test has its schedule from its document\n", 405)
        return None

    pages.start()
