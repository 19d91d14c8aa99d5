"""The gateway commands: keys, document checks, and the echo model as a process."""

from __future__ import annotations

import hashlib
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import orjson
import pytest

from sliceworks.cli.main import run

ROOT = Path(__file__).parents[2]


def test_key_command_prints_key_and_digest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gateway", "key"]) == 0
    printed = capsys.readouterr().out
    key, digest = re.findall(r": +(\S+)", printed)
    assert key.startswith("sw-")
    assert hashlib.sha256(key.encode()).hexdigest() == digest


def test_check_does_not_serve(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    document = "examples/gateways/two-models.yaml"
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("ADMIN_KEY", "x")
    assert run(["gateway", "run", "--check", "-f", document]) == 0
    assert capsys.readouterr().err == f"{document} is valid: 2 models, 2 backends, 2 keys\n"
    monkeypatch.delenv("ADMIN_KEY")
    assert run(["gateway", "run", "--check", "-f", document]) == 1
    assert capsys.readouterr().err == "error: environment variable ADMIN_KEY: the secret is not set\n"
    monkeypatch.setenv("ADMIN_KEY", "")
    assert run(["gateway", "run", "--check", "-f", document]) == 1
    assert capsys.readouterr().err == "error: environment variable ADMIN_KEY: the secret is empty\n"


def test_port_in_use_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["gateway", "echo", "--port", str(port)]) == 1
    hint = "hint: choose another port, or stop the process that uses it\n"
    assert capsys.readouterr().err == f"error: 127.0.0.1:{port}: address already in use\n{hint}"


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("{port: 0, grpcPort: PORT}", "cannot listen on 127.0.0.1:PORT for gRPC; the port may be in use"),
        ("{port: 0, host: 999.1.1.1}", "listen.host: cannot resolve '999.1.1.1': "),
        (
            "{port: 0, tls: {certFile: none.crt, keyFile: none.key}}",
            "none.crt: cannot load the certificate with the key none.key: No such file or directory",
        ),
        (
            "{port: 0, tls: {certFile: /dev/null, keyFile: /dev/null}}",
            "/dev/null: cannot load the certificate with the key /dev/null",
        ),
        ("{port: 9, host: 192.0.2.1}", "192.0.2.1 is not an address of this machine"),
        ("{port: PORT, grpcPort: PORT}", "FILE:4: spec: listen.port and listen.grpcPort must differ, both are PORT"),
        ("{port: 8080}, admin: {port: 8080}", "FILE:4: spec: listen.port and admin.port must differ, both are 8080"),
    ],
)
def test_invalid_listen_address_is_a_one_line_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], listen: str, expected: str
) -> None:
    head = "apiVersion: sliceworks.dev/v1alpha1\nkind: Gateway\nmetadata: {name: g}\n"
    models = "models: [{name: m, backends: [{kind: echo, url: 'http://127.0.0.1:1'}]}]"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        file = tmp_path / "gateway.yaml"
        file.write_text(f"{head}spec: {{anonymous: true, listen: {listen.replace('PORT', port)}, {models}}}\n")
        assert run(["gateway", "run", "-f", str(file)]) == 1
    assert f"error: {expected.replace('PORT', port).replace('FILE', str(file))}" in capsys.readouterr().err


def test_echo_model_runs_as_a_process() -> None:
    command = [sys.executable, "-m", "sliceworks", "gateway", "echo", "--port", "0", "--model", "m"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = process.stderr.readline().strip().rpartition(" ")[2]
        body = orjson.dumps({"model": "m", "prompt": "hello"})
        with urllib.request.urlopen(f"{url}/v1/completions", body, timeout=60) as response:
            assert orjson.loads(response.read())["choices"][0]["text"] == "hello"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
