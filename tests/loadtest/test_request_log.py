"""Rows survive crashes of a worker and become equal tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pytest
from tests.support.load_tests import failed, record, written

from sliceworks.loadtest import request_log, request_table
from sliceworks.loadtest.request_log import Failure, RecordWriter

if TYPE_CHECKING:
    from pathlib import Path


def chunks(*milliseconds: int, intended: float = 0.0) -> request_log.RequestRecord:
    result = record(int(intended * 1000), intended)
    for item in milliseconds:
        result.chunk(result.sent + item * 1_000_000)
    return result


def test_rows_round_trip(tmp_path: Path) -> None:
    with RecordWriter(tmp_path, "w", 3) as writer:
        writer.add(chunks(100, 120, 150))
        writer.add(failed(9, 1.0, Failure.STATUS, 503))
        writer.add(chunks(5))
    result, received = request_log.read_records(tmp_path / "w.rows")
    assert result["worker"].tolist() == [3, 3, 3]
    assert result["status"].tolist() == [200, 503, 200]
    assert result["first_token"].tolist()[1] == request_log.NEVER
    assert [
        received[first : first + count].tolist() for first, count in zip(result["chunks_from"], result["chunks"], strict=True)
    ] == [
        [100_000, 120_000, 150_000],
        [],
        [5_000],
    ]


def test_row_is_smaller_than_200_bytes() -> None:
    assert request_log.DTYPE.itemsize < 100


@pytest.mark.parametrize("lost", [1, 50, 87])
def test_truncated_row_is_dropped(tmp_path: Path, lost: int) -> None:
    with RecordWriter(tmp_path, "w", 0) as writer:
        for number in range(5):
            writer.add(chunks(1, 2, intended=float(number)))
    file = tmp_path / "w.rows"
    file.write_bytes(file.read_bytes()[:-lost])
    assert len(request_log.read_records(file)[0]) == 4


def test_rows_without_chunks_are_dropped(tmp_path: Path) -> None:
    with RecordWriter(tmp_path, "w", 0) as writer:
        for number in range(5):
            writer.add(chunks(1, 2, intended=float(number)))
    file = tmp_path / "w.chunks"
    file.write_bytes(file.read_bytes()[:-10])
    result, _ = request_log.read_records(tmp_path / "w.rows")
    assert result["number"].tolist() == [0, 1000, 2000]


def test_full_disk_keeps_unwritten_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self) -> None:
            self.got = b""
            self.full = True

        def write(self, data: bytearray) -> int:
            if self.full:
                raise OSError(28, "No space left on device")
            self.got += bytes(data[:10])
            return min(len(data), 10)

    writer = RecordWriter(tmp_path, "w", 0)
    full = Full()
    chunks_file, (rows_file, buffer) = writer._files
    monkeypatch.setattr(writer, "_files", [chunks_file, (full, buffer)])
    writer.add(record(1, 0.0))
    writer.flush()
    assert writer.problem == "No space left on device"
    full.full = False
    writer.flush()
    assert writer.problem == ""
    assert len(full.got) == request_log.DTYPE.itemsize
    monkeypatch.setattr(writer, "_files", [chunks_file, (rows_file, buffer)])
    writer.close()


def test_workers_are_merged_into_one_table(tmp_path: Path) -> None:
    with RecordWriter(tmp_path, "worker-1", 1) as writer:
        writer.add(chunks(10, 30, intended=0.5))
    written(tmp_path, [failed(0, 0.0, Failure.IDLE_TIMEOUT), chunks(7, intended=2.0)])
    query = (
        f"SELECT intended, worker, failure, first_token, chunks FROM '{tmp_path / request_table.REQUESTS_FILE}' ORDER BY intended"
    )
    assert duckdb.connect().execute(query).fetchall() == [
        (0.0, 0, "idle-timeout", None, 0),
        (0.5, 1, None, 0.6, 2),
        (2.0, 0, None, 2.1, 1),
    ]
    joined = f"'{tmp_path / request_table.CHUNKS_FILE}' JOIN '{tmp_path / request_table.REQUESTS_FILE}' USING (request)"
    query = f"SELECT intended, received FROM {joined} ORDER BY ALL"
    assert duckdb.connect().execute(query).fetchall() == [(0.5, 0.01), (0.5, 0.03), (2.0, 0.007)]
    assert not list(tmp_path.glob("worker-*"))


def test_no_rows_are_an_empty_table(tmp_path: Path) -> None:
    written(tmp_path, [])
    assert duckdb.connect().execute(f"SELECT count(*) FROM '{tmp_path / request_table.REQUESTS_FILE}'").fetchall() == [(0,)]


def test_many_rows_keep_their_chunks(tmp_path: Path) -> None:
    with RecordWriter(tmp_path, "worker-0", 0) as writer:
        for number in range(3_000):
            writer.add(chunks(*range(number % 7), intended=number / 10))
    merged = request_table.merge_records(tmp_path)
    assert merged.requests == 3_000
    result = (
        duckdb.connect()
        .execute(
            f"SELECT r.number, count(p.chunk), coalesce(max(p.received), 0) FROM '{tmp_path / request_table.REQUESTS_FILE}' r "
            f"LEFT JOIN '{tmp_path / request_table.CHUNKS_FILE}' p USING (request) GROUP BY ALL ORDER BY ALL"
        )
        .fetchall()
    )
    counts = np.asarray([count for _, count, _ in result])
    assert counts.tolist() == [number % 7 for number in range(3_000)]
    assert [round(last * 1000) for _, _, last in result] == [max(number % 7 - 1, 0) for number in range(3_000)]
