"""The commands of the gateway: a key, a check of a document, and the echo model as a program."""

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


def test_a_key_and_its_digest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gateway", "key"]) == 0
    printed = capsys.readouterr().out
    key, digest = re.findall(r": +(\S+)", printed)
    assert key.startswith("sw-")
    assert hashlib.sha256(key.encode()).hexdigest() == digest


def test_a_document_is_checked_and_nothing_is_served(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    document = "examples/gateways/two-models.yaml"
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("ADMIN_KEY", "x")
    assert run(["gateway", "run", "--check", "-f", document]) == 0
    assert capsys.readouterr().err == f"{document} is good: 2 models, 2 backends, 2 keys\n"
    monkeypatch.delenv("ADMIN_KEY")
    assert run(["gateway", "run", "--check", "-f", document]) == 1
    assert capsys.readouterr().err == "error: the variable ADMIN_KEY: the secret is not set\n"
    monkeypatch.setenv("ADMIN_KEY", "")
    assert run(["gateway", "run", "--check", "-f", document]) == 1
    assert capsys.readouterr().err == "error: the variable ADMIN_KEY: the secret is empty\n"


def test_a_port_that_is_taken_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["gateway", "echo", "--port", str(port)]) == 1
    hint = "hint: choose another one, or end what listens there\n"
    assert capsys.readouterr().err == f"error: port {port} of 127.0.0.1 is in use\n{hint}"


@pytest.mark.parametrize(
    ("listen", "told"),
    [
        ("{port: 0, grpcPort: PORT}", "nothing can listen at 127.0.0.1:PORT for gRPC: is the port in use?"),
        ("{port: 0, host: 999.1.1.1}", "listen.host '999.1.1.1': "),
        ("{port: 0, tls: {certificate: none.crt, key: none.key}}", "none.crt: the certificate cannot be used"),
        ("{port: 0, tls: {certificate: /dev/null, key: /dev/null}}", "/dev/null: the certificate cannot be used: it must be PEM"),
        ("{port: 9, host: 192.0.2.1}", "192.0.2.1 is no address of this machine"),
        ("{port: PORT, grpcPort: PORT}", "FILE:4: spec: listen.port and listen.grpcPort are both PORT"),
        ("{port: 8080}, admin: {port: 8080}", "FILE:4: spec: listen.port and admin.port are both 8080"),
    ],
)
def test_a_place_where_nothing_can_listen_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], listen: str, told: str
) -> None:
    head = "apiVersion: sliceworks.dev/v1alpha1\nkind: Gateway\nmetadata: {name: g}\n"
    models = "models: [{name: m, backends: [{kind: echo, url: 'http://127.0.0.1:1'}]}]"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        file = tmp_path / "gateway.yaml"
        file.write_text(f"{head}spec: {{anonymous: true, listen: {listen.replace('PORT', port)}, {models}}}\n")
        assert run(["gateway", "run", "-f", str(file)]) == 1
    assert f"error: {told.replace('PORT', port).replace('FILE', str(file))}" in capsys.readouterr().err


def test_the_echo_model_is_a_program() -> None:
    command = [sys.executable, "-m", "sliceworks", "gateway", "echo", "--port", "0", "--model", "m"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = process.stderr.readline().strip().rpartition(" ")[2]
        body = orjson.dumps({"model": "m", "prompt": "hello"})
        with urllib.request.urlopen(f"{url}/v1/completions", body, timeout=10) as answer:
            assert orjson.loads(answer.read())["choices"][0]["text"] == "hello"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
