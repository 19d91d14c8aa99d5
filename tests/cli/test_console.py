"""The `console` command: input errors, and its start and stop as a process."""

from __future__ import annotations

import importlib.util
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.cli.console import _print_url
from sliceworks.cli.main import run
from sliceworks.console.app import listen
from sliceworks.kube import kubeconfig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A kubeconfig of an unreachable cluster."""
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig.render(name="nowhere", server="http://127.0.0.1:1", token="t", ca=b""))
    return file


def test_port_in_use_is_an_error_with_a_hint(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["console", "--kubeconfig", str(config), "--port", str(port)]) == 1
    assert capsys.readouterr().err == f"error: port {port} is in use\nhint: choose another --port; 0 takes any free one\n"


def test_address_of_another_machine_is_an_error(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    assert run(["console", "--kubeconfig", str(config), "--port", "0", "--host", "192.0.2.1"]) == 1
    reported = capsys.readouterr().err
    assert reported.startswith("error: cannot listen on 192.0.2.1: ")
    assert reported.endswith("hint: --host must be an address of this machine\n")


def test_missing_library_is_an_error_with_a_hint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    result = importlib.util.find_spec

    def look(name: str, *rest: Any) -> Any:
        return None if name == "nicegui" else result(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", look)
    assert run(["console"]) == 1
    assert "pip install 'nicegui>=" in capsys.readouterr().err


def test_missing_kubeconfig_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
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


def test_ctrl_c_during_start_prints_nothing(config: Path) -> None:
    command = [sys.executable, "-c", _INTERRUPTED_AT_ONCE, str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_url_has_a_new_token_in_its_fragment() -> None:
    first, second = listen("127.0.0.1", 0), listen("::1", 0)
    with first.listening, second.listening:
        assert first.url == f"http://127.0.0.1:{first.port}/#token={first.token}"
        assert second.url.startswith(f"http://[::1]:{second.port}/#token=")
        assert first.token != second.token
        assert len(first.token) == 32
        assert first.token not in repr(first)


def test_missing_browser_is_reported_but_not_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    opened: list[str] = []

    def opening(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", opening)
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    listener = listen("127.0.0.1", 0)
    with listener.listening:
        _print_url(listener, True)
        assert capsys.readouterr().err.endswith("No browser found; open the URL yourself.\n")
        monkeypatch.setenv("DISPLAY", ":0")
        _print_url(listener, True)
        assert (capsys.readouterr().out, opened) == (f"{listener.url}\n", [listener.url])


def test_non_loopback_address_prints_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    listener = listen("0.0.0.0", 0)
    with listener.listening:
        _print_url(listener, False)
        output = capsys.readouterr()
        assert "is not encrypted" in output.err
        assert output.out == f"http://127.0.0.1:{listener.port}/#token={listener.token}\n"


def _check_nonces(url: str, token: str) -> None:
    """Every inline script of a page has the nonce of its policy, which no other response has."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    browser.open(f"{url}login", f"token={token}".encode(), timeout=90).close()
    nonces = set()
    for _ in range(2):
        with browser.open(url, timeout=90) as page:
            policy, html = page.headers["content-security-policy"], page.read().decode()
        directive = next(part for part in policy.split("; ") if part.startswith("script-src"))
        assert "'unsafe-inline'" not in directive
        nonce = directive.partition("'nonce-")[2].partition("'")[0]
        scripts = re.findall(r"<script\b[^>]*>", html)
        assert len(scripts) > 5
        assert [tag for tag in scripts if "src=" not in tag and f'nonce="{nonce}"' not in tag] == []
        nonces.add(nonce)
    assert len(nonces) == 2
    assert min(map(len, nonces)) >= 22


def test_console_starts_without_cluster_and_stops_on_ctrl_c(config: Path) -> None:
    command = [sys.executable, "-m", "sliceworks", "console", "--port", "0", "--kubeconfig", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        base, _, token = process.stdout.readline().strip().partition("/#token=")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{base}/", timeout=90)
        assert refused.value.code == 401
        refused.value.close()
        _check_nonces(f"{base}/", token)
        process.send_signal(signal.SIGINT)
        rest, reported = process.communicate(timeout=90)
    assert (process.returncode, rest) == (0, "")
    assert reported == "Serving the console until Ctrl-C at:\n"
    assert token not in reported
