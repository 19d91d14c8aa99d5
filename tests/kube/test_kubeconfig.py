"""kubeconfig files: merged as kubectl merges them; errors name file and entry."""

from __future__ import annotations

import asyncio
import base64
import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sliceworks.base.errors import InvalidDocument, SliceworksError, UsageError
from sliceworks.kube import kubeconfig
from sliceworks.kube.connection import Certificate, Connection, in_cluster_connection, is_in_cluster

if TYPE_CHECKING:
    from pathlib import Path


def config(user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, name: str = "one") -> dict[str, Any]:
    return {
        "clusters": [{"name": name, "cluster": {"server": "https://h:1/", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "ml"}}],
        "current-context": name,
    }


def write(path: Path, document: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def headers(connection: Connection) -> dict[str, str]:
    return dict(asyncio.run(_headers(connection)))


async def _headers(connection: Connection) -> dict[str, str]:
    return dict(await connection.credentials.headers())


def test_token(tmp_path: Path) -> None:
    connection = kubeconfig.connect(write(tmp_path / "c", config({"token": "t"})))
    assert (connection.server, connection.namespace) == ("https://h:1", "ml")
    assert headers(connection) == {"authorization": "Bearer t"}


def test_basic_authentication_and_impersonation(tmp_path: Path) -> None:
    user = {"username": "u", "password": "p", "as": "robot", "as-groups": ["g"]}
    assert headers(kubeconfig.connect(write(tmp_path / "c", config(user)))) == {
        "authorization": "Basic " + base64.b64encode(b"u:p").decode(),
        "impersonate-user": "robot",
        "impersonate-group": "g",
    }


def test_token_file_is_relative_and_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "sub" / "c", config({"tokenFile": "token", "token": "ignored"}))
    (tmp_path / "sub" / "token").write_text("first\n")

    async def main() -> None:
        credentials = kubeconfig.connect(path).credentials
        assert (await credentials.headers())["authorization"] == "Bearer first"
        (tmp_path / "sub" / "token").write_text("second\n")
        assert (await credentials.headers())["authorization"] == "Bearer first"
        assert await credentials.invalidate()
        assert (await credentials.headers())["authorization"] == "Bearer second"
        assert not await credentials.invalidate()
        assert await credentials.certificate() is None

    asyncio.run(main())


def test_certificates_by_data_and_by_file(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"CA")
    (tmp_path / "key.pem").write_bytes(b"KEY")
    user = {"client-certificate-data": base64.b64encode(b"CERT").decode(), "client-key": "key.pem"}
    cluster = {"certificate-authority": str(tmp_path / "ca.pem"), "tls-server-name": "name", "proxy-url": "http://p:1"}
    connection = kubeconfig.connect(write(tmp_path / "c", config(user, {**cluster, "disable-compression": True})))
    assert connection.ca == b"CA"
    assert (connection.tls_server_name, connection.proxy_url, connection.compress) == ("name", "http://p:1", False)
    assert asyncio.run(_certificate(connection)) == Certificate(b"CERT", b"KEY")


async def _certificate(connection: Connection) -> Certificate | None:
    return await connection.credentials.certificate()


def test_files_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    first, second = config({"token": "1"}), config({"token": "2"})
    first.pop("current-context")
    second["contexts"].append({"name": "other", "context": {"cluster": "one"}})
    paths = [tmp_path / "missing", write(tmp_path / "a", first), write(tmp_path / "b", second)]
    loaded = kubeconfig.load(environ={"KUBECONFIG": os.pathsep.join(map(str, paths))})
    assert loaded.files == (paths[1], paths[2])
    assert loaded.current_context == "one"
    assert headers(loaded.connection()) == {"authorization": "Bearer 1"}
    assert headers(loaded.connection("other")) == {}
    assert loaded.connection("other").namespace == "default"


def test_home_directory_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kubeconfig.load(environ={}).files == ()
    write(tmp_path / ".kube" / "config", config({"token": "home"}))
    assert headers(kubeconfig.load(environ={}).connection()) == {"authorization": "Bearer home"}


def test_user_without_a_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 1_000_690_000)
    assert kubeconfig.load(environ={}).files == ()


