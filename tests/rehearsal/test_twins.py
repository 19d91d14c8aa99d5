"""Twins as processes: started, found, stopped, killed and reset through the command line."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import signal
import socket
import sqlite3
import ssl
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

import pytest

from sliceworks.base import clock
from sliceworks.cli import main
from sliceworks.platform import twin_home, twin_process
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.store import Store

pytestmark = pytest.mark.usefixtures("own_home")


def status(capsys: pytest.CaptureFixture[str], name: str = "default") -> dict[str, Any]:
    capsys.readouterr()
    assert main.run(["twin", "status", "--name", name, "-o", "json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)[0]
    return result


def test_start_prints_usage_and_is_idempotent(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before = Path.home() / ".kube" / "config"
    untouched = before.read_bytes() if before.exists() else None
    assert main.run(["twin", "start"]) == 0
    out, err = capsys.readouterr()
    kubeconfig = tmp_path / "home" / "twins" / "default" / "kubeconfig"
    assert out == f"export KUBECONFIG={kubeconfig}\n"
    assert err.startswith("Starting twin 'default': done in ")
    assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
    assert stat.S_IMODE(kubeconfig.parent.stat().st_mode) == 0o700
    first = status(capsys)
    assert main.run(["twin", "start"]) == 0
    assert capsys.readouterr().err.startswith("Twin 'default' is already running.")
    assert status(capsys)["pid"] == first["pid"]
    assert main.run(["twin", "start", "--port", "1"]) == 1
    assert f"already runs on port {first['port']}" in capsys.readouterr().err
    assert (before.read_bytes() if before.exists() else None) == untouched


def test_stopped_twin_restarts_at_the_same_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["twin", "start", "--speed", "2"]) == 0
    before = status(capsys)
    assert main.run(["twin", "stop"]) == 0
    assert capsys.readouterr().err == "Stopped twin 'default'.\n"
    assert status(capsys)["state"] == "stopped"
    assert main.run(["twin", "stop"]) == 0
    assert capsys.readouterr().err == "Twin 'default' is not running.\n"
    assert main.run(["twin", "start"]) == 0
    after = status(capsys)
    assert (after["state"], after["port"]) == ("running", before["port"])
    assert after["pid"] != before["pid"]


def test_twin_without_controllers_stays_without_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["twin", "start", "--without", "scheduler"]) == 2
    assert "did you mean kube-scheduler?" in capsys.readouterr().err
    assert main.run(["twin", "start", "--without", "jobset,kueue"]) == 0
    assert main.run(["twin", "stop"]) == 0
    assert main.run(["twin", "start"]) == 0
    assert status(capsys)["without"] == ["jobset", "kueue"]
    assert main.run(["twin", "start", "--without", "jobset"]) == 1
    assert "twin 'default' already runs with --without jobset,kueue" in capsys.readouterr().err
    assert main.run(["twin", "status"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert (header.split()[-1], row.split()[-1]) == ("WITHOUT", "jobset,kueue")
    assert main.run(["twin", "stop"]) == 0
    assert main.run(["twin", "start", "--without", ""]) == 0
    assert status(capsys)["without"] == []


def test_killed_twin_is_stopped_and_restarts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["twin", "start"]) == 0
    pid = status(capsys)["pid"]
    os.kill(pid, signal.SIGKILL)
    assert clock.wait_until(lambda: twin_home.find("default").owner_pid() == 0, 90)
    assert status(capsys)["state"] == "stopped"
    assert main.run(["twin", "start"]) == 0
    assert status(capsys)["state"] == "running"


_BLOCKED_TWIN = """
import contextlib, dataclasses, shutil, threading
from sliceworks.platform import controller_host, twin_home, twin_process

@contextlib.asynccontextmanager
async def block(cluster):
    directory = twin_home.find("default").directory
    shutil.copy(directory / "ready.json", directory / "blocked.part").rename(directory / "blocked.json")
    threading.Event().wait()
    yield

def without_timeout(home, settings):
    return command(home, dataclasses.replace(settings, watchdog_timeout=0.0))

