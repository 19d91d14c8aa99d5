"""The container API: paths, node pools, operations and their faults, checked against Google's discovery document."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import discovery
from tests.support.scripted_cloud import Scripted, answer

from sliceworks.base import clock
from sliceworks.base.errors import UsageError
from sliceworks.cloud import container
from sliceworks.cloud.container import Container, Fault, open_container
from sliceworks.cloud.session import Session, split_endpoint

_DONE = {"name": "operation-1", "status": "DONE", "operationType": "CREATE_NODE_POOL", "targetLink": "https://x/nodePools/p"}


def _container(transport: Scripted, **more: Any) -> Container:
    return Container(Session(transport=transport), "proj", "us-central2", "main", **more)


def test_calls_match_the_discovery_document() -> None:
    pool, running = (
        {"name": "p", "initialNodeCount": 1},
        {"name": "operation-1", "status": "RUNNING", "operationType": "DELETE_NODE_POOL"},
    )
    answers: list[dict[str, Any]] = [
        {"nodePools": [pool]},
        {},
        _DONE,
        running,
        {"operations": [_DONE]},
        {},
        _DONE,
        {},
        {"name": "main"},
    ]
    transport = Scripted(*(answer(item) for item in answers))
    container = _container(transport)

    async def main() -> None:
        assert await container.list_node_pools() == [pool]
        assert await container.list_node_pools() == []
        created = await container.create_node_pool(pool)
        assert (created.done, created.target, created.kind, created.fault) == (True, "p", "CREATE_NODE_POOL", None)
        assert not (await container.delete_node_pool("p")).done
        assert [operation.name for operation in await container.list_operations()] == ["operation-1"]
        assert await container.list_operations() == []
        assert (await container.get_operation("operation-1")).done
        await container.cancel_operation("operation-1")
        assert await container.get_cluster() == {"name": "main"}

    clock.run(main(), virtual=True)
    for request in transport.requests:
        discovery.messages("container", "v1beta1", request.method, request.target.lstrip("/"))  # raises where there is none
    assert transport.requests[2].body == b'{"nodePool":{"name":"p","initialNodeCount":1}}'


def test_twin_endpoint_has_a_path_prefix() -> None:
    transport = Scripted(answer({}))
    clock.run(_container(transport, prefix="/container/", version="v1").list_node_pools(), virtual=True)
    assert transport.requests[0].target == "/container/v1/projects/proj/locations/us-central2/clusters/main/nodePools"


@pytest.mark.parametrize(
    ("missing", "variable"), [("project", "GCP_PROJECT_ID"), ("location", "GCP_CLUSTER_LOCATION"), ("cluster", "GCP_CLUSTER")]
)
def test_project_location_and_cluster_are_required(missing: str, variable: str) -> None:
    names = {"project": "p", "location": "l", "cluster": "c", missing: ""}
    with pytest.raises(UsageError, match=f"{missing} is required") as refused:
        Container(Session(transport=Scripted()), **names)
    assert refused.value.hint == f"set {variable}, or pass --twin to use a twin"


@pytest.mark.parametrize(
    ("endpoint", "base", "prefix"),
    [
        ("https://container.googleapis.com", "https://container.googleapis.com", ""),
        ("http://127.0.0.1:8080/container/v1/", "http://127.0.0.1:8080", "/container"),
        ("http://127.0.0.1:8080/container/v1beta1", "http://127.0.0.1:8080", "/container"),
        ("http://127.0.0.1:8080/container", "http://127.0.0.1:8080", "/container"),
    ],
)
def test_terraform_endpoints_are_accepted(endpoint: str, base: str, prefix: str) -> None:
    assert split_endpoint(endpoint) == (base, prefix)
    assert open_container("p", "l", "c", endpoint=endpoint, token="t").project == "p"


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ({"status": "RUNNING", "error": {"code": 8, "message": "x"}}, None),
        ({"status": "DONE"}, None),
        ({"status": "DONE", "error": {"code": 8, "message": "no room\nhere"}}, Fault("RESOURCE_EXHAUSTED", "no room here")),
        ({"status": "DONE", "error": {"code": 99, "message": "x"}}, Fault("UNKNOWN", "x")),
        ({"status": "DONE", "error": {"message": "x"}}, Fault("UNKNOWN", "x")),
        (
            {
                "status": "DONE",
                "error": {"code": 8, "message": "x"},
                "nodepoolConditions": [{"code": "GCE_STOCKOUT", "message": "y"}],
            },
            Fault("GCE_STOCKOUT", "x"),
        ),
        ({"status": "DONE", "nodepoolConditions": [{"canonicalCode": "INTERNAL", "message": "y"}]}, Fault("INTERNAL", "y")),
        ({"status": "DONE", "statusMessage": "something"}, Fault("UNKNOWN", "something")),
    ],
)
def test_fault_of_an_operation(raw: dict[str, Any], fault: Fault | None) -> None:
    assert container.parse_operation(raw).fault == fault


def test_fault_of_a_node_pool() -> None:
    stockout = {"code": "GCE_STOCKOUT", "message": "none left"}
    assert container.fault_from_conditions([{"code": "UNKNOWN", "message": "a"}, stockout]) == Fault("GCE_STOCKOUT", "none left")
    assert container.fault_from_conditions([{"message": "a"}]) == Fault("UNKNOWN", "a")
    assert container.fault_from_conditions([], "words alone") == Fault("UNKNOWN", "words alone")
    assert container.fault_from_conditions([]) is None
