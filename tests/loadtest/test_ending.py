"""Runs that could not be put together when they ended: what they measured is there later, and marked as partial."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.support.load_tests import record, spec

from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.loadtest import ending, merging, plans
from sliceworks.loadtest.rows import Writer
from sliceworks.loadtest.running import Outcome

BEGAN = 1_700_000_000.0


def broken_off(folder: Path, count: int = 10) -> ExitStack:
    """A run whose senders wrote so many rows; it goes on until the stack is closed."""
    stack = ExitStack()
    what = ending.Note("test", {"build": "7"}, str(folder.parent), "http://127.0.0.1:1", spec().model_dump(by_alias=True))
    stack.enter_context(ending.noted(folder, what))
    with Writer(folder, "worker-0", 0) as writer:
        for number in range(count):
            writer.add(record(number, number / 10))
    return stack


def left(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def conclude(folder: Path) -> dict[str, Any]:
    return ending.conclude(folder, plans.make(spec(), Path()), Outcome(BEGAN, "", ()))


def block(place: Path) -> None:
    """Put a full disk in the way of a table; of the result, which would take its place, a folder."""
    if place.suffix == ".half":
        place.symlink_to("/dev/full")
    else:
        place.mkdir()


def unblock(place: Path) -> None:
    place.unlink() if place.is_symlink() else place.rmdir()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
@pytest.mark.parametrize("full", ["requests.half", "pieces.half", ".run.json.new"])
def test_a_full_disk_keeps_the_rows_for_later(tmp_path: Path, full: str) -> None:
    folder = tmp_path / "run"
    with broken_off(folder):
        block(folder / full)
        with pytest.raises(SliceworksError, match="cannot be put together: ") as caught:
            conclude(folder)
    assert caught.value.hint == f"make room, then: sliceworks load recover {folder}"
    assert ending.unfinished(tmp_path) == [folder]
    unblock(folder / full)
    found = ending.recover(folder)
    assert (found["valid"], found["problems"]) == (False, [f"ended early: {ending.BROKEN_OFF}"])
    assert (found["name"], found["tags"], found["summary"]["succeeded"]) == ("test", {"build": "7"}, 10)
    assert left(folder) == {"run.json", "requests.parquet", "pieces.parquet"}
    assert orjson.loads((folder / "run.json").read_bytes())["summary"]["requests"] == 10
    assert ending.unfinished(tmp_path) == []


def test_when_it_began_is_known_from_its_rows(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    broken_off(folder).close()
    written = (folder / "worker-0.rows").stat().st_mtime
    assert ending.recover(folder)["began"] == pytest.approx(written - 1.1)  # the last request ended then


def test_tables_that_are_whole_are_not_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    broken_off(folder).close()
    rows = {name: (folder / name).read_bytes() for name in ("worker-0.rows", "worker-0.pieces")}
    merging.merge(folder)
    for name, content in rows.items():  # as if it had been killed before the rows were gone
        (folder / name).write_bytes(content[:88] if name.endswith("rows") else content)
    assert ending.recover(folder)["summary"]["requests"] == 10
    assert left(folder) == {"run.json", "requests.parquet", "pieces.parquet"}


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with broken_off(folder), pytest.raises(SliceworksError, match="still goes on"):
        ending.recover(folder)
    assert "worker-0.rows" in left(folder)


def test_what_measured_nothing_leaves_nothing_to_recover(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    broken_off(folder, 0).close()
    assert ending.unfinished(tmp_path) == []
    with pytest.raises(InvalidDocument, match="there is no run in"):
        ending.recover(folder)


def test_a_whole_run_is_not_recovered(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with broken_off(folder):
        conclude(folder)
    with pytest.raises(InvalidDocument, match="is whole"):
        ending.recover(folder)


def test_a_note_that_is_cut_off_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    broken_off(folder).close()
    (folder / ending.NOTE).write_text('{"name": "te')
    with pytest.raises(InvalidDocument, match="cannot be read"):
        ending.recover(folder)
