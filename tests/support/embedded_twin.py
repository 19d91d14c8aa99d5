"""A whole twin in the test's process, in memory and in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.transport import Request
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
MERGE = "application/merge-patch+json"


class EmbeddedTwin:
    """A cluster with a client that has the administrator's rights."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._transport = cluster.transport()

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Obj]:
        """Status and body of a response; the path may contain a query."""
        path, _, query = path.partition("?")
        pairs = tuple(tuple(part.split("=", 1)) for part in query.split("&") if part)
        kind = {"content-type": MERGE if method == "PATCH" else "application/json"}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        data = orjson.dumps(body) if body is not None else b""
        response = await self._transport.send(Request(method, path, pairs, {**kind, **given}, data))  # type: ignore[arg-type]
        return response.status, orjson.loads(response.body)

    async def do(self, method: str, path: str, body: Any = None, **headers: str) -> Obj:
        """The body of a response that must succeed."""
        status, result = await self.ask(method, path, body, **headers)
        assert status < 300, result
        return result

    async def gone(self, path: str) -> bool:
        return (await self.ask("GET", path))[0] == 404

    async def quiet(self) -> None:
        """Wait until the controllers are idle."""
        await clock.sleep(5)


def run_on_twin(
    main: Callable[[EmbeddedTwin], Awaitable[None]],
    store: Store | None = None,
    *,
    workloads: bool = False,
    config_connector: bool = False,
    without: tuple[str, ...] = (),
    features: tuple[str, ...] = (),
) -> None:
    """Run a test's coroutine on a new twin."""

    async def run_main() -> None:
        async with Cluster(
            store,
            ca="the authority",
            workloads=workloads,
            config_connector=config_connector,
            without=without,
            features=features,
        ) as cluster:
            twin = EmbeddedTwin(cluster)
            await twin.quiet()
            await main(twin)

    clock.run(run_main(), virtual=True, seed=7)
