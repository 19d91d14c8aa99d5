"""Rows of a pod come as they were written, for the right word alone: through a real API server, and directly on a twin."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.real.processes import free_port
from tests.support.echoing import echoing
from tests.support.load_tests import spec

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.kube import open_client
from sliceworks.kube.well_known import POD
from sliceworks.loadtest import plans, running
from sliceworks.loadtest.cluster.collecting import Collector
from sliceworks.loadtest.cluster.news import TOKEN
from sliceworks.loadtest.listening import Listener
from sliceworks.loadtest.rows import read
from sliceworks.serving import reaching

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters import Cluster

pytestmark = pytest.mark.timeout(300)
LOOPBACK = "127.0.0.1"


def address() -> str:
    """An address of this machine that is not loopback, if it has one: an API server passes nothing on to those."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # nothing is sent
        except OSError:
            return LOOPBACK
        return str(probe.getsockname()[0])


@pytest.fixture
def echo() -> Iterator[str]:
    with echoing() as url:
        yield url


@pytest.fixture
def keeper(cluster: Cluster, echo: str, tmp_path: Path) -> Iterator[tuple[str, int]]:
    """What runs in a pod, on an address of this machine."""
    config, data = tmp_path / "config", tmp_path / "data"
    config.mkdir()
    data.mkdir()
    plan = plans.make(spec(target={"url": echo}, stages=[{"constant": 50, "for": "1s"}]), tmp_path)
    (config / "test.json").write_bytes(orjson.dumps({**running.test_of(plan), "csv": False, "web": 0}))
    host, port = LOOPBACK if cluster.name == "twin" else address(), free_port()
    asked = ["--config", str(config), "--data", str(data), "--host", host, "--port", str(port), "--master-port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "sliceworks.loadtest.cluster.keeper", *asked], env={**os.environ, "SLICEWORKS_LOAD_TOKEN": "word"}
    ) as process:
        try:
            yield host, port
            assert process.wait(90) == 0
        finally:
            process.kill()


async def pod(client: Any, namespace: str, host: str) -> str:
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sender", "namespace": namespace}}
    await client.create({**made, "spec": {"containers": [{"name": "sender", "image": "i:1"}]}})
    await client.patch(POD, "sender", {"status": {"podIP": host, "podIPs": [{"ip": host}]}}, namespace, subresource="status")
    return "sender"


def test_rows_come_from_where_the_pod_is(cluster: Cluster, ns: str, keeper: tuple[str, int], tmp_path: Path) -> None:
    host, port = keeper
    here = tmp_path / "here"
    here.mkdir()

    async def main() -> tuple[Collector, Listener]:
        async with open_client(str(cluster.kubeconfig)) as client:
            way = reaching.to_pod(client, ns, await pod(client, ns, host), port, host)
            assert isinstance(way, reaching.Direct if host == LOOPBACK else reaching.Proxied)

            async def ask(method: str, path: str, word: str = "word") -> bytes:
                return await reaching.whole(way, method, path, headers={TOKEN: word})

            async def gone() -> str:
                return ""

            collector, listener = Collector(0, ask, gone, here, every=0.2), Listener(spec().stop)
            await collector.collect(listener)
            with pytest.raises(SliceworksError, match="answered 401"):
                await ask("GET", "/news", "another")
            await ask("POST", "/leave")
            return collector, listener

    collector, listener = clock.run(main())
    assert (collector.lost, listener.came_to_its_end(0)) == ("", True)
    rows, pieces = read(here / "worker-0.rows")
    assert (len(rows), len(pieces)) == (50, int(rows["pieces"].sum()))
