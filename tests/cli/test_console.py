"""The command of the console: what it refuses at once, and how it begins and ends as a program."""

from __future__ import annotations

import importlib.util
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.cli.console import _tell
from sliceworks.cli.main import run
from sliceworks.console.app import open_door
from sliceworks.kube import kubeconfig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A kubeconfig of a cluster that does not answer."""
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig.render(name="nowhere", server="http://127.0.0.1:1", token="t", ca=b""))
    return file


def test_a_port_in_use_is_one_line_and_a_remedy(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["console", "--kubeconfig", str(config), "--port", str(port)]) == 1
    assert capsys.readouterr().err == f"error: port {port} is in use\nhint: choose another --port; 0 takes any free one\n"


def test_an_address_of_another_machine_is_one_line(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    assert run(["console", "--kubeconfig", str(config), "--port", "0", "--host", "192.0.2.1"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: cannot listen on 192.0.2.1: ")
    assert told.endswith("hint: --host is an address of this machine\n")


def test_without_the_library_it_says_what_to_install(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def look(name: str, *rest: Any) -> Any:
        return None if name == "nicegui" else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", look)
    assert run(["console"]) == 1
    assert capsys.readouterr().err.endswith("hint: pip install 'sliceworks[console]'\n")


def test_a_missing_kubeconfig_is_told_before_anything_starts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["console", "--kubeconfig", str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err


_INTERRUPTED_AT_ONCE = """
import asyncio, os, signal, sys
import uvicorn
from sliceworks.cli.main import run

begin = uvicorn.Server.startup

async def startup(server, sockets=None):
    os.kill(os.getpid(), signal.SIGINT)
    while not server.should_exit:
        await asyncio.sleep(0.01)
    await begin(server, sockets)

uvicorn.Server.startup = startup
sys.exit(run(["console", "--kubeconfig", sys.argv[1], "--port", "0"]))
"""


def test_ctrl_c_before_it_answers_ends_it_without_a_word(config: Path) -> None:
    command = [sys.executable, "-c", _INTERRUPTED_AT_ONCE, str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_address_has_the_token_in_its_fragment_and_each_start_its_own() -> None:
    first, second = open_door("127.0.0.1", 0), open_door("::1", 0)
    with first.listening, second.listening:
        assert first.url == f"http://127.0.0.1:{first.port}/#token={first.token}"
        assert second.url.startswith(f"http://[::1]:{second.port}/#token=")
        assert first.token != second.token
        assert len(first.token) == 32
        assert first.token not in repr(first)


def test_no_browser_is_no_failure_and_its_lack_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    opened: list[str] = []

    def opening(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", opening)
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    door = open_door("127.0.0.1", 0)
    with door.listening:
        _tell(door, True)
        assert capsys.readouterr().err.endswith("There is no browser to open: open the address yourself.\n")
        monkeypatch.setenv("DISPLAY", ":0")
        _tell(door, True)
        assert (capsys.readouterr().out, opened) == (f"{door.url}\n", [door.url])


def test_an_address_that_others_reach_comes_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    door = open_door("0.0.0.0", 0)
    with door.listening:
        _tell(door, False)
        said = capsys.readouterr()
        assert "is not encrypted" in said.err
        assert said.out == f"http://127.0.0.1:{door.port}/#token={door.token}\n"


def test_it_begins_without_its_cluster_and_ends_with_ctrl_c(config: Path) -> None:
    command = [sys.executable, "-m", "sliceworks", "console", "--port", "0", "--kubeconfig", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        base, _, token = process.stdout.readline().strip().partition("/#token=")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{base}/", timeout=20)
        assert refused.value.code == 401
        refused.value.close()
        process.send_signal(signal.SIGINT)
        rest, told = process.communicate(timeout=20)
    assert (process.returncode, rest) == (0, "")
    assert told == "The console answers at this address, until Ctrl-C:\n"
    assert token not in told
