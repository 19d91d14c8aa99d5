"""Informers: the cache follows the cluster, handlers see every change once and in order, and errors are survived."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.real_time import RealTime
from tests.support.scripted_transport import Answer, Feed, Scripted, line, listed, pod, stream

from sliceworks.base import clock
from sliceworks.base.errors import (
    ApiError,
    Expired,
    Forbidden,
    InternalError,
    ServerTimeout,
    TimedOut,
    TooManyRequests,
    Unreachable,
)
from sliceworks.base.retry import NEVER, Backoff
from sliceworks.kube.client import Client
from sliceworks.kube.informers import Delta, Informers
from sliceworks.kube.resources import POD, Key

if TYPE_CHECKING:
    from collections.abc import Coroutine


def run(main: Coroutine[Any, Any, None]) -> None:
    clock.run(main, virtual=True)


def informers(*answers: Answer) -> tuple[Scripted, Informers]:
    transport = Scripted(*answers)
    return transport, Informers(Client(transport, retry=NEVER), backoff=Backoff(first=1, cap=30, jitter=0))


def told(delta: Delta) -> str:
    mark = "" if delta.final else "?"
    old = f" {delta.old['metadata']['resourceVersion']}>" if delta.old else " "
    return f"{delta.kind}{mark} {delta.object['metadata']['name']}{old}{delta.object['metadata']['resourceVersion']}"


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def request_log(transport: Scripted) -> list[str]:
    """Each request as `list@version` or `watch@version`."""
    words = []
    for request in transport.requests:
        query = dict(request.query)
        words.append(("watch@" if "watch" in query else "list@") + query.get("resourceVersion", ""))
    return words


def test_informer_lists_then_watches() -> None:
    async def main() -> None:
        feed, received = Feed(), list[str]()
        transport, factory = informers(listed(pod("a", "1"), pod("b", "2"), version="5"), stream(feed))
        async with factory:
            pods = factory.open(POD, "d", labels="x=y")
            pods.add_handler(lambda delta: received.append(told(delta)))
            assert not pods.synced
            await pods.wait_synced()
            feed.put("ADDED", pod("c", "6"))
            feed.put("MODIFIED", pod("a", "7", managedFields=[1]))
            feed.put("BOOKMARK", {"metadata": {"resourceVersion": "8"}})
            feed.put("DELETED", pod("b", "9"))
            feed.put("DELETED", pod("unknown", "10"))
            await settle()
            assert received == ["added a 1", "added b 2", "added c 6", "updated a 1>7", "deleted b 2>9"]
            assert pods.store.keys() == [Key("d", "a"), Key("d", "c")]
            kept = pods.store.get("a", "d")
            assert kept is not None
            assert "managedFields" not in kept["metadata"]
        assert feed.closed
        query = dict(transport.requests[1].query)
        assert (query["labelSelector"], query["allowWatchBookmarks"], query["resourceVersion"]) == ("x=y", "true", "5")
        assert 300 <= int(query["timeoutSeconds"]) <= 600

    run(main())


def test_watch_resumes_at_the_last_version() -> None:
    async def main() -> None:
        first, second = Feed(line("ADDED", pod("a", "6")), line("BOOKMARK", {"metadata": {"resourceVersion": "9"}})), Feed()
        transport, factory = informers(listed(version="5"), stream(first), stream(second))
        async with factory:
            pods = factory.open(POD)
            await pods.wait_synced()
            await clock.sleep(400)
            first.end()
            await settle()
            assert request_log(transport) == ["list@0", "watch@5", "watch@9"]
            assert len(pods.store) == 1

    run(main())


def test_watch_without_end_times_out() -> None:
    async def main() -> None:
        silent = Feed()
        transport, factory = informers(listed(version="5"), stream(silent), stream(Feed()))
        async with factory:
            factory.open(POD)
            await clock.sleep(640)
            assert silent.closed
            assert request_log(transport) == ["list@0", "watch@5", "watch@5"]

    run(main())


def test_expired_version_is_listed_again_at_once() -> None:
    async def main() -> None:
        expired = line("ERROR", Expired("too old resource version").status())
        first, second, received = Feed(line("MODIFIED", pod("a", "6")), expired), Feed(), list[str]()
        transport, factory = informers(
            listed(pod("a", "1"), pod("b", "2"), pod("same", "3"), pod("again", "4", uid="old"), version="5"),
            stream(first),
            listed(pod("a", "20"), pod("c", "21"), pod("same", "3"), pod("again", "22", uid="new"), version="25"),
            stream(second),
        )
        async with factory:
            factory.open(POD).add_handler(lambda delta: received.append(told(delta)))
            await settle()
            assert clock.loop_time() == 0
            assert received[4:] == [
                "updated a 1>6",
                "updated a 6>20",
                "added c 21",
                "deleted? again 4>4",
                "added again 22",
                "deleted? b 2>2",
            ]
            assert request_log(transport) == ["list@0", "watch@5", "list@6", "watch@25"]

    run(main())


@pytest.mark.parametrize(
    "error",
    [
        Expired("too old"),
        ServerTimeout("Too large resource version: 6", details={"causes": [{"reason": "ResourceVersionTooLarge"}]}),
    ],
)
def test_unavailable_version_falls_back_to_the_latest(error: ApiError) -> None:
    async def main() -> None:
        transport, factory = informers(
            listed(version="5"), Expired("too old"), error, listed(pod("a", "3"), version="4"), stream(Feed())
        )
        async with factory:
            pods = factory.open(POD)
            await clock.sleep(60)
            assert request_log(transport) == ["list@0", "watch@5", "list@5", "list@", "watch@4"]
            assert len(pods.store) == 1

    run(main())


@pytest.mark.parametrize("error", [Unreachable("gone"), InternalError("broken"), TooManyRequests("busy")])
def test_temporary_errors_resume_the_watch(error: Exception) -> None:
    async def main() -> None:
        transport, factory = informers(listed(version="5"), error, error, error, stream(Feed()))
        async with factory:
            factory.open(POD)
            await clock.sleep(7.5)
            assert request_log(transport) == ["list@0", "watch@5", "watch@5", "watch@5", "watch@5"]

    run(main())


def test_watch_may_end_seconds_late_on_a_fast_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a busy twin with --speed 240 would have an eighth of a second to end a watch."""
    RealTime(monkeypatch)

    async def main() -> None:
        transport, factory = informers(listed(version="5"), stream(Feed()), stream(Feed()))
        async with factory:
            factory.open(POD)
            await clock.sleep(600 + 10 * 240)
            assert request_log(transport) == ["list@0", "watch@5"]

    clock.run(main(), speed=240)


