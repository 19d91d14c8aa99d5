"""Credentials from exec plugins: cached until they expire or are rejected."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml

from sliceworks.base.errors import SliceworksError
from sliceworks.kube import kubeconfig
from sliceworks.kube.connection import Certificate, Credentials

if TYPE_CHECKING:
    from pathlib import Path

V1 = "client.authentication.k8s.io/v1"
COUNTING = """
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
calls = here / "calls"
calls.write_text(calls.read_text() + "x" if calls.exists() else "x")
(here / "info").write_text(os.environ["KUBERNETES_EXEC_INFO"])
status = json.loads((here / "status").read_text())
if "token" in status:
    status["token"] += str(len(calls.read_text())) + os.environ.get("EXTRA", "") + "".join(sys.argv[1:])
version = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["apiVersion"]
print(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))
"""


def plugin(folder: Path, status: dict[str, Any], script: str = COUNTING, **spec: Any) -> Credentials:
    (folder / "plugin.py").write_text(script)
    (folder / "status").write_bytes(orjson.dumps(status))
    command = {"command": sys.executable, "args": [str(folder / "plugin.py"), *spec.pop("args", [])]}
    user = {"exec": {"apiVersion": V1, "interactiveMode": "Never", **command, **spec}}
    document = {
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": "https://h",
                    "certificate-authority-data": "Q0E=",
                    "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
                },
            }
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return kubeconfig.connect(path).credentials


async def token(credentials: Credentials) -> str:
    return (await credentials.headers())["authorization"].removeprefix("Bearer ")


def test_token_is_cached_until_it_is_rejected(tmp_path: Path) -> None:
    async def main() -> None:
        credentials = plugin(tmp_path, {"token": "t"})
        first, second = await asyncio.gather(token(credentials), token(credentials))
        assert first == second == "t1"
        assert await credentials.invalidate()
        assert await token(credentials) == "t2"
        assert await credentials.certificate() is None

    asyncio.run(main())


def test_token_is_cached_until_it_expires(tmp_path: Path) -> None:
    async def main(expires: str) -> str:
        credentials = plugin(tmp_path, {"token": "t", "expirationTimestamp": expires})
        await token(credentials)
        return await token(credentials)

    assert asyncio.run(main("2199-01-01T00:00:00Z")) == "t1"
    assert asyncio.run(main("2020-01-01T00:00:00Z")) == "t3"


def test_plugin_receives_cluster_info(tmp_path: Path) -> None:
    credentials = plugin(tmp_path, {"token": "t"}, args=["-arg"], env=[{"name": "EXTRA", "value": "-env"}], provideClusterInfo=True)
    assert asyncio.run(token(credentials)) == "t1-env-arg"
    assert orjson.loads((tmp_path / "info").read_bytes()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {"server": "https://h", "certificate-authority-data": "Q0E=", "config": {"audience": "a"}},
        },
    }


def test_v1beta1_needs_no_interactive_mode(tmp_path: Path) -> None:
    credentials = plugin(tmp_path, {"token": "t"}, apiVersion="client.authentication.k8s.io/v1beta1", interactiveMode=None)
    assert asyncio.run(token(credentials)) == "t1"
    assert "cluster" not in orjson.loads((tmp_path / "info").read_bytes())["spec"]


def test_plugin_may_return_a_certificate(tmp_path: Path) -> None:
    async def main() -> None:
        credentials = plugin(tmp_path, {"clientCertificateData": "CERT", "clientKeyData": "KEY"})
        assert await credentials.certificate() == Certificate(b"CERT", b"KEY")
        assert await credentials.headers() == {}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("print('hello')", "did not print an ExecCredential with a status"),
        ("print('{}')", "did not print an ExecCredential with a status"),
        ("import sys; print('log in first', file=sys.stderr); sys.exit(3)", "failed with exit code 3: log in first"),
        ('print(\'{"apiVersion": "x", "status": {"token": "t"}}\')', "returned apiVersion x, expected"),
        (f'print(\'{{"apiVersion": "{V1}", "status": {{}}}}\')', "returned neither a token nor a client certificate"),
    ],
)
def test_plugin_failure_is_reported(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(SliceworksError, match=message) as refusal:
        asyncio.run(token(plugin(tmp_path, {}, script)))
    assert "\n" not in str(refusal.value)


def test_missing_plugin_shows_its_install_hint(tmp_path: Path) -> None:
    credentials = plugin(tmp_path, {}, command="gke-gcloud-auth-plugin-gone", installHint="Install it so.\n")
    with pytest.raises(SliceworksError, match="cannot run credential plugin gke-gcloud-auth-plugin-gone: No such file") as refusal:
        asyncio.run(token(credentials))
    assert refusal.value.hint == "Install it so."


def test_interactive_plugin_needs_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SliceworksError, match="needs a terminal for input, but stdin is not a terminal"):
        asyncio.run(token(plugin(tmp_path, {}, interactiveMode="Always")))


def test_cancellation_while_the_plugin_exits_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended:
        """uvloop cannot kill an exited process, whose output another process may still hold open."""

        async def communicate(self) -> None:
            await asyncio.get_running_loop().create_future()

        def kill(self) -> None:
            raise ProcessLookupError

        async def wait(self) -> int:
            return 0

    async def start(*_: Any, **__: Any) -> Ended:
        return Ended()

    async def main() -> bool:
        asking = asyncio.create_task(token(plugin(tmp_path, {"token": "t"})))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        return asking.cancelled()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    assert asyncio.run(main())
