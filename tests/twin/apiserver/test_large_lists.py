"""Large lists are streamed, consistent and compressed on request."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from sliceworks.base import clock
from sliceworks.base.transport import Request, Response
from sliceworks.twin.apiserver import yaml_codec
from sliceworks.twin.apiserver.handlers.response import CHUNK_BYTES, STREAM_THRESHOLD_BYTES, join_chunks
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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
        body = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": metadata,
            "data": {"text": "x" * (STREAM_THRESHOLD_BYTES // 20)},
        }
        cluster.store.put("/configmaps", "default", f"c-{number:02}", body)
    await cluster.store.wait_durable()


async def chunks_of(response: Response) -> list[bytes]:
    assert response.stream is not None
    return [piece async for piece in response.stream]


def names(document: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in document["items"] if item["metadata"]["name"].startswith("c-")]


def test_large_list_is_streamed_completely() -> None:
    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            await fill(cluster)
            pieces = await chunks_of(await ask(cluster))
            assert len(pieces) > 10
            assert max(map(len, pieces)) < 2 * CHUNK_BYTES
            document = orjson.loads(b"".join(pieces))
            assert document["kind"] == "ConfigMapList"
            assert names(document) == [f"c-{number:02}" for number in range(COUNT)]

    clock.run(main(), virtual=True)


def test_large_list_is_consistent() -> None:
    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            await fill(cluster)
            response = await ask(cluster)
            for number in range(COUNT):
                entry = cluster.store.get("/configmaps", "default", f"c-{number:02}")
                assert entry is not None
                cluster.store.remove("/configmaps", "default", entry.name, entry.object())
            assert len(names(orjson.loads(b"".join(await chunks_of(response))))) == COUNT

    clock.run(main(), virtual=True)


def test_large_list_is_compressed_on_request() -> None:
    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            await fill(cluster)
            response = await ask(cluster, **{"accept-encoding": "gzip"})
            assert response.headers["content-encoding"] == "gzip"
            packed = b"".join(await chunks_of(response))
            assert len(packed) < STREAM_THRESHOLD_BYTES
            assert len(names(orjson.loads(gzip.decompress(packed)))) == COUNT

    clock.run(main(), virtual=True)


def test_small_list_is_not_streamed() -> None:
    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            await fill(cluster)
            response = await ask(cluster, f"{PATH}?limit=3")
            assert response.stream is None
            assert orjson.loads(response.body)["kind"] == "ConfigMapList"

    clock.run(main(), virtual=True)


@pytest.mark.parametrize("query", ["", "limit=3", "fieldSelector=metadata.name=none"], ids=["streamed", "small", "empty"])
def test_lists_in_other_forms_have_the_same_content(query: str) -> None:
    """Indented JSON and YAML are encoded item by item."""

    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            await clock.sleep(5)  # until all controllers have created their objects
            await fill(cluster)

            async def read(path: str, accept: str = "application/json") -> bytes:
                response = await ask(cluster, path, accept=accept)
                return response.body if response.stream is None else b"".join(await chunks_of(response))

            plain = orjson.loads(await read(f"{PATH}?{query}"))
            pretty = await read(f"{PATH}?{query}&pretty=true")
            assert pretty == orjson.dumps(orjson.loads(pretty), option=orjson.OPT_INDENT_2)
            text = await read(f"{PATH}?{query}", "application/yaml")
            document = yaml_codec.decode(text)[0]
            assert text == yaml_codec.encode(document)
            assert orjson.loads(pretty)["items"] == document["items"] == plain["items"]

    clock.run(main(), virtual=True)


def test_chunks_contain_all_bytes() -> None:
    lines = [bytes([65 + index % 26]) * (index * 997 % 9000) for index in range(200)]

    async def join(parts: list[bytes]) -> list[bytes]:
        async def each() -> AsyncIterator[bytes]:
            for part in parts:
                yield part

        return [piece async for piece in join_chunks(each())]

    pieces = asyncio.run(join(lines))
    assert b"".join(pieces) == b"".join(lines)
    assert all(len(piece) >= CHUNK_BYTES for piece in pieces[:-1])
    assert asyncio.run(join([])) == []
