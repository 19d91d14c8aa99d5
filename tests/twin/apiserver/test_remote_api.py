"""The checks of one remote API."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.apiserver.aggregation.backend import Backend, Unavailable
from sliceworks.twin.apiserver.aggregation.remote_api import RemoteApi
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    import pytest


def api_service(port: int) -> dict[str, Any]:
    service = {"namespace": "default", "name": "backend", "port": port}
    return {"metadata": {"name": "v1.example.com"}, "spec": {"group": "example.com", "version": "v1", "service": service}}


def test_all_backends_of_a_changed_api_service_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []

    async def get(*_: object, **__: object) -> None:
        raise Unavailable("no backend")

    async def close(backend: Backend) -> None:
        closed.append(backend._port)

    monkeypatch.setattr(Backend, "get", get)
    monkeypatch.setattr(Backend, "close", close)

    async def main() -> None:
        store = Store()
        view = SimpleNamespace(get=lambda *_: None)
        remote = RemoteApi(SimpleNamespace(store=store, view=view), api_service(1), lambda: None)  # type: ignore[arg-type]
        checks = asyncio.create_task(remote.run())
        await clock.sleep(1)
        for port in (2, 3):  # before the next check
            remote.update(api_service(port))
        await clock.sleep(1)
        assert sorted(closed) == [1, 2]
        checks.cancel()
        await asyncio.gather(checks, return_exceptions=True)
        assert sorted(closed) == [1, 2, 3]

    clock.run(main(), virtual=True)