controller_host.run_installed = block
command, twin_process._command = twin_process._command, without_timeout
twin_process.run_foreground(twin_home.find("default"), twin_home.Settings(watchdog_timeout=0.2))
"""


def test_blocked_twin_restarts_itself_with_its_objects_and_ports() -> None:
    home = twin_home.find("default")
    home.create()
    blocked_file = home.directory / "blocked.json"

    def is_restarted() -> bool:
        state = home.state()
        return (
            state.state == "running" and blocked_file.exists() and state.started != json.loads(blocked_file.read_text())["started"]
        )

    with home.log.open("wb") as log, subprocess.Popen([sys.executable, "-c", _BLOCKED_TWIN], stdout=log, stderr=log) as process:
        try:
            assert clock.wait_until(is_restarted, 120)
            restarted, blocked = home.state(), json.loads(blocked_file.read_text())
            assert (restarted.pid, restarted.port, restarted.cloud_port) == (blocked["pid"], blocked["port"], blocked["cloud_port"])
            assert "restarting the process" in home.log.read_text()
            tls = ssl.create_default_context(cadata=home.directory.joinpath("ca.pem").read_text())
            headers = {"Authorization": f"Bearer {home.token.read_text()}"}
            request = UrlRequest(f"{restarted.url}/api/v1/namespaces/default", headers=headers)
            with urlopen(request, context=tls, timeout=60) as response:
                assert response.status == 200
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_isolation_requires_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["twin", "start", "--isolate"]) == 2
    assert capsys.readouterr().err.startswith("error: --isolate: requires --processes\n")
    assert not twin_home.find("default").exists


def test_port_in_use_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main.run(["twin", "start", "--port", str(port)]) == 1
        assert capsys.readouterr().err == (
            f"error: port {port} is in use\nhint: choose another --port, or omit it to use any free port\n"
        )
        done = subprocess.run(
            [sys.executable, "-m", "sliceworks", "twin", "start", "--foreground", "--port", str(port)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: cannot listen on 127.0.0.1:{port}")


def test_failed_start_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    home = twin_home.find("default")
    home.create()
    (home.directory / "store.db").write_bytes(b"not a database" * 100)
    assert main.run(["twin", "start"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: twin 'default' did not start: ")
    assert err.endswith(f"hint: its log is {home.log}\n")
    assert "Traceback" not in err


def test_failed_start_without_log_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    home = twin_home.find("default")
    home.create()
    home.log.write_text("")
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=8192))
    assert twin_process._log_tail(home) == ": the disk is full"
    home.log.write_text("error: it is too late\n")
    assert twin_process._log_tail(home) == ": it is too late"


def test_reset_prompts_and_deletes_data(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main.run(["twin", "start", "--memory"]) == 0
    before = status(capsys)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main.run(["twin", "reset"]) == 2
    reported = capsys.readouterr().err
    assert reported.startswith(
        "error: stdin is not a terminal; pass --yes to confirm\nhint: to be confirmed: Delete everything in "
    )
    token = Path(before["kubeconfig"]).read_text()
    assert main.run(["twin", "reset", "-y"]) == 0
    after = status(capsys)
    assert (after["state"], after["port"], after["memory"]) == ("running", before["port"], True)
    assert Path(after["kubeconfig"]).read_text() != token
    assert main.run(["twin", "stop"]) == 0
    assert main.run(["twin", "reset", "-y"]) == 0
    assert capsys.readouterr().err.endswith("Twin 'default' is empty.\n")
    assert twin_home.list_homes() == []


def test_name_of_a_twin_after_a_space_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    (twin_home.find("demo").directory).mkdir(parents=True)
    assert main.run(["models", "list", "--twin", "demo"]) == 2
    assert "hint: to use the twin demo, write --twin=demo" in capsys.readouterr().err
    assert main.run(["models", "list", "--twin", "unknown"]) == 2
    assert "hint: sliceworks models list --help" in capsys.readouterr().err


def test_missing_twin_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("stop", "kubeconfig", "reset", "status"):
        assert main.run(["twin", command, "--name", "missing"]) == 1
        assert capsys.readouterr().err == "error: twin 'missing' not found\nhint: sliceworks twin start --name missing\n"
    assert main.run(["twin", "status"]) == 0
    assert capsys.readouterr().err == "No twins found. Create one: sliceworks twin start\n"
    assert main.run(["twin", "status", "-o", "json"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_kubeconfig_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    twin_home.find("default").create()
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


def test_concurrent_starts_create_one_twin(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "sliceworks", "twin", "start", "--memory", "--quiet"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], answers
    assert len({out for out, _ in answers}) == 1
    assert status(capsys)["state"] == "running"
    assert main.run(["twin", "stop"]) == 0
    # The processes that lost the race have exited: none of them takes the free lock.
    assert not clock.wait_until(lambda: twin_home.find("default").owner_pid() != 0, 1)


def test_foreground_twin_prints_its_address_and_stops_cleanly(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "sliceworks", "twin", "start", "--foreground", "--memory", "--speed", "10"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert clock.wait_until(lambda: twin_home.find("default").state().state == "running", 120)
    url = status(capsys)["url"]
    assert process.stderr is not None
    assert process.stderr.readline().startswith(f"Twin 'default' is ready at {url}; use it with: export KUBECONFIG=")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=120) == ("", "")
    assert process.returncode == 0
    assert status(capsys)["state"] == "stopped"


def test_start_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["twin", "start", "--memory", "--timeout", "0.01s"]) == 3
    assert "was not ready within 0.01 s" in capsys.readouterr().err
    assert not clock.wait_until(lambda: twin_home.find("default").owner_pid() != 0, 1)


def test_environment_variable_selects_the_twin(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLICEWORKS_TWIN", "elsewhere")
    assert main.run(["twin", "kubeconfig"]) == 1
    assert "'elsewhere'" in capsys.readouterr().err
    assert main.run(["twin", "kubeconfig", "--name", "missing"]) == 1
    assert "'missing'" in capsys.readouterr().err


def test_gcloud_reaches_the_twin_and_its_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["twin", "start", "--memory", "--quiet"]) == 0
    try:
        capsys.readouterr()
        assert main.run(["twin", "env", "--gcloud"]) == 0
        exports = dict(line.removeprefix("export ").split("=", 1) for line in capsys.readouterr().out.splitlines())
        token = Path(exports["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"]).read_text().strip()
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        # What `gcloud container clusters create-auto` and `get-credentials` send, and what kubectl then uses.
        container = exports["CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER"]
        parent = f"{container}v1/projects/my-project/locations/us-central1/clusters"
        body = json.dumps({"cluster": {"name": "c", "autopilot": {"enabled": True}}}).encode()
        with urlopen(UrlRequest(parent, body, headers)) as response:
            assert response.status == 200
        with urlopen(UrlRequest(f"{parent}/c", headers=headers)) as response:
            cluster = json.loads(response.read())
        authority = base64.b64decode(cluster["masterAuth"]["clusterCaCertificate"]).decode()
        trusted = ssl.create_default_context(cadata=authority)
        with urlopen(UrlRequest(f"https://{cluster['endpoint']}/api/v1/namespaces", headers=headers), context=trusted) as response:
            assert "default" in response.read().decode()
        storage = exports["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"]
        bundle = f"{storage}b/configconnector-operator/o/latest%2Frelease-bundle.tar.gz"
        with urlopen(UrlRequest(bundle, headers=headers)) as response:
            assert json.loads(response.read())["name"] == "latest/release-bundle.tar.gz"
    finally:
        main.run(["twin", "stop", "--quiet"])


def test_environment_of_a_stopped_twin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["twin", "env", "--name", "nowhere"]) == 1
    assert "twin 'nowhere' not found" in capsys.readouterr().err


def test_backup_of_a_running_twin_is_restored_into_another(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main.run(["twin", "start", "--no-workloads"]) == 0
    home, file = twin_home.find("default"), tmp_path / "twin.tar.gz"
    assert main.run(["twin", "backup", str(file)]) == 0
    assert "Keep it secret" in capsys.readouterr().err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert main.run(["twin", "restore", str(file), "-y"]) == 1
    assert capsys.readouterr().err == "error: twin 'default' is running\nhint: sliceworks twin stop --name default\n"
    assert main.run(["twin", "recover"]) == 1
    assert main.run(["twin", "stop"]) == 0
    capsys.readouterr()
    assert main.run(["twin", "restore", str(file), "--name", "copy"]) == 0
    assert "objects of twin 'copy'." in capsys.readouterr().err
    copy = twin_home.find("copy")
    for name in ("token", "ca.pem"):
        assert (copy.directory / name).read_bytes() == (home.directory / name).read_bytes()
    assert main.run(["twin", "start", "--name", "copy", "--no-workloads"]) == 0
    assert main.run(["twin", "stop", "--name", "copy"]) == 0


def test_damaged_store_and_backup_are_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    home = twin_home.find("default")
    home.create()

    async def fill() -> None:
        store = Store(Journal(home.directory / "store.db"))
        for name in ("a", "b"):
            store.put("/configmaps", "default", name, {"metadata": {"name": name, "namespace": "default"}})
        await store.wait_durable()
        store.close()

    clock.run(fill(), virtual=True)
    assert main.run(["twin", "recover"]) == 0
    assert capsys.readouterr().err == "The store of twin 'default' is intact.\n"
    db = sqlite3.connect(home.directory / "store.db")
    db.execute("UPDATE log SET data = x'7b' WHERE name = 'a'")
    db.commit()
    db.close()
    file = tmp_path / "twin.tar.gz"
    assert main.run(["twin", "backup", str(file)]) == 0
    capsys.readouterr()
    assert main.run(["twin", "restore", str(file), "-y"]) == 1
    error = "the backup is damaged: the store is damaged: revision 2 of /configmaps default/a has a wrong checksum"
    assert capsys.readouterr().err == f"error: {file}: {error}\n"
    assert main.run(["twin", "recover"]) == 0
    out, err = capsys.readouterr()
    assert out == "/configmaps default/a: lost\n"
    assert err == f"Kept 1 object. The damaged store is now {home.directory / 'store.db.damaged-1'}.\n"
    for content in (b"", b"not an archive"):
        file.write_bytes(content)
        assert main.run(["twin", "restore", str(file), "-y"]) == 1
        assert capsys.readouterr().err.startswith(f"error: {file}: not a backup of a twin: ")
