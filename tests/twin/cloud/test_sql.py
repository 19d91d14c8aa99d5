"""The SQL subset of the twin's BigQuery."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.twin.cloud.google.bigquery import table_data
from sliceworks.twin.cloud.google.bigquery.sql import UnsupportedQuery, execute, parse
from sliceworks.twin.cloud.google.pubsub import delivery

COLUMNS = [{"name": "team", "type": "STRING"}, {"name": "n", "type": "INTEGER"}, {"name": "at", "type": "TIMESTAMP"}]
ROWS: list[list[Any]] = [["a", 1, 10_000_000], ["a", 3, 20_000_000], ["b", None, 30_000_000], ["b", 3, None]]


def ask(text: str, **given: Any) -> list[list[Any]]:
    return execute(parse(text), COLUMNS, ROWS, given)[1]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT COUNT(*) FROM `p.d.t`", [[4]]),
        ("select count(n), sum(n), avg(n), min(n), max(n) from d.t;", [[3, 7, 7 / 3, 1, 3]]),
        ("SELECT COUNT(DISTINCT n) FROM d.t -- a comment\n", [[2]]),
        ("SELECT COUNT(*) FROM d.t WHERE n IS NULL", [[1]]),
        ("SELECT n FROM d.t WHERE team = 'a' AND n >= 2", [[3]]),
        ("SELECT team, COUNT(*) c FROM d.t GROUP BY team ORDER BY team DESC", [["b", 2], ["a", 2]]),
        ("SELECT n FROM d.t ORDER BY n LIMIT 2", [[None], [1]]),
        ("SELECT COUNT(*) FROM d.t WHERE at > TIMESTAMP '1970-01-01 00:00:15 UTC'", [[2]]),
        ("SELECT SUM(n) FROM d.t WHERE team = 'missing'", [[None]]),
        ("SELECT team FROM d.t WHERE n = 3 LIMIT 1", [["a"]]),
    ],
)
def test_query_returns_rows(text: str, rows: list[list[Any]]) -> None:
    assert ask(text) == rows


def test_query_supports_parameters_and_aliases() -> None:
    assert ask("SELECT n FROM d.t WHERE team = @team", team="b") == [[None], [3]]
    fields, _ = execute(parse("SELECT team AS t, COUNT(*), MAX(at) FROM d.t GROUP BY team"), COLUMNS, ROWS, {})
    assert [(item["name"], item["type"]) for item in fields] == [("t", "STRING"), ("f1_", "INTEGER"), ("f2_", "TIMESTAMP")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT",
        "SELECT n",
        "SELECT n FROM",
        "SELECT n FROM d.t WHERE",
        "SELECT n FROM d.t WHERE n = 1 OR n = 2",
        "SELECT n FROM d.t WHERE n IN (1, 2)",
        "SELECT n + 1 FROM d.t",
        "SELECT n FROM d.t LIMIT -1",
        "SELECT n FROM (SELECT 1)",
        "SELECT SUM(team) FROM d.t",
        "SELECT n FROM d.t WHERE n = 'many'",
        "SELECT n FROM d.t WHERE team = @missing",
        "SELECT n FROM d.t ORDER BY team",
        "SELECT n FROM d.t; DROP TABLE d.t",
        "SELECT n FROM d.t WHERE team = 'open",
    ],
)
def test_unsupported_query_is_rejected(text: str) -> None:
    with pytest.raises(UnsupportedQuery):
        ask(text)


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [
        ("INTEGER", "12", 12),
        ("INTEGER", 12.0, 12),
        ("FLOAT", "1e3", 1000.0),
        ("BOOL", "TRUE", True),
        ("TIMESTAMP", "2026-01-01T00:00:00+01:00", 1_767_222_000_000_000),
        ("TIMESTAMP", 1.5, 1_500_000),
        ("DATE", "2026-02-28", "2026-02-28"),
        ("JSON", {"a": 1}, '{"a":1}'),
        ("STRING", 5, "5"),
    ],
)
def test_values_are_converted_to_column_types(kind: str, value: Any, kept: Any) -> None:
    assert table_data.parse_value({"name": "c", "type": kind}, value) == kept


@pytest.mark.parametrize(
    ("kind", "value"),
    [("INTEGER", "1.5"), ("INTEGER", 2**63), ("DATE", "2026-02-30"), ("BOOLEAN", "maybe"), ("JSON", "{"), ("STRING", [1])],
)
def test_mismatched_values_are_rejected(kind: str, value: Any) -> None:
    with pytest.raises(table_data.InvalidValue):
        table_data.parse_value({"name": "c", "type": kind}, value)


def test_binary_messages_are_decoded_by_schema() -> None:
    definition = (
        'syntax = "proto3";\nmessage R { string name = 1; /* n */ int64 n = 2; optional double x = 3; repeated string tags = 4; }'
    )
    assert delivery.decode_message(definition, "BINARY", b"\x0a\x01a\x10\x05") == {"name": "a", "n": "5"}
    assert delivery.decode_message(definition, "JSON", b'{"name": "", "tags": ["b"]}') == {"name": "", "tags": ["b"]}
