"""The homes of twins, and how a running twin is distinguished from a stale pid file."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.platform import twin_home


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path / "home"))


def test_home_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert twin_home.find("a").directory == tmp_path / "home" / "twins" / "a"
    monkeypatch.delenv("SLICEWORKS_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert twin_home.find("a").directory == tmp_path / "state" / "sliceworks" / "twins" / "a"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert twin_home.find("a").directory == tmp_path / ".local" / "state" / "sliceworks" / "twins" / "a"


def test_user_without_home_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLICEWORKS_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 1_000_690_000)
    with pytest.raises(UsageError, match="no home directory"):
        twin_home.state_root()


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "a" * 64, "-a"])
def test_invalid_name_is_an_error(name: str) -> None:
    with pytest.raises(UsageError):
        twin_home.find(name)


def test_twins_are_listed_by_name() -> None:
    assert twin_home.list_homes() == []
    for name in ("b", "a"):
        twin_home.find(name).create()
    assert [home.name for home in twin_home.list_homes()] == ["a", "b"]


def test_folder_is_private() -> None:
    home = twin_home.find("a")
    home.create()
    assert stat.S_IMODE(home.directory.stat().st_mode) == 0o700


def test_lock_names_the_running_process() -> None:
    home = twin_home.find("a")
    assert home.owner_pid() == 0
    assert home.state().state == "stopped"
    with home.held():
        assert home.owner_pid() == os.getpid()
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
    assert home.owner_pid() == 0
    assert home.state().state == "stopped"


def test_pid_file_without_process_is_stale() -> None:
    home = twin_home.find("a")
    home.create()
    code = "import os; from sliceworks.platform import twin_home\nwith twin_home.find('a').held(): os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert (home.directory / "twin.pid").read_text().isdigit()
    (home.directory / "twin.pid").write_text(str(os.getppid()))
    assert home.owner_pid() == 0


def test_settings_are_stored_and_invalid_ones_ignored() -> None:
    home = twin_home.find("a")
    home.create()
    assert home.settings() == twin_home.Settings()
    home.remember(twin_home.Settings(6443, True, 60.0))
    assert home.settings() == twin_home.Settings(6443, True, 60.0)
    home.remember(twin_home.Settings(steered=True))
    assert home.settings() == twin_home.Settings(steered=True)
    ways = (twin_home.Settings(), twin_home.Settings(speed=2.0), twin_home.Settings(steered=True))
    assert [item.has_own_clock for item in ways] == [False, True, True]
    for rubbish in ("{", "[]", '{"port": "x"}'):
        Path(home.directory / "twin.json").write_text(rubbish)
        assert home.settings() == twin_home.Settings()
