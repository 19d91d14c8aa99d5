"""The container API: paths, node pools, operations and what they failed of; each request as Google's own document has it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support import discovery
from tests.support.cloud_script import Scripted, answer

from sliceworks.base import clock
from sliceworks.base.errors import UsageError
from sliceworks.cloud import operations
from sliceworks.cloud.connecting import open_container, split_endpoint
from sliceworks.cloud.container import Container
from sliceworks.cloud.operations import Fault
from sliceworks.cloud.session import Session

_DONE = {"name": "operation-1", "status": "DONE", "operationType": "CREATE_NODE_POOL", "targetLink": "https://x/nodePools/p"}


def _container(transport: Scripted, **more: Any) -> Container:
    return Container(Session(transport=transport), "proj", "us-central2", "main", **more)


def test_every_call_is_one_of_the_api() -> None:
    pool, running = (
        {"name": "p", "initialNodeCount": 1},
        {"name": "operation-1", "status": "RUNNING", "operationType": "DELETE_NODE_POOL"},
    )
    answers: list[dict[str, Any]] = [
        {"nodePools": [pool]},
        {},
        pool,
        _DONE,
        running,
        running,
        {"operations": [_DONE]},
        {},
        _DONE,
        {},
    ]
    answers += [{"name": "main"}, {"validNodeVersions": []}]
    transport = Scripted(*(answer(each) for each in answers))
    container = _container(transport)

    async def main() -> None:
        assert await container.node_pools() == [pool]
        assert await container.node_pools() == []
        assert await container.node_pool("p") == pool
        made = await container.create(pool)
        assert (made.done, made.target, made.kind, made.fault) == (True, "p", "CREATE_NODE_POOL", None)
        assert not (await container.delete("p")).done
        assert (await container.set_size("p", 3)).name == "operation-1"
        assert [each.name for each in await container.operations()] == ["operation-1"]
        assert await container.operations() == []
        assert (await container.operation("operation-1")).done
        await container.cancel("operation-1")
        assert await container.get_cluster() == {"name": "main"}
        assert "validNodeVersions" in await container.server_config()

    clock.run(main(), virtual=True)
    for request in transport.requests:
        discovery.messages("container", "v1beta1", request.method, request.target.lstrip("/"))  # raises where there is none
    assert transport.requests[3].body == b'{"nodePool":{"name":"p","initialNodeCount":1}}'


def test_a_twin_has_a_path_before_the_version() -> None:
    transport = Scripted(answer({}))
    clock.run(_container(transport, prefix="/container/", version="v1").node_pools(), virtual=True)
    assert transport.requests[0].target == "/container/v1/projects/proj/locations/us-central2/clusters/main/nodePools"


@pytest.mark.parametrize("missing", ["project", "location", "cluster"])
def test_the_cluster_must_be_known(missing: str) -> None:
    names = {"project": "p", "location": "l", "cluster": "c", missing: ""}
    with pytest.raises(UsageError, match=f"the {missing} is not known"):
        Container(Session(transport=Scripted()), **names)


@pytest.mark.parametrize(
    ("endpoint", "base", "prefix"),
    [
        ("https://container.googleapis.com", "https://container.googleapis.com", ""),
        ("http://127.0.0.1:8080/container/v1/", "http://127.0.0.1:8080", "/container"),
        ("http://127.0.0.1:8080/container/v1beta1", "http://127.0.0.1:8080", "/container"),
        ("http://127.0.0.1:8080/container", "http://127.0.0.1:8080", "/container"),
    ],
)
def test_endpoints_as_terraform_has_them(endpoint: str, base: str, prefix: str) -> None:
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
def test_what_an_operation_failed_of(raw: dict[str, Any], fault: Fault | None) -> None:
    assert operations.read(raw).fault == fault


def test_what_a_pool_failed_of() -> None:
    stockout = {"code": "GCE_STOCKOUT", "message": "none left"}
    assert operations.condition_fault([{"code": "UNKNOWN", "message": "a"}, stockout]) == Fault("GCE_STOCKOUT", "none left")
    assert operations.condition_fault([{"message": "a"}]) == Fault("UNKNOWN", "a")
    assert operations.condition_fault([], "words alone") == Fault("UNKNOWN", "words alone")
    assert operations.condition_fault([]) is None
