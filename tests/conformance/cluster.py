"""The clusters of the suite: a twin, which ends with this process, whatever ends it, and a real control plane with its nodes."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.conformance.nodes import create_nodes
from tests.conformance.real_nodes import NETWORK
from tests.real.control_plane import ControlPlane
from tests.real.processes import Process, tied
from tests.support.own_network import own_network

from sliceworks.kube import open_client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def running_twin(folder: Path, image_map: Path, log: Path) -> Iterator[Path]:
    """The kubeconfig of a new twin that runs the images as processes."""
    command = (sys.executable, "-m", "sliceworks", "twin", "start", "--foreground", "--name", "conformance")
    options = ("--memory", "--processes", "--image-map", str(image_map), "--job-duration", "0")
    twin = Process("twin", tied((*command, *options)), log, env={**os.environ, "SLICEWORKS_HOME": str(folder)})
    ready = folder / "twins" / "conformance" / "ready.json"
    kubeconfig = ready.with_name("kubeconfig")
    try:
        twin.wait_until(ready.exists)
        asyncio.run(_create_nodes(kubeconfig))
        yield kubeconfig
    finally:
        twin.terminate()


async def _create_nodes(kubeconfig: Path) -> None:
    async with open_client(kubeconfig) as client:
        await create_nodes(client)


@contextmanager
def running_control_plane(folder: Path, image_map: Path) -> Iterator[Path]:
    """The kubeconfig of a new real control plane with the twin's nodes, in a network of this thread and its children, as root."""
    folder.mkdir()
    _, services = NETWORK.subnets()
    addresses = ("--bind-address=0.0.0.0", f"--advertise-address={NETWORK[1]}")
    flags = (*addresses, f"--service-cluster-ip-range={services}", "--kubelet-preferred-address-types=InternalIP")
    with own_network(NETWORK), ControlPlane(folder, controllers=("*",), server_flags=flags) as plane:
        plane.start_scheduler()
        files = plane.certificates
        sources = {"kubelet.crt": files.serving, "kubelet.key": files.serving_key}
        sources |= {"ca.crt": plane.authority, "images.yaml": image_map}
        for name, source in sources.items():
            shutil.copyfile(source, folder / name)
        (folder / "url").write_text(plane.url)
        command = (sys.executable, "-m", "tests.conformance.real_nodes", str(plane.kubeconfig), str(folder))
        nodes = Process("nodes", tied(command), folder / "nodes.log")
        try:
            nodes.wait_until((folder / "ready").exists)
            yield plane.kubeconfig
        finally:
            nodes.terminate()
