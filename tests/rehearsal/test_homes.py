"""Where twins live, and how a running one is told from a stale pid file."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.rehearsal import homes


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path / "home"))


def test_where_twins_live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert homes.find("a").directory == tmp_path / "home" / "twins" / "a"
    monkeypatch.delenv("SLICEWORKS_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert homes.find("a").directory == tmp_path / "state" / "sliceworks" / "twins" / "a"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert homes.find("a").directory == tmp_path / ".local" / "state" / "sliceworks" / "twins" / "a"


def test_a_user_without_a_home_is_told_to_name_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLICEWORKS_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 1_000_690_000)
    with pytest.raises(UsageError, match="no home folder"):
        homes.root()


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "a" * 64, "-a"])
def test_a_name_that_is_no_name(name: str) -> None:
    with pytest.raises(UsageError):
        homes.find(name)


def test_all_twins_by_name() -> None:
    assert homes.all_homes() == []
    for name in ("b", "a"):
        homes.find(name).create()
    assert [home.name for home in homes.all_homes()] == ["a", "b"]


def test_a_folder_is_for_its_owner_alone() -> None:
    home = homes.find("a")
    home.create()
    assert stat.S_IMODE(home.directory.stat().st_mode) == 0o700


def test_who_holds_a_twin() -> None:
    home = homes.find("a")
    assert home.holder() == 0
    assert home.state().state == "stopped"
    with home.held():
        assert home.holder() == os.getpid()
        assert home.state().state == "starting"
        (home.directory / "ready.json").write_text(
            f'{{"pid": {os.getpid()}, "port": 1, "url": "https://x", "cloud_port": 2, "cloud": "http://y", '
            '"started": "2026-11-15T00:00:00Z"}'
        )
        state = home.state()
        assert (state.state, state.pid, state.port, state.url) == ("running", os.getpid(), 1, "https://x")
        assert (state.cloud_port, state.cloud) == (2, "http://y")
        with pytest.raises(SliceworksError, match="already running"), home.held():
            pass
    assert home.holder() == 0
    assert home.state().state == "stopped"


def test_a_pid_file_without_a_process_is_stale() -> None:
    home = homes.find("a")
    home.create()
    code = "import os; from sliceworks.rehearsal import homes\nwith homes.find('a').held(): os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert (home.directory / "twin.pid").read_text().isdigit()
    (home.directory / "twin.pid").write_text(str(os.getppid()))
    assert home.holder() == 0


def test_settings_are_remembered_and_rubbish_is_not_believed() -> None:
    home = homes.find("a")
    home.create()
    assert home.settings() == homes.Settings()
    home.remember(homes.Settings(6443, True, 60.0))
    assert home.settings() == homes.Settings(6443, True, 60.0)
    home.remember(homes.Settings(steered=True))
    assert home.settings() == homes.Settings(steered=True)
    ways = (homes.Settings(), homes.Settings(speed=2.0), homes.Settings(steered=True))
    assert [each.own_clock for each in ways] == [False, True, True]
    for rubbish in ("{", "[]", '{"port": "x"}'):
        Path(home.directory / "twin.json").write_text(rubbish)
        assert home.settings() == homes.Settings()
