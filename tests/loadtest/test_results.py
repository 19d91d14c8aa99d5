"""SQL queries over runs: they read only the runs' files and write nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.loadtest.test_report import concluded

from sliceworks.base.errors import SliceworksError
from sliceworks.loadtest import results

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, one with a name that must be quoted."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("a", "it's b"):
        (folder / name).mkdir()
        concluded(folder / name, name=name)
    return folder


def test_queries_over_all_runs(runs: Path) -> None:
    assert results.run_query(runs, "SELECT run, count(*) AS many FROM requests GROUP BY run ORDER BY run") == (
        ["run", "many"],
        [("a", 40), ("it's b", 40)],
    )
    assert results.run_query(runs, "WITH b AS (FROM runs) SELECT name FROM b ORDER BY name")[1] == [("a",), ("it's b",)]


@pytest.mark.parametrize(
    "query",
    [
        "FROM read_csv('/etc/passwd')",
        "COPY (SELECT 1) TO '{runs}/new.parquet'",
        "COPY (SELECT 1 AS a) TO '{runs}/a/requests.parquet' (FORMAT parquet, USE_TMP_FILE false)",
        "EXPLAIN ANALYZE COPY (SELECT 1 AS a) TO '{runs}/a/requests.parquet' (FORMAT parquet, USE_TMP_FILE false)",
        "SELECT 1; COPY (SELECT 1 AS a) TO '{runs}/a/requests.parquet' (FORMAT parquet, USE_TMP_FILE false)",
        "SET enable_external_access = true",
        "ATTACH '{runs}/a/requests.parquet'",
        "DROP VIEW requests",
        "SELECT nonsense FROM requests",
        "SELEKT 1",
    ],
)
def test_other_statements_are_rejected(runs: Path, query: str) -> None:
    files = {file: file.read_bytes() for file in runs.rglob("*.parquet")}
    with pytest.raises(SliceworksError):
        results.run_query(runs, query.format(runs=runs))
    assert {file: file.read_bytes() for file in runs.rglob("*.parquet")} == files