def test_backoff_grows_and_is_reset_by_a_stable_watch() -> None:
    async def main() -> None:
        feed = Feed()
        transport, factory = informers(
            Unreachable("x"), Unreachable("x"), Unreachable("x"), listed(version="5"), stream(feed), listed(), stream(Feed())
        )
        async with factory:
            factory.open(POD)
            await clock.sleep(1 + 2 + 4 - 0.5)
            assert len(transport.requests) == 3
            await clock.sleep(100)
            feed.fail(Forbidden("no more"))
            await clock.sleep(1.5)
            assert request_log(transport) == ["list@0"] * 4 + ["watch@5", "list@5", "watch@1"]

    run(main())


def test_watch_that_ends_at_once_is_delayed() -> None:
    async def main() -> None:
        transport, factory = informers(listed(version="5"), *(stream(Feed(ended=True)) for _ in range(10)))
        async with factory:
            factory.open(POD)
            await clock.sleep(10)
            assert len(transport.requests) == 5

    run(main())


def test_sync_timeout_reports_the_last_error() -> None:
    async def main() -> None:
        _, factory = informers(*[Forbidden("pods is forbidden")] * 9)
        async with factory:
            with pytest.raises(TimedOut, match="timed out after 10 s waiting for pods d: pods is forbidden"):
                await factory.open(POD, "d").wait_synced(10)
            with pytest.raises(TimedOut):
                await factory.wait_synced(1)

    run(main())


