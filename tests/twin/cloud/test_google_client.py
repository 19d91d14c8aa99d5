"""Google's Python client with the twin's container API."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from google.auth.exceptions import RefreshError
from google.oauth2.credentials import Credentials
from googleapiclient.discovery import build  # type: ignore[import-untyped]
from googleapiclient.errors import HttpError  # type: ignore[import-untyped]
from tests.support.cloud_http import HttpCloud, served_cloud

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACE = "projects/p/locations/us-central2-b"


@pytest.fixture(scope="module")
def served() -> Iterator[HttpCloud]:
    with served_cloud() as result:
        yield result


def client(served: HttpCloud, version: str = "v1", token: str = "") -> Any:
    credentials = Credentials(token=token or served.token)  # type: ignore[no-untyped-call]
    options = {"api_endpoint": f"{served.url}/container/"}
    return build(
        "container", version, credentials=credentials, client_options=options, static_discovery=True, cache_discovery=False
    )


def wait(locations: Any, operation: dict[str, Any]) -> dict[str, Any]:
    for _ in range(600):
        result: dict[str, Any] = locations.operations().get(name=f"{PLACE}/operations/{operation['name']}").execute()
        if result["status"] == "DONE":
            return result
        time.sleep(0.02)
    raise AssertionError(operation)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_cluster_and_node_pool_lifecycle(served: HttpCloud, version: str) -> None:
    name = f"c-{version}"
    cluster = f"{PLACE}/clusters/{name}"
    with client(served, version) as container:
        locations = container.projects().locations()
        clusters, pools = locations.clusters(), locations.clusters().nodePools()
        assert "validNodeVersions" in locations.getServerConfig(name=PLACE).execute()
        body = {"cluster": {"name": name, "initialNodeCount": 1}}
        wait(locations, clusters.create(parent=PLACE, body=body).execute())
        assert clusters.get(name=cluster).execute()["status"] == "RUNNING"
        assert name in [item["name"] for item in clusters.list(parent="projects/p/locations/-").execute()["clusters"]]
        pool = {
            "name": "slice",
            "initialNodeCount": 4,
            "config": {"machineType": "ct4p-hightpu-4t"},
            "placementPolicy": {"type": "COMPACT", "tpuTopology": "2x2x4"},
        }
        wait(locations, pools.create(parent=cluster, body={"nodePool": pool}).execute())
        assert pools.get(name=f"{cluster}/nodePools/slice").execute()["status"] == "RUNNING"
        assert len(pools.list(parent=cluster).execute()["nodePools"]) == 2
        wait(locations, pools.setSize(name=f"{cluster}/nodePools/default-pool", body={"nodeCount": 2}).execute())
        with pytest.raises(HttpError) as caught:
            pools.setSize(name=f"{cluster}/nodePools/slice", body={"nodeCount": 2}).execute()
        assert (caught.value.resp.status, "multi-host TPU" in caught.value.reason) == (400, True)
        wait(locations, pools.delete(name=f"{cluster}/nodePools/slice").execute())
        assert len(locations.operations().list(parent=PLACE).execute()["operations"]) >= 4
        wait(locations, clusters.delete(name=cluster).execute())
        with pytest.raises(HttpError) as caught:
            clusters.get(name=cluster).execute()
        assert (caught.value.resp.status, caught.value.reason) == (404, f"Not found: {cluster}.")


def test_wrong_token_is_rejected(served: HttpCloud) -> None:
    # After a 401 the client wants another token, which these credentials cannot get.
    with client(served, token="missing") as container, pytest.raises(RefreshError):
        container.projects().locations().clusters().list(parent=PLACE).execute()
