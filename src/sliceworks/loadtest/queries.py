"""SQL over all runs of a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb

from sliceworks.base.errors import SliceworksError
from sliceworks.loadtest.merging import PIECES, REQUESTS, quoted
from sliceworks.loadtest.results import RUN

if TYPE_CHECKING:
    from pathlib import Path


def ask(folder: Path, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and rows. The tables are read-only, and nothing but the runs can be read."""
    runs = sorted(each.parent.resolve() for each in folder.glob(f"*/{RUN}"))
    if not runs:
        raise SliceworksError(f"there are no runs in {folder}", hint="sliceworks load run -f test.yaml makes one")
    with duckdb.connect() as connection:
        for table, file in (("requests", REQUESTS), ("pieces", PIECES)):
            _load(connection, table, [each / file for each in runs])
        _load_runs(connection, [each / RUN for each in runs])
        # From here on the query sees these tables and nothing else of the machine. Rows are read when they are asked for: runs of
        # millions need not fit into memory.
        readable = ", ".join(quoted(each / file) for each in runs for file in (REQUESTS, PIECES))
        connection.execute(f"SET allowed_paths = [{readable}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            # Others could write to what may be read.
            if any(each.type is not duckdb.StatementType.SELECT for each in connection.extract_statements(query)):
                raise SliceworksError("only questions are answered", hint="begin with SELECT, FROM, WITH or DESCRIBE")
            found = connection.execute(query)
            return [column[0] for column in found.description or ()], found.fetchall()
        except duckdb.Error as error:
            raise SliceworksError(f"the query was refused: {error}") from error


def _load(connection: duckdb.DuckDBPyConnection, table: str, files: list[Path]) -> None:
    parts = (f"SELECT {quoted(each.parent.name)} AS run, * FROM read_parquet({quoted(each)})" for each in files)
    connection.execute(f"CREATE VIEW {table} AS {' UNION ALL BY NAME '.join(parts)}")


def _load_runs(connection: duckdb.DuckDBPyConnection, files: list[Path]) -> None:
    connection.execute(
        "CREATE TABLE runs (run VARCHAR, name VARCHAR, began DOUBLE, valid BOOLEAN, kept BOOLEAN, tags JSON, summary JSON)"
    )
    for each in files:
        fields = "name, began, valid, kept, to_json(tags), to_json(summary)"
        connection.execute(f"INSERT INTO runs SELECT {quoted(each.parent.name)}, {fields} FROM read_json_auto({quoted(each)})")
