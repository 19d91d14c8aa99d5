"""Priority and fairness of requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sliceworks.base.errors import TooManyRequests
from sliceworks.base.http.flow_control import FairApplication, FlowControl
from sliceworks.base.http.messages import HttpError, Request
from sliceworks.twin.apiserver.auth.authentication import User

ALICE, BOB = User("alice"), User("bob")
NODE, ACCOUNT = User("system:node:a"), User("system:serviceaccount:a:b")


class Work:
    """Requests that each take a second of a simulated clock."""

    def __init__(self, queue_length: int = 200) -> None:
        self.now = 0.0
        self.order: list[str] = []
        self.control = FlowControl(lambda: self.now, queue_length=queue_length)

    async def send(self, user: User, seconds: float = 1.0) -> None:
        await self.control.wait(user.name, user.flow_priority)
        self.now += seconds
        self.order.append(user.name)


def test_client_with_many_requests_does_not_delay_others() -> None:
    async def main() -> None:
        work = Work()
        many = [asyncio.ensure_future(work.send(ALICE)) for _ in range(100)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await work.send(BOB)
        assert work.order.index("bob") <= 5
        await asyncio.gather(*many)
        assert len(work.order) == 101

    asyncio.run(main())


def test_cheap_requests_do_not_wait() -> None:
    async def main() -> None:
        work = Work()
        tasks = [asyncio.ensure_future(work.send(ALICE, 0)) for _ in range(150)]
        await asyncio.sleep(0)
        assert len(work.order) == 150
        await asyncio.gather(*tasks)

    asyncio.run(main())


def test_system_and_controllers_get_more_turns_than_users() -> None:
    async def main() -> None:
        work = Work()
        tasks = [asyncio.ensure_future(work.send(user)) for _ in range(40) for user in (ALICE, ACCOUNT, NODE)]
        await asyncio.gather(*tasks)
        first = work.order[:40]
        assert first.count(NODE.name) > first.count(ACCOUNT.name) > first.count("alice") > 0

    asyncio.run(main())


def test_waiting_requests_of_one_user_are_limited() -> None:
    async def main() -> None:
        work = Work(queue_length=5)
        tasks = [asyncio.ensure_future(work.send(ALICE)) for _ in range(20)]
        other = asyncio.ensure_future(work.send(BOB))
        results = await asyncio.gather(*tasks, other, return_exceptions=True)
        rejected = [result for result in results if isinstance(result, TooManyRequests)]
        assert rejected[0].details == {"retryAfterSeconds": 1}
        assert len(rejected) == 20 - 1 - 5
        assert work.order.count("bob") == 1

    asyncio.run(main())


def test_disconnected_clients_do_not_take_turns() -> None:
    async def main() -> None:
        work = Work()
        first = asyncio.ensure_future(work.send(ALICE))
        tasks = [asyncio.ensure_future(work.send(ALICE)) for _ in range(50)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await work.send(BOB)
        await first
        assert work.order == ["alice", "bob"]

    asyncio.run(main())


def test_application_rejects_a_flood_of_one_address_and_serves_others_and_probes() -> None:
    class Pages(FairApplication):
        unlimited = frozenset({"/healthz"})

        async def respond(self, request: Request, response: Any) -> None:
            work.now += 1
            work.order.append(f"{request.peer}{request.path}")

    async def send(pages: Pages, peer: str, path: str) -> None:
        request = Request("GET", path, "", {}, b"")
        request.peer = peer
        await pages.handle(request, None)  # type: ignore[arg-type]

    async def main() -> None:
        pages = Pages(work.control)
        flood = [asyncio.ensure_future(send(pages, "10.0.0.1", "/metrics")) for _ in range(20)]
        await asyncio.sleep(0)
        await send(pages, "10.0.0.1", "/healthz")
        assert work.order == ["10.0.0.1/metrics", "10.0.0.1/healthz"]
        await send(pages, "10.0.0.2", "/metrics")
        errors = [result for result in await asyncio.gather(*flood, return_exceptions=True) if isinstance(result, HttpError)]
        assert len(errors) == 20 - 1 - 5
        assert (errors[0].status, errors[0].headers) == (429, [(b"retry-after", b"1")])
        assert work.order.index("10.0.0.2/metrics") <= 5

    work = Work(queue_length=5)
    asyncio.run(main())


@pytest.mark.parametrize(
    ("user", "priority"),
    [
        (User("admin", groups=("system:masters",)), 4),
        (NODE, 4),
        (User("system:kube-scheduler"), 4),
        (ACCOUNT, 2),
        (User("system:kube-controller-manager"), 2),
        (ALICE, 1),
        (User("system:nodes-impostor"), 1),
    ],
)
def test_system_comes_before_controllers_and_users(user: User, priority: int) -> None:
    assert user.flow_priority == priority
