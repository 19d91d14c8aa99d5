"""The controller manager: probes and metrics over HTTP, rate limit, leader election, shutdown on a signal."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.base import clock
from sliceworks.base.errors import UsageError
from sliceworks.base.metrics import Registry
from sliceworks.base.transport import Request, Response
from sliceworks.controllers import manager
from sliceworks.controllers.manager import (
    ManagerOptions,
    RateLimitedTransport,
    health_pages,
    metrics_pages,
    parse_address,
    run,
    serve_pages,
)
from sliceworks.kube.client import Client
from sliceworks.kube.controller import Controller, Done, Outcome
from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from sliceworks.kube.workqueue import QueueStatus

NO_PAGES = ManagerOptions(metrics_address="0", probe_address="")


async def request(port: int, line: str) -> str:
    """The raw response to a request line."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{line}\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
    response = (await reader.read()).decode()
    writer.close()
    return response


def test_probe_pages() -> None:
    async def main() -> None:
        ready = False
        async with serve_pages("127.0.0.1:0", health_pages(lambda: ready)) as port:
            assert (await request(port, "GET /healthz HTTP/1.1")).startswith("HTTP/1.1 200 OK")
            assert (await request(port, "GET /readyz HTTP/1.1")).startswith("HTTP/1.1 500")
            ready = True
            assert (await request(port, "GET /readyz?verbose HTTP/1.1")).startswith("HTTP/1.1 200 OK")
            head = await request(port, "HEAD /readyz HTTP/1.1")
            assert head.startswith("HTTP/1.1 200 OK")
            assert head.endswith("\r\n\r\n")
            assert (await request(port, "GET /elsewhere HTTP/1.1")).startswith("HTTP/1.1 404")
            assert (await request(port, "POST /healthz HTTP/1.1")).startswith("HTTP/1.1 405")
            assert (await request(port, "nonsense")).startswith("HTTP/1.1 400")

    asyncio.run(main())


def test_metrics_page() -> None:
    registry = Registry()
    reconciles = registry.counter("reconciles_total", "Reconciles.", "kind")
    reconciles.inc('a"b\\')
    reconciles.inc("c", by=2)
    seconds = registry.histogram("seconds", "Duration.", buckets=(0.1, 1.0))
    for value in (0.05, 0.5, 5.0):
        seconds.observe(value)
    registry.gauge("pending", "Pending objects.", lambda: 3)
    assert (
        registry.render()
        == """\
# HELP reconciles_total Reconciles.
# TYPE reconciles_total counter
reconciles_total{kind="a\\"b\\\\"} 1
reconciles_total{kind="c"} 2
# HELP seconds Duration.
# TYPE seconds histogram
seconds_bucket{le="0.1"} 1
seconds_bucket{le="1"} 2
seconds_bucket{le="+Inf"} 3
seconds_sum 5.55
seconds_count 3
# HELP pending Pending objects.
# TYPE pending gauge
pending 3
"""
    )

    async def main() -> None:
        async with serve_pages("127.0.0.1:0", metrics_pages(registry.render)) as port:
            response = await request(port, "GET /metrics HTTP/1.1")
            assert "version=0.0.4" in response
            assert response.endswith("pending 3\n")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), (":8078", ("", 8078)), ("[::1]:9", ("::1", 9)), ("host:0", ("host", 0))],
)
def test_parse_address(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["8078", "host:", "host:99999", "host:x"])
def test_parse_address_rejects_invalid(text: str) -> None:
    with pytest.raises(UsageError, match="invalid address"):
        parse_address(text)


def test_rate_limit_does_not_count_watches() -> None:
    class Instant:
        async def send(self, request: Request, *, stream: bool = False) -> Response:
            return Response(200)

        async def close(self) -> None:
            """Nothing to close."""

    async def main() -> None:
        limited = RateLimitedTransport(Instant(), qps=10, burst=5)
        started = clock.loop_time()
        await asyncio.gather(*(limited.send(Request("GET", "/")) for _ in range(25)))
        assert clock.loop_time() - started == pytest.approx(2.0)
        await asyncio.gather(*(limited.send(Request("GET", "/"), stream=True) for _ in range(25)))
        assert clock.loop_time() - started == pytest.approx(2.0)

    clock.run(main(), virtual=True)


class Worker:
    """A controller that is ready while it runs."""

    def __init__(self) -> None:
        self.ready = False

    def queues(self) -> dict[str, QueueStatus]:
        return {}

    async def run(self) -> None:
        self.ready = True
        try:
            await asyncio.Event().wait()
        finally:
            self.ready = False


def test_signal_ends_run() -> None:
    class NoClient:
        namespace = "default"

    async def main() -> None:
        worker = Worker()
        program = asyncio.create_task(run(NoClient(), [worker], Registry(), NO_PAGES))  # type: ignore[arg-type]
        async with asyncio.timeout(90):
            while not worker.ready:
                await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await program
        assert not worker.ready

    asyncio.run(main())


class Stuck(Worker):
    """A controller whose reconcile of one key never ends."""

    def __init__(self) -> None:
        super().__init__()
        self.controller = Controller("things", self._reconcile)

    def queues(self) -> dict[str, QueueStatus]:
        return {"things": self.controller.queue.status()}

    async def run(self) -> None:
        self.ready = True
        await self.controller.run()

    async def _reconcile(self, key: Key) -> Outcome:
        if key.name == "bad":
            await asyncio.Event().wait()
        return Done()


def test_probes_fail_while_a_reconcile_is_stuck() -> None:
    async def main() -> None:
        worker, registry = Stuck(), Registry()
        group = manager.ControllerGroup([worker], stall_timeout=600)
        group.register_metrics(registry, "lease")
        pages = health_pages(group.ready, group.stalled)
        task = asyncio.create_task(group.run())
        for name in ("good", "bad", "next"):
            worker.controller.queue.add(Key("team", name))
        await clock.sleep(600)
        assert [pages[page]().status for page in ("/healthz", "/readyz")] == [200, 200]
        await clock.sleep(1)
        assert [pages[page]().status for page in ("/healthz", "/readyz")] == [500, 500]
        assert pages["/healthz"]().text == "reconcile of team/bad in work queue things has been running for 601 s\n"
        text = registry.render()
        assert 'workqueue_depth{name="things"} 1\n' in text
        assert 'workqueue_longest_running_processor_seconds{name="things"} 601\n' in text
        assert 'leader_election_master_status{name="lease"} 1\n' in text
        assert not manager.ControllerGroup([worker]).stalled()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    clock.run(main(), virtual=True)


def test_only_the_leader_runs() -> None:
    async def only_lead(client: Client, worker: Worker) -> None:
        group = manager.ControllerGroup([worker])
        await manager._lead(client, group, replace(NO_PAGES, elect=True, lease_namespace="default"))

    async def main(twin: EmbeddedTwin) -> None:
        workers = [Worker(), Worker()]
        tasks = [asyncio.create_task(only_lead(Client(twin.cluster.transport()), worker)) for worker in workers]
        await clock.sleep(30)
        assert sorted(worker.ready for worker in workers) == [False, True]
        leader = next(index for index, worker in enumerate(workers) if worker.ready)
        tasks[leader].cancel()
        await clock.sleep(30)
        assert workers[1 - leader].ready
        assert not workers[leader].ready
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_on_twin(main)
