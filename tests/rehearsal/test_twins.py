"""Twins as processes: started, found again, stopped, killed, emptied, all through the command line."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sliceworks.base import clock
from sliceworks.cli import main
from sliceworks.rehearsal import homes, twins

pytestmark = pytest.mark.usefixtures("own_home")


def status(capsys: pytest.CaptureFixture[str], name: str = "default") -> dict[str, Any]:
    capsys.readouterr()
    assert main.run(["twin", "status", "--name", name, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)[0]
    return found


def test_start_is_told_how_to_be_used_and_can_be_repeated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before = Path.home() / ".kube" / "config"
    untouched = before.read_bytes() if before.exists() else None
    assert main.run(["twin", "start"]) == 0
    out, err = capsys.readouterr()
    kubeconfig = tmp_path / "home" / "twins" / "default" / "kubeconfig"
    assert out == f"export KUBECONFIG={kubeconfig}\n"
    assert err.startswith("Starting the twin 'default': done in ")
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    assert stat.S_IMODE(kubeconfig.parent.stat().st_mode) == 0o700
    first = status(capsys)
    assert main.run(["twin", "start"]) == 0
    assert capsys.readouterr().err.startswith("The twin 'default' is running already.")
    assert status(capsys)["pid"] == first["pid"]
    assert main.run(["twin", "start", "--port", "1"]) == 1
    assert f"already runs on port {first['port']}" in capsys.readouterr().err
    assert (before.read_bytes() if before.exists() else None) == untouched


def test_stop_ends_it_and_start_brings_it_back_at_the_same_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["twin", "start", "--speed", "2"]) == 0
    before = status(capsys)
    assert main.run(["twin", "stop"]) == 0
    assert capsys.readouterr().err == "Stopped the twin 'default'.\n"
    assert status(capsys)["state"] == "stopped"
    assert main.run(["twin", "stop"]) == 0
    assert capsys.readouterr().err == "The twin 'default' was not running.\n"
    assert main.run(["twin", "start"]) == 0
    after = status(capsys)
    assert (after["state"], after["port"]) == ("running", before["port"])
    assert after["pid"] != before["pid"]


def test_a_killed_twin_is_seen_as_stopped_and_starts_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["twin", "start"]) == 0
    pid = status(capsys)["pid"]
    os.kill(pid, signal.SIGKILL)
    assert clock.wait_until(lambda: homes.find("default").holder() == 0, 5)
    assert status(capsys)["state"] == "stopped"
    assert main.run(["twin", "start"]) == 0
    assert status(capsys)["state"] == "running"


def test_a_taken_port_is_a_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main.run(["twin", "start", "--port", str(port)]) == 1
        assert capsys.readouterr().err == (
            f"error: port {port} is in use\nhint: choose another --port, or leave it out for any free one\n"
        )
        done = subprocess.run(
            [sys.executable, "-m", "sliceworks", "twin", "start", "--foreground", "--port", str(port)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: cannot listen on 127.0.0.1:{port}")


def test_a_twin_that_cannot_start_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    home = homes.find("default")
    home.create()
    (home.directory / "store.db").write_bytes(b"this is no database" * 100)
    assert main.run(["twin", "start"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: the twin 'default' did not start: ")
    assert err.endswith(f"hint: its log is {home.log}\n")
    assert "Traceback" not in err


def test_a_twin_that_has_no_room_to_say_why_is_spoken_for(monkeypatch: pytest.MonkeyPatch) -> None:
    home = homes.find("default")
    home.create()
    home.log.write_text("")
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=8192))
    assert twins._last_words(home) == ": the disk is full"
    home.log.write_text("error: it is too late\n")
    assert twins._last_words(home) == ": it is too late"


def test_reset_asks_and_forgets(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main.run(["twin", "start", "--memory"]) == 0
    before = status(capsys)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main.run(["twin", "reset"]) == 2
    assert capsys.readouterr().err == "error: there is nobody to ask\nhint: say yes with -y\n"
    token = Path(before["kubeconfig"]).read_text()
    assert main.run(["twin", "reset", "-y"]) == 0
    after = status(capsys)
    assert (after["state"], after["port"], after["memory"]) == ("running", before["port"], True)
    assert Path(after["kubeconfig"]).read_text() != token
    assert main.run(["twin", "stop"]) == 0
    assert main.run(["twin", "reset", "-y"]) == 0
    assert capsys.readouterr().err.endswith("The twin 'default' is empty.\n")
    assert homes.all_homes() == []


def test_what_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("stop", "kubeconfig", "reset", "status"):
        assert main.run(["twin", command, "--name", "nobody"]) == 1
        assert capsys.readouterr().err == "error: there is no twin 'nobody'\nhint: sliceworks twin start --name nobody\n"
    assert main.run(["twin", "status"]) == 0
    assert capsys.readouterr().err == "There are no twins here: sliceworks twin start\n"
    assert main.run(["twin", "status", "-o", "json"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_the_kubeconfig_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    homes.find("default").create()
    assert main.run(["twin", "kubeconfig"]) == 1
    assert "has no kubeconfig yet" in capsys.readouterr().err
    assert main.run(["twin", "start", "--memory", "--quiet"]) == 0
    capsys.readouterr()
    shown = {}
    for form in ("path", "yaml", "json"):
        assert main.run(["twin", "kubeconfig", "-o", form]) == 0
        shown[form] = capsys.readouterr().out
    assert Path(shown["path"].strip()).read_text() == shown["yaml"]
    assert json.loads(shown["json"])["current-context"] in shown["yaml"]


def test_starting_twice_at_once_makes_one(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "sliceworks", "twin", "start", "--memory", "--quiet"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [process.communicate(timeout=60) for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], answers
    assert len({out for out, _ in answers}) == 1
    assert status(capsys)["state"] == "running"
    assert main.run(["twin", "stop"]) == 0
    # Those that came too late have given up: none takes the place that is free now.
    assert not clock.wait_until(lambda: homes.find("default").holder() != 0, 1)


def test_in_the_foreground_it_says_where_it_answers_and_ends_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "sliceworks", "twin", "start", "--foreground", "--memory", "--speed", "10"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert clock.wait_until(lambda: homes.find("default").state().state == "running", 20)
    url = status(capsys)["url"]
    assert process.stderr is not None
    assert process.stderr.readline().startswith(f"The twin 'default' answers at {url}; use it with: export KUBECONFIG=")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 0
    assert status(capsys)["state"] == "stopped"


def test_a_start_that_takes_too_long_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["twin", "start", "--memory", "--timeout", "0.01s"]) == 3
    assert "gave no answer within 0.01 s" in capsys.readouterr().err
    assert not clock.wait_until(lambda: homes.find("default").holder() != 0, 1)


def test_a_variable_names_the_twin_that_is_meant(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEWORKS_TWIN", "elsewhere")
    assert main.run(["twin", "kubeconfig"]) == 1
    assert "'elsewhere'" in capsys.readouterr().err
    assert main.run(["twin", "kubeconfig", "--name", "nobody"]) == 1
    assert "'nobody'" in capsys.readouterr().err
