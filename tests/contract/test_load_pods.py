"""Rows of a load-test pod are read unchanged and only with its token: through a real API server, and directly on a twin."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.real.processes import free_port
from tests.support.echo_server import run_echo_server
from tests.support.load_tests import spec

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.kube import open_client
from sliceworks.kube.resources import POD
from sliceworks.loadtest import load_plan, runner
from sliceworks.loadtest.cluster.collector import TOKEN_HEADER, Collector
from sliceworks.loadtest.request_log import read_records
from sliceworks.loadtest.runner import Listener
from sliceworks.serving import service_endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters import Cluster

pytestmark = pytest.mark.timeout(300)
LOOPBACK = "127.0.0.1"


def address() -> str:
    """A non-loopback address of this machine, if it has one: an API server does not proxy to loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # no packet is sent
        except OSError:
            return LOOPBACK
        return str(probe.getsockname()[0])


@pytest.fixture
def echo() -> Iterator[str]:
    with run_echo_server() as url:
        yield url


@pytest.fixture
def keeper(cluster: Cluster, echo: str, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The server of a load-test pod, on an address of this machine."""
    config, data = tmp_path / "config", tmp_path / "data"
    config.mkdir()
    data.mkdir()
    plan = load_plan.create(spec(target={"url": echo}, stages=[{"constant": 50, "for": "1s"}]), tmp_path)
    (config / "test.json").write_bytes(orjson.dumps({**runner.test_config(plan), "csv": False, "web": 0}))
    host, port = LOOPBACK if cluster.name == "twin" else address(), free_port()
    arguments = ["--config", str(config), "--data", str(data), "--host", host, "--port", str(port), "--master-port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "sliceworks.loadtest.cluster.agent", *arguments], env={**os.environ, "SLICEWORKS_LOAD_TOKEN": "word"}
    ) as process:
        try:
            yield host, port
            assert process.wait(90) == 0
        finally:
            process.kill()


async def pod(client: Any, namespace: str, host: str) -> str:
    created = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sender", "namespace": namespace}}
    await client.create({**created, "spec": {"containers": [{"name": "sender", "image": "i:1"}]}})
    await client.patch(POD, "sender", {"status": {"podIP": host, "podIPs": [{"ip": host}]}}, namespace, subresource="status")
    return "sender"


def test_rows_are_read_from_the_pod(cluster: Cluster, ns: str, keeper: tuple[str, int], tmp_path: Path) -> None:
    host, port = keeper
    here = tmp_path / "here"
    here.mkdir()

    async def main() -> tuple[Collector, Listener]:
        async with open_client(str(cluster.kubeconfig)) as client:
            way = service_endpoint.connect_pod(client, ns, await pod(client, ns, host), port, host)
            assert isinstance(way, service_endpoint.DirectConnection if host == LOOPBACK else service_endpoint.ProxyConnection)

            async def ask(method: str, path: str, word: str = "word") -> bytes:
                return await service_endpoint.read_all(way, method, path, headers={TOKEN_HEADER: word})

            async def is_deleted() -> str:
                return ""

            collector, listener = Collector(0, ask, is_deleted, here, interval=0.2), Listener(spec().stop)
            await collector.collect(listener)
            with pytest.raises(SliceworksError, match="responded with status 401"):
                await ask("GET", "/report", "another")
            await ask("POST", "/finish")
            return collector, listener

    collector, listener = clock.run(main())
    assert (collector.lost, listener.is_complete(0)) == ("", True)
    rows, chunks = read_records(here / "worker-0.rows")
    assert (len(rows), len(chunks)) == (50, int(rows["chunks"].sum()))
