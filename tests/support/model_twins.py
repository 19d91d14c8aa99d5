"""A twin that runs processes, with a GPU node and a CPU node, for tests of `sliceworks models`."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from sliceworks import catalog
from sliceworks.cli import main
from sliceworks.kube import open_client
from sliceworks.platform import twin_home
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME = "models"


@contextmanager
def model_twin(folder: Path, *options: str) -> Iterator[Path]:
    """Start it with more options of `twin start`, as the twin that `--twin` selects."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLICEWORKS_HOME", str(folder))
        patch.setenv("SLICEWORKS_TWIN", _NAME)
        assert main.run(["twin", "start", "--name", _NAME, "--memory", "--processes", "--quiet", *options]) == 0
        try:
            asyncio.run(_machines(twin_home.find(_NAME).state().kubeconfig))
            yield folder
        finally:
            main.run(["twin", "stop", "--name", _NAME, "--quiet"])


async def _machines(kubeconfig: str) -> None:
    gpu = catalog.find("l4-1")
    room, chips = gpu.machine.allocatable(), {gpu.resource: str(gpu.chips_per_host)}
    async with open_client(kubeconfig) as client:
        await create_nodes(client, NodeShape("cpu"), 1)
        taints = tuple(gpu.node_taints())
        shape = NodeShape("gpu", gpu.machine.name, room["cpu"], room["memory"], chips, gpu.node_labels(), taints=taints)
        await create_nodes(client, shape, 1, first=1)
