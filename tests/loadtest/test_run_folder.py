"""Runs that could not be concluded: their rows are recovered later and marked as partial."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.support.load_tests import record, spec

from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.loadtest import load_plan, request_table, results, run_folder
from sliceworks.loadtest.request_log import RecordWriter
from sliceworks.loadtest.runner import Outcome

BEGAN = 1_700_000_000.0


def interrupted_run(folder: Path, count: int = 10) -> ExitStack:
    """A run whose workers wrote this many rows; its lock is held until the stack is closed."""
    stack = ExitStack()
    what = run_folder.RunManifest(
        "test", {"build": "7"}, str(folder.parent), "http://127.0.0.1:1", spec().model_dump(by_alias=True)
    )
    stack.enter_context(run_folder.open_run(folder, what))
    with RecordWriter(folder, "worker-0", 0) as writer:
        for number in range(count):
            writer.add(record(number, number / 10))
    return stack


def remaining_files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def conclude(folder: Path) -> dict[str, Any]:
    return run_folder.finalize(folder, load_plan.create(spec(), Path()), Outcome(BEGAN, "", ()))


def block(place: Path) -> None:
    """Block a table with a full disk, and the result with a folder of its name."""
    if place.suffix == ".half":
        place.symlink_to("/dev/full")
    else:
        place.mkdir()


def unblock(place: Path) -> None:
    place.unlink() if place.is_symlink() else place.rmdir()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
@pytest.mark.parametrize("full", ["requests.half", "chunks.half", ".run.json.new"])
def test_full_disk_keeps_the_rows(tmp_path: Path, full: str) -> None:
    folder = tmp_path / "run"
    with interrupted_run(folder):
        block(folder / full)
        with pytest.raises(SliceworksError, match="cannot merge the logs in ") as caught:
            conclude(folder)
    assert caught.value.hint == f"free disk space, then run `sliceworks load recover {folder}`"
    assert run_folder.list_unfinished(tmp_path) == [folder]
    unblock(folder / full)
    result = run_folder.recover(folder)
    assert (result["valid"], result["problems"]) == (False, [f"ended early: {run_folder.INTERRUPTED_NOTE}"])
    assert (result["name"], result["tags"], result["summary"]["succeeded"]) == ("test", {"build": "7"}, 10)
    assert remaining_files(folder) == {"run.json", "requests.parquet", "chunks.parquet"}
    assert orjson.loads((folder / "run.json").read_bytes())["summary"]["requests"] == 10
    assert run_folder.list_unfinished(tmp_path) == []


def test_start_time_is_known_from_rows(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interrupted_run(folder).close()
    written = (folder / "worker-0.rows").stat().st_mtime
    assert run_folder.recover(folder)["started"] == pytest.approx(written - 1.1)  # the last request ended then


def test_complete_tables_are_not_rebuilt(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interrupted_run(folder).close()
    rows = {name: (folder / name).read_bytes() for name in ("worker-0.rows", "worker-0.chunks")}
    request_table.merge_records(folder)
    for name, content in rows.items():  # as if it had been killed before the rows were deleted
        (folder / name).write_bytes(content[:88] if name.endswith("rows") else content)
    assert run_folder.recover(folder)["summary"]["requests"] == 10
    assert remaining_files(folder) == {"run.json", "requests.parquet", "chunks.parquet"}


def test_active_run_is_not_recovered(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with interrupted_run(folder), pytest.raises(SliceworksError, match="is still running"):
        run_folder.recover(folder)
    assert "worker-0.rows" in remaining_files(folder)


def test_run_without_rows_cannot_be_recovered(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interrupted_run(folder, 0).close()
    assert run_folder.list_unfinished(tmp_path) == []
    with pytest.raises(InvalidDocument, match="no run found in"):
        run_folder.recover(folder)


def test_complete_run_is_not_recovered(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with interrupted_run(folder):
        conclude(folder)
    with pytest.raises(InvalidDocument, match="is complete"):
        run_folder.recover(folder)


def test_truncated_note_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interrupted_run(folder).close()
    (folder / run_folder.MANIFEST_FILE).write_text('{"name": "te')
    with pytest.raises(InvalidDocument, match="cannot read the run"):
        run_folder.recover(folder)


def test_runs_of_another_version_are_refused(tmp_path: Path) -> None:
    refused = r"format: expected 3, got 2: the run was written by another version"
    folder = tmp_path / "interrupted"
    interrupted_run(folder).close()
    _set_format(folder / run_folder.MANIFEST_FILE, 2)
    with pytest.raises(InvalidDocument, match=refused):
        run_folder.recover(folder)
    folder = tmp_path / "complete"
    with interrupted_run(folder):
        conclude(folder)
    assert results.run_query(tmp_path, "SELECT count(*) FROM chunks")[1] == [(0,)]
    _set_format(folder / results.RUN_FILE, 2)
    (folder / "chunks.parquet").rename(folder / "pieces.parquet")
    with pytest.raises(InvalidDocument, match=refused):
        results.load(folder)
    with pytest.raises(InvalidDocument, match=refused):
        results.run_query(tmp_path, "SELECT count(*) FROM requests")


def _set_format(file: Path, version: int) -> None:
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | {"format": version}))
