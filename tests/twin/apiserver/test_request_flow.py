"""How many modules one write crosses from its request to its watch event, and one strategy per built-in kind."""

from __future__ import annotations

import asyncio

import orjson
from tests.support.flow import traced_modules

from sliceworks.base import clock
from sliceworks.base.transport import Request
from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.twin.apiserver.registry.kinds import STRATEGIES
from sliceworks.twin.cluster import Cluster

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
HTTP_SERVER = {"apiserver.http_server"}  # in front of `ApiHandler.handle`, where the trace starts
# Not steps of the flow: pure functions that a step calls, the form of stored objects, and subscribers that ignore this kind.
PURE = (
    "apiserver.validation.",
    "apiserver.fieldmanager.fieldpath",
    "apiserver.fieldmanager.managed_fields",
    "apiserver.fieldmanager.merge",
    "apiserver.fieldmanager.typed_value",
    "store.entry",
)
SUBSCRIBERS = ("apiserver.registry.crd_controller",)


def test_one_write_crosses_few_modules() -> None:
    traced: set[str] = set()

    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            headers = {"authorization": f"Bearer {cluster.token}", "content-type": "application/json"}

            async def create(name: str) -> None:
                body = orjson.dumps({"metadata": {"name": name}, "data": {"a": "b"}})
                response = await cluster.api.handle(Request("POST", CONFIG_MAPS, (), headers, body))
                assert response.status == 201

            query = (("watch", "1"), ("resourceVersion", str(cluster.store.revision)))
            watch = await cluster.api.handle(Request("GET", CONFIG_MAPS, query, headers, b""))
            assert watch.stream is not None
            events = aiter(watch.stream)
            await create("warm-up")
            await anext(events)
            await asyncio.sleep(1)
            with traced_modules() as modules:
                await create("traced")
                assert b"traced" in await anext(events)
            traced.update(name.removeprefix("twin.") for name in modules if name.startswith(("twin.apiserver.", "twin.store.")))
            await watch.stream.aclose()  # type: ignore[attr-defined]

    clock.run(main(), virtual=True, seed=1)
    flow = HTTP_SERVER | {name for name in traced if not name.startswith((*PURE, *SUBSCRIBERS))}
    assert {"apiserver.handlers.write", "store.store", "apiserver.handlers.watch"} <= flow
    assert len(flow) <= 14, sorted(flow)


def test_every_builtin_kind_has_one_strategy() -> None:
    scheme = builtin_scheme()
    resources = [*scheme.resources, *(resource for added in scheme.optional.values() for resource in added)]
    assert set(STRATEGIES) == {f"{resource.group}/{resource.plural}" for resource in resources}
