"""The benchmark of graphs runs from start to end and says what it found in the agreed form. Nothing is timed here."""

from __future__ import annotations

import orjson
import pytest
from bench.graphs import measures
from bench.measure.engines import Calls, Engine
from tests.support import benches
from tests.support.clusters import real_wanted

pytestmark = pytest.mark.long(40)


@pytest.mark.real
@pytest.mark.skipif(not real_wanted(), reason="needs programs built from their Go modules: SLICEWORKS_REAL=1")
def test_both_engines() -> None:
    done = benches.run("graphs", "--tiny")
    found = orjson.loads(done.stdout.splitlines()[-1])
    assert list(found) == list(measures())
    assert all(each["ratio"] >= 0 for each in found.values())


def test_requests_about_the_load_are_counted() -> None:
    page = """
apiserver_request_total{code="200",resource="configmaps",verb="APPLY"} 7
apiserver_request_total{code="200",resource="configmaps",verb="WATCH"} 100
apiserver_request_total{code="200",resource="configmaps",verb="GET"} 3
apiserver_request_total{code="200",resource="leases",verb="PUT"} 50
"""
    assert Engine.calls(frozenset({"configmaps"}), page) == Calls(10, 7)
