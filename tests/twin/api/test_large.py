"""Large lists: sent in pieces, whole in the end, compressed for those who ask."""

from __future__ import annotations

import gzip
from typing import Any

import orjson
import pytest

from sliceworks.base import clock
from sliceworks.kube.transport import Request, Response
from sliceworks.twin.api.large import LARGE, PIECE, joined
from sliceworks.twin.cluster import Cluster

PATH = "/api/v1/namespaces/default/configmaps"
COUNT = 30


async def ask(cluster: Cluster, path: str = PATH, **headers: str) -> Response:
    sent = {"authorization": f"Bearer {cluster.token}", "accept": "application/json", **headers}
    path, _, query = path.partition("?")
    pairs = tuple((name, value) for name, _, value in (item.partition("=") for item in query.split("&") if item))
    return await cluster.api.handle(Request("GET", path, pairs, sent))


async def fill(cluster: Cluster) -> None:
    for number in range(COUNT):
        metadata = {"name": f"c-{number:02}", "namespace": "default", "uid": str(number)}
        body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"text": "x" * (LARGE // 20)}}
        cluster.store.put("/configmaps", "default", f"c-{number:02}", body)
    await cluster.store.settled()


async def pieces_of(response: Response) -> list[bytes]:
    assert response.stream is not None
    return [piece async for piece in response.stream]


def names(document: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in document["items"] if item["metadata"]["name"].startswith("c-")]


def test_a_large_list_comes_in_pieces_and_is_whole() -> None:
    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            await fill(cluster)
            pieces = await pieces_of(await ask(cluster))
            assert len(pieces) > 10
            assert max(map(len, pieces)) < 2 * PIECE
            document = orjson.loads(b"".join(pieces))
            assert document["kind"] == "ConfigMapList"
            assert names(document) == [f"c-{number:02}" for number in range(COUNT)]

    clock.run(main(), virtual=True)


def test_a_large_list_shows_one_moment() -> None:
    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            await fill(cluster)
            response = await ask(cluster)
            for number in range(COUNT):
                entry = cluster.store.get("/configmaps", "default", f"c-{number:02}")
                assert entry is not None
                cluster.store.remove("/configmaps", "default", entry.name, entry.object())
            assert len(names(orjson.loads(b"".join(await pieces_of(response))))) == COUNT

    clock.run(main(), virtual=True)


def test_a_large_list_is_compressed_when_asked() -> None:
    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            await fill(cluster)
            response = await ask(cluster, **{"accept-encoding": "gzip"})
            assert response.headers["content-encoding"] == "gzip"
            packed = b"".join(await pieces_of(response))
            assert len(packed) < LARGE
            assert len(names(orjson.loads(gzip.decompress(packed)))) == COUNT

    clock.run(main(), virtual=True)


@pytest.mark.parametrize("path", [f"{PATH}?pretty=true", f"{PATH}?limit=3"])
def test_other_lists_come_at_once(path: str) -> None:
    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            await fill(cluster)
            response = await ask(cluster, path)
            assert response.stream is None
            assert orjson.loads(response.body)["kind"] == "ConfigMapList"

    clock.run(main(), virtual=True)


def test_pieces_lose_nothing() -> None:
    lines = [bytes([65 + index % 26]) * (index * 997 % 9000) for index in range(200)]
    pieces = list(joined(iter(lines)))
    assert b"".join(pieces) == b"".join(lines)
    assert all(len(piece) >= PIECE for piece in pieces[:-1])
    assert list(joined(iter(()))) == []
