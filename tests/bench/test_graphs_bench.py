"""The graphs benchmark runs end to end and prints its results in the common format. Nothing is timed here."""

from __future__ import annotations

import orjson
import pytest
from bench.graphs import TINY, new_metrics
from bench.harness.graph_engines import Engine, RequestCount
from tests.support import bench_script
from tests.support.clusters import real_enabled

pytestmark = pytest.mark.long(40)


@pytest.mark.real
@pytest.mark.skipif(not real_enabled(), reason="needs programs built from their Go modules: SLICEWORKS_REAL=1")
def test_both_engines() -> None:
    done = bench_script.run("graphs", "--tiny")
    results = orjson.loads(done.stdout.splitlines()[-1])
    assert list(results) == list(new_metrics(TINY))
    assert all(result["ratio"] >= 0 for result in results.values())


def test_requests_of_the_load_are_counted() -> None:
    page = """
apiserver_request_total{code="200",resource="configmaps",verb="APPLY"} 7
apiserver_request_total{code="200",resource="configmaps",verb="WATCH"} 100
apiserver_request_total{code="200",resource="configmaps",verb="GET"} 3
apiserver_request_total{code="200",resource="leases",verb="PUT"} 50
"""
    assert Engine.count_requests(frozenset({"configmaps"}), page) == RequestCount(10, 7)
