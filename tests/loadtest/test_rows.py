"""Rows survive what may happen to a worker, and become tables that say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pytest
from tests.support.load_tests import failed, record, written

from sliceworks.loadtest import merging, rows
from sliceworks.loadtest.rows import Failure, Writer

if TYPE_CHECKING:
    from pathlib import Path


def pieces(*milliseconds: int, intended: float = 0.0) -> rows.Record:
    found = record(int(intended * 1000), intended)
    for each in milliseconds:
        found.piece(found.sent + each * 1_000_000)
    return found


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    with Writer(tmp_path, "w", 3) as writer:
        writer.add(pieces(100, 120, 150))
        writer.add(failed(9, 1.0, Failure.STATUS, 503))
        writer.add(pieces(5))
    found, came = rows.read(tmp_path / "w.rows")
    assert found["worker"].tolist() == [3, 3, 3]
    assert found["status"].tolist() == [200, 503, 200]
    assert found["first_token"].tolist()[1] == rows.NEVER
    assert [came[first : first + count].tolist() for first, count in zip(found["pieces_from"], found["pieces"], strict=True)] == [
        [100_000, 120_000, 150_000],
        [],
        [5_000],
    ]


def test_a_row_costs_less_than_two_hundred_bytes() -> None:
    assert rows.DTYPE.itemsize < 100


@pytest.mark.parametrize("lost", [1, 50, 87])
def test_what_a_kill_cut_off_is_left_out(tmp_path: Path, lost: int) -> None:
    with Writer(tmp_path, "w", 0) as writer:
        for number in range(5):
            writer.add(pieces(1, 2, intended=float(number)))
    file = tmp_path / "w.rows"
    file.write_bytes(file.read_bytes()[:-lost])
    assert len(rows.read(file)[0]) == 4


def test_rows_without_their_pieces_are_left_out(tmp_path: Path) -> None:
    with Writer(tmp_path, "w", 0) as writer:
        for number in range(5):
            writer.add(pieces(1, 2, intended=float(number)))
    file = tmp_path / "w.pieces"
    file.write_bytes(file.read_bytes()[:-10])
    found, _ = rows.read(tmp_path / "w.rows")
    assert found["number"].tolist() == [0, 1000, 2000]


def test_a_full_disk_loses_nothing_that_may_be_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self) -> None:
            self.got = b""
            self.full = True

        def write(self, data: bytearray) -> int:
            if self.full:
                raise OSError(28, "No space left on device")
            self.got += bytes(data[:10])
            return min(len(data), 10)

    writer = Writer(tmp_path, "w", 0)
    full = Full()
    kept = writer._rows
    monkeypatch.setattr(writer, "_rows", full)
    writer.add(record(1, 0.0))
    writer.flush()
    assert writer.problem == "No space left on device"
    full.full = False
    writer.flush()
    assert writer.problem == ""
    assert len(full.got) == rows.DTYPE.itemsize
    monkeypatch.setattr(writer, "_rows", kept)
    writer.close()


def test_workers_become_one_table(tmp_path: Path) -> None:
    with Writer(tmp_path, "worker-1", 1) as writer:
        writer.add(pieces(10, 30, intended=0.5))
    written(tmp_path, [failed(0, 0.0, Failure.IDLE_TIMEOUT), pieces(7, intended=2.0)])
    query = f"SELECT intended, worker, failure, first_token, pieces FROM '{tmp_path / merging.REQUESTS}' ORDER BY intended"
    assert duckdb.connect().execute(query).fetchall() == [
        (0.0, 0, "idle-timeout", None, 0),
        (0.5, 1, None, 0.6, 2),
        (2.0, 0, None, 2.1, 1),
    ]
    joined = f"'{tmp_path / merging.PIECES}' JOIN '{tmp_path / merging.REQUESTS}' USING (request)"
    query = f"SELECT intended, came FROM {joined} ORDER BY ALL"
    assert duckdb.connect().execute(query).fetchall() == [(0.5, 0.01), (0.5, 0.03), (2.0, 0.007)]
    assert not list(tmp_path.glob("worker-*"))


def test_nothing_is_a_table_too(tmp_path: Path) -> None:
    written(tmp_path, [])
    assert duckdb.connect().execute(f"SELECT count(*) FROM '{tmp_path / merging.REQUESTS}'").fetchall() == [(0,)]


def test_many_rows_keep_their_pieces(tmp_path: Path) -> None:
    with Writer(tmp_path, "worker-0", 0) as writer:
        for number in range(3_000):
            writer.add(pieces(*range(number % 7), intended=number / 10))
    merged = merging.merge(tmp_path)
    assert merged.requests == 3_000
    found = (
        duckdb.connect()
        .execute(
            f"SELECT r.number, count(p.piece), coalesce(max(p.came), 0) FROM '{tmp_path / merging.REQUESTS}' r "
            f"LEFT JOIN '{tmp_path / merging.PIECES}' p USING (request) GROUP BY ALL ORDER BY ALL"
        )
        .fetchall()
    )
    counts = np.asarray([count for _, count, _ in found])
    assert counts.tolist() == [number % 7 for number in range(3_000)]
    assert [round(last * 1000) for _, _, last in found] == [max(number % 7 - 1, 0) for number in range(3_000)]
