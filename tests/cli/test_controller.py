"""`controller run`: errors at start-up are one line, and `--twin` selects a twin and a cluster of its cloud."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import NotFound, SliceworksError, Unreachable, UsageError, root_error
from sliceworks.cli import connections, main
from sliceworks.cloud import metadata_server
from sliceworks.controllers.slices.settings import Settings
from sliceworks.kube.client import Client
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

_OFF = ("--metrics-bind-address", "0", "--health-probe-bind-address", "0")
DEFAULT = Settings("twin", "us-central1", "twin", zones=("us-central1-a",))


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kubeconfig of a cluster that does not answer, and no settings of Google's."""
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path / "home"))
    for name in ("GCP_PROJECT_ID", "GCP_CLUSTER", "GCP_CLUSTER_LOCATION", "GCP_ZONE"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "config"
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n"
    )
    return str(file)


def test_missing_settings_of_slices_are_one_line(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def no_metadata() -> metadata_server.InstanceMetadata:
        return metadata_server.InstanceMetadata()

    monkeypatch.setattr(metadata_server, "read_metadata", no_metadata)
    assert main.run(["controller", "run", "slices", "--kubeconfig", kubeconfig, *_OFF]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("error:", "hint:"))]
    assert errors == [
        "error: cluster not configured: GCP_PROJECT_ID, GCP_CLUSTER_LOCATION, GCP_CLUSTER not set",
        "hint: set them, use --twin, or run only the other controllers",
    ]


def test_unreachable_cluster_is_one_line(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["controller", "run", "graphs", "--kubeconfig", kubeconfig, *_OFF]) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert "http://127.0.0.1:1" in errors[0]
    assert "unexpected" not in errors[0]


def test_root_error_of_a_group() -> None:
    known, other = Unreachable("a"), NotFound("b")
    assert root_error(known) is known
    assert root_error(ExceptionGroup("x", [ExceptionGroup("y", [known]), other])) is known
    bug = TypeError("c")
    assert root_error(ExceptionGroup("x", [known, ExceptionGroup("y", [bug])])) is bug


def test_twin_takes_a_name(kubeconfig: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SLICEWORKS_TWIN", "usual")
    for arguments in (["slices", "list"], ["queues", "list"], ["controller", "run", "graphs"]):
        main.run([*arguments, "--twin=other"])
        assert "twin 'other' is not running" in capsys.readouterr().err, arguments
        assert os.environ["SLICEWORKS_TWIN"] == "usual"
    assert main.run(["slices", "list", "--twin"]) == 1
    assert "twin 'usual' is not running" in capsys.readouterr().err
    assert main.run(["slices", "list", "--twin="]) == 2
    assert "the name of the twin is missing" in capsys.readouterr().err
    assert main.run(["slices", "list", "--twin=No_Name"]) == 2


def test_a_mistyped_cluster_is_not_created() -> None:
    async def work() -> None:
        async with Cluster() as cluster:
            client = Client(cluster.transport())
            mistyped = Settings("twin", "us-central1", "other", zones=("us-central1-a",))
            with pytest.raises(SliceworksError, match="clusters/other not found in the twin's cloud"):
                await connections.choose_twin_cluster(client, mistyped)
            assert cluster.store.count("cloud.container/clusters") == 0
            assert await connections.choose_twin_cluster(client, DEFAULT) == DEFAULT
            assert cluster.store.count("cloud.container/clusters") == 1
            with pytest.raises(SliceworksError) as caught:
                await connections.choose_twin_cluster(client, mistyped)
            assert caught.value.hint == "clusters: projects/twin/locations/us-central1/clusters/twin"
            assert await connections.choose_twin_cluster(client, DEFAULT) == DEFAULT
            assert cluster.store.count("cloud.container/clusters") == 1

    clock.run(work(), virtual=True)


def test_the_first_cluster_can_be_at_any_location() -> None:
    async def work() -> None:
        async with Cluster() as cluster:
            settings = Settings("p", "us-central2", "twin", zones=("us-central2-b",))
            assert await connections.choose_twin_cluster(Client(cluster.transport()), settings) == settings
            assert cluster.store.count("cloud.container/clusters") == 1

    clock.run(work(), virtual=True)


def test_the_only_cluster_of_the_cloud_is_the_default() -> None:
    async def work() -> None:
        async with Cluster() as cluster:
            place = {"project": "p", "location": "us-east1", "name": "training"}
            cluster.cloud.services["container"].configure({"clusters": [place]})
            result = await connections.choose_twin_cluster(Client(cluster.transport()), DEFAULT)
            assert (result.project, result.location, result.cluster, result.zones) == ("p", "us-east1", "training", ("us-east1-b",))
            # Without the name of the cluster, the project and the location must be those of the cluster, if they are set.
            partial = Settings("p", "us-east1", "twin", zones=("us-east1-c",))
            result = await connections.choose_twin_cluster(Client(cluster.transport()), partial)
            assert (result.cluster, result.zones) == ("training", ("us-east1-c",))
            with pytest.raises(SliceworksError, match="not found in the twin's cloud"):
                await connections.choose_twin_cluster(Client(cluster.transport()), Settings("p", "us-west1", "twin"))

    clock.run(work(), virtual=True)


def test_a_second_environment_is_refused_with_a_reason() -> None:
    async def work() -> None:
        async with Cluster() as cluster:
            client = Client(cluster.transport())
            await connections.require_only_cluster(client, "p", "us-east1", "training")
            place = {"project": "p", "location": "us-east1", "name": "training"}
            cluster.cloud.services["container"].configure({"clusters": [place]})
            await connections.require_only_cluster(client, "p", "us-east1", "training")
            with pytest.raises(SliceworksError, match="already has the cluster projects/p/locations/us-east1/clusters/training"):
                await connections.require_only_cluster(client, "p", "us-east1", "serving")

    clock.run(work(), virtual=True)


def test_usage_error_keeps_its_exit_code() -> None:
    assert root_error(ExceptionGroup("x", [UsageError("a")])).exit_code == 2  # type: ignore[attr-defined]
