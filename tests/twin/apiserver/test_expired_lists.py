"""Chunks of a list expire with the time, as etcd's history does."""

from __future__ import annotations

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import Expired
from sliceworks.kube.client import Client
from sliceworks.kube.resources import CONFIG_MAP
from sliceworks.twin.cluster import Cluster


def test_rest_of_a_list_expires_after_minutes() -> None:
    async def main() -> None:
        async with Cluster() as cluster:
            client = Client(cluster.transport())
            for name in ("a", "b", "c", "d"):
                await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
            old = await client.list(CONFIG_MAP, "default", limit=1)
            await clock.sleep(200)
            await client.delete(CONFIG_MAP, "d", "default")
            await client.list(CONFIG_MAP, "default", limit=1)
            rest = await client.list(CONFIG_MAP, "default", continue_token=old.continue_token)
            assert {"b", "c", "d"} <= {item["metadata"]["name"] for item in rest.items}
            await clock.sleep(301)
            await client.list(CONFIG_MAP, "default", limit=1)
            with pytest.raises(Expired, match="too old to display a consistent list result"):
                await client.list(CONFIG_MAP, "default", continue_token=old.continue_token)

    clock.run(main(), virtual=True)