def test_sync_timeout_is_in_real_seconds_beside_a_fast_twin() -> None:
    async def main() -> None:
        _, factory = informers(*[Forbidden("pods is forbidden")] * 500)
        async with factory:
            start = clock.loop_time()
            with pytest.raises(TimedOut, match=r"timed out after 0\.05 s"):
                await factory.open(POD, "d").wait_synced(0.05)
            assert clock.loop_time() - start >= 500

    clock.run(main(), speed=10_000)


def test_malformed_object_does_not_end_the_informer(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        feed = Feed(line("ADDED", {"no": "metadata"}))
        _, factory = informers(listed(version="5"), stream(feed), listed(pod("a"), version="6"), stream(Feed()))
        async with factory:
            pods = factory.open(POD)
            await clock.sleep(5)
            assert len(pods.store) == 1
            assert feed.closed

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "listing again" in caplog.text


def test_failing_handler_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        def fail(delta: Delta) -> None:
            raise ValueError(delta.kind)

        feed, received = Feed(line("ADDED", pod("a"))), list[str]()
        _, factory = informers(listed(), stream(feed))
        async with factory:
            pods = factory.open(POD)
            pods.add_handler(fail)
            pods.add_handler(lambda delta: received.append(delta.kind))
            await settle()
            assert received == ["added"]

    run(main())
    assert "event handler failed: added d/a" in caplog.text


def test_informers_of_one_selection_share_a_cache() -> None:
    async def main() -> None:
        feed, first, second = Feed(), list[str](), list[str]()
        transport, factory = informers(listed(pod("a")), stream(feed), listed(), stream(Feed()))
        async with factory:
            one, two = factory.open(POD), factory.open(POD)
            one.add_handler(lambda delta: first.append(told(delta)))
            await factory.wait_synced()
            two.add_handler(lambda delta: second.append(told(delta)))
            assert first == second == ["added a 1"]
            assert one.store is two.store
            one.close()
            one.close()
            feed.put("ADDED", pod("b"))
            await settle()
            assert (len(first), len(second)) == (1, 2)
            assert len(transport.requests) == 2
            two.close()
            await settle()
            assert feed.closed
            third = factory.open(POD)
            await third.wait_synced()
            assert third.store is not one.store

    run(main())


def test_resync_delivers_all_objects_again() -> None:
    async def main() -> None:
        received: list[str] = []
        _, factory = informers(listed(pod("a"), pod("b")), stream(Feed()))
        async with factory:
            pods = factory.open(POD)
            pods.add_handler(lambda delta: received.append(told(delta)), resync=30)
            await clock.sleep(65)
            assert received == ["added a 1", "added b 1"] + ["updated a 1>1", "updated b 1>1"] * 2
            pods.close()
            await clock.sleep(100)
            assert len(received) == 6

    run(main())


def test_indexes_and_selection() -> None:
    async def main() -> None:
        def by_node(obj: dict[str, Any]) -> list[str]:
            return [node] if (node := obj["metadata"].get("node")) else []

        feed = Feed()
        _, factory = informers(listed(pod("a", node="n1", labels={"x": "y"}), pod("b", namespace="e")), stream(feed))
        async with factory:
            store = factory.open(POD).store
            store.add_index("node", by_node)
            await factory.wait_synced()

            def names(node: str) -> list[str]:
                return [obj["metadata"]["name"] for obj in store.by_index("node", node)]

            assert names("n1") == ["a"]
            feed.put("MODIFIED", pod("a", "2", node="n2", labels={"x": "y"}))
            feed.put("MODIFIED", pod("b", "3", namespace="e", node="n2"))
            await settle()
            assert (names("n1"), names("n2")) == ([], ["a", "b"])
            feed.put("DELETED", pod("a", "4", node="n2"))
            await settle()
            assert names("n2") == ["b"]
            store.add_index("node", by_node)
            with pytest.raises(ValueError, match="exists already with another function"):
                store.add_index("node", lambda obj: [])
            store.add_index("late", lambda obj: ["all"])
            assert len(store.by_index("late", "all")) == 1
            assert [obj["metadata"]["name"] for obj in store.select("e")] == ["b"]
            assert store.select("d") == []
            assert Key("e", "b") in store
            assert [obj["metadata"]["name"] for obj in store] == ["b"]

    run(main())