def test_missing_configuration_has_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SliceworksError, match="no cluster is configured"):
        kubeconfig.connect()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (config({"auth-provider": {"name": "gcp"}}), 'user "one": auth-provider gcp is no longer supported by Kubernetes'),
        (config(cluster={"server": ""}), 'cluster "one": server is required'),
        (
            config(cluster={"insecure-skip-tls-verify": True, "certificate-authority-data": "QQ=="}),
            "certificate-authority and insecure-skip-tls-verify are mutually exclusive",
        ),
        (config(cluster={"certificate-authority-data": "%"}), '"one": certificate-authority-data is not valid base64'),
        (
            config(cluster={"certificate-authority": "gone.pem"}),
            "cannot read certificate-authority file .*gone.pem: No such file",
        ),
        (config({"client-certificate-data": "QQ=="}), 'user "one": client-key is required'),
        (config({"token": 5}), '"one": token must be a string'),
        (config({"as": "a", "as-groups": ["g", "h"]}), "as-groups must have at most one group, got 2"),
        (config({"exec": {"args": []}}), 'user "one": exec.command is required'),
        (
            config({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
            "exec.apiVersion .* is not supported",
        ),
        (config({"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}), "exec.interactiveMode must be"),
        ({**config(), "users": []}, 'context "one": user "one" does not exist'),
        ({**config(), "contexts": [{"name": "one", "context": {}}]}, 'context "one": cluster is required'),
        ({**config(), "clusters": "x"}, "clusters must be a list"),
        ({**config(), "clusters": [{}]}, "clusters: every entry needs a name"),
        ({**config(), "users": [{"name": "one", "user": "x"}]}, 'user "one" must be a map'),
    ],
)
def test_invalid_entries_are_rejected(tmp_path: Path, document: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "c", document)
    with pytest.raises(SliceworksError, match=message) as refusal:
        kubeconfig.connect(path)
    assert "\n" not in str(refusal.value)


def test_unknown_contexts_are_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "c", config())
    with pytest.raises(UsageError, match=r'context "two" does not exist in .*/c') as refusal:
        kubeconfig.connect(path, "two")
    assert refusal.value.hint == "known contexts: one"
    with pytest.raises(UsageError, match="current-context is not set in"):
        kubeconfig.connect(write(tmp_path / "d", {**config(), "current-context": ""}))


@pytest.mark.parametrize(("text", "place"), [("a: [", ":2"), ("- x", ":1"), ("a: b: c", ":1")])
def test_invalid_files_are_rejected(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "c"
    path.write_text(text)
    with pytest.raises(InvalidDocument) as refusal:
        kubeconfig.connect(path)
    assert refusal.value.place == f"{path}{place}"


def test_given_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(SliceworksError, match=r"cannot read kubeconfig .*/gone: No such file or directory"):
        kubeconfig.connect(tmp_path / "gone")


def test_rendered_kubeconfig_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_text(kubeconfig.render(name="twin", server="https://127.0.0.1:6443", token="t", ca=b"PEM", namespace="ml"))
    connection = kubeconfig.connect(path, "twin")
    assert (connection.server, connection.ca, connection.namespace) == ("https://127.0.0.1:6443", b"PEM", "ml")
    assert headers(connection) == {"authorization": "Bearer t"}


def test_in_cluster_connection(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert not is_in_cluster(environ, tmp_path)
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(b"CA")
    assert is_in_cluster(environ, tmp_path)
    connection = in_cluster_connection(environ, tmp_path)
    assert (connection.server, connection.ca, connection.namespace) == ("https://10.0.0.1:443", b"CA", "default")
    assert headers(connection) == {"authorization": "Bearer t"}
    (tmp_path / "namespace").write_text("ml\n")
    assert in_cluster_connection({**environ, "KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path).server == "https://[fd00::1]:443"
    assert in_cluster_connection(environ, tmp_path).namespace == "ml"
    with pytest.raises(SliceworksError, match="not running in a pod"):
        in_cluster_connection({}, tmp_path)
    (tmp_path / "token").write_text("")
    with pytest.raises(SliceworksError, match=r"token file .* is empty"):
        headers(in_cluster_connection(environ, tmp_path))
