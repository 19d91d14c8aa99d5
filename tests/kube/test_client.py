"""The client: requests, error responses, retries, lists, watches and subresources."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.support.scripted_transport import Feed, Scripted, answer, line, listed, pod, refusal, stream

from sliceworks.base import clock
from sliceworks.base.errors import (
    ApiError,
    Conflict,
    Expired,
    InternalError,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    Unreachable,
)
from sliceworks.base.retry import NEVER, Backoff, Retry
from sliceworks.base.transport import Response
from sliceworks.kube.client import Client
from sliceworks.kube.resources import DEPLOYMENT, NODE, POD


def test_client_sends_requests_to_the_right_paths() -> None:
    async def main() -> None:
        transport = Scripted(*[answer({"kind": "Pod"})] * 6)
        client = Client(transport, namespace="own", field_manager="me")
        await client.get(POD, "a")
        await client.get(NODE, "n")
        await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "its"}})
        await client.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, "given")
        await client.patch(POD, "a", {}, field_manager="other")
        await client.delete(POD, "a", uid="u")
        assert [request.path for request in transport.requests] == [
            "/api/v1/namespaces/own/pods/a",
            "/api/v1/nodes/n",
            "/api/v1/namespaces/its/pods",
            "/api/v1/namespaces/given/pods/a",
            "/api/v1/namespaces/own/pods/a",
            "/api/v1/namespaces/own/pods/a",
        ]
        assert [dict(request.query).get("fieldManager") for request in transport.requests] == [
            None,
            None,
            "me",
            "me",
            "other",
            None,
        ]

    clock.run(main(), virtual=True)


def test_status_response_raises_the_matching_error() -> None:
    async def main() -> None:
        client = Client(Scripted(NotFound('pods "a" not found', details={"name": "a", "kind": "pods"})))
        with pytest.raises(NotFound, match='pods "a" not found') as result:
            await client.get(POD, "a")
        assert result.value.details == {"name": "a", "kind": "pods"}

    clock.run(main(), virtual=True)


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (Response(502, {}, b"<html>\nBad gateway"), "the server returned HTTP 502: <html>"),
        (Response(500, {}, b""), "the server returned HTTP 500"),
        (Response(404, {}, b'{"some": "json"}'), 'the server returned HTTP 404: {"some": "json"}'),
    ],
)
def test_error_response_without_status_raises_by_code(response: Response, message: str) -> None:
    with pytest.raises(ApiError) as result:
        clock.run(Client(Scripted(response)).get(POD, "a"), virtual=True)
    assert str(result.value) == message
    assert result.value.code == response.status


@pytest.mark.parametrize("body", [b"<html>", b"[]"])
def test_response_must_be_a_json_object(body: bytes) -> None:
    with pytest.raises(Unreachable, match="is this a Kubernetes API"):
        clock.run(Client(Scripted(Response(200, {}, body))).get(POD, "a"), virtual=True)


def test_warnings_are_passed_to_the_callback() -> None:
    received: list[str] = []
    header = '299 - "unknown field \\"spec.x\\"", 299 - "v1beta1 is deprecated, use v1"'
    client = Client(Scripted(answer({}, headers={"warning": header})), on_warning=received.append)
    clock.run(client.get(POD, "a"), virtual=True)
    assert received == ['unknown field "spec.x"', "v1beta1 is deprecated, use v1"]


def test_retry_after_is_obeyed() -> None:
    async def main() -> float:
        busy = refusal(TooManyRequests("busy"), {"retry-after": "3"})
        away = refusal(ServiceUnavailable("away"), {"retry-after": "4"})
        client = Client(Scripted(busy, away, answer({})))
        await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
        return clock.loop_time()

    assert clock.run(main(), virtual=True) == pytest.approx(7)


@pytest.mark.parametrize(
    ("response", "policy"),
    [
        (refusal(TooManyRequests("the budget does not allow it")), Retry()),
        (refusal(InternalError("broken")), Retry()),
        (refusal(TooManyRequests("busy"), {"retry-after": "1"}), NEVER),
        (refusal(TooManyRequests("busy"), {"retry-after": "100"}), Retry(longest_wait=60)),
        (refusal(Conflict("changed"), {"retry-after": "1"}), Retry()),
    ],
)
def test_error_without_retry_after_is_not_retried(response: Response, policy: Retry) -> None:
    transport = Scripted(response)
    with pytest.raises(ApiError):
        clock.run(Client(transport, retry=policy).get(POD, "a"), virtual=True)
    assert len(transport.requests) == 1


def test_unanswered_requests_are_retried_only_if_idempotent() -> None:
    async def main() -> None:
        policy = Retry(attempts=3, backoff=Backoff(first=1, cap=10, jitter=0))
        transport = Scripted(Unreachable("x"), Unreachable("x"), answer({}), Unreachable("x"), answer({}))
        client = Client(transport, retry=policy)
        await client.get(POD, "a")
        assert clock.loop_time() == pytest.approx(3)
        await client.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
        for call in (client.patch(POD, "a", {}), client.delete(POD, "a")):
            transport.answers.append(Unreachable("once"))
            with pytest.raises(Unreachable, match="once"):
                await call
        transport.answers.extend([Unreachable("x")] * 3)
        with pytest.raises(Unreachable):
            await client.get(POD, "a")
        assert not transport.answers

    clock.run(main(), virtual=True)


def test_using_changes_the_retry_policy() -> None:
    transport = Scripted(Unreachable("x"))
    client = Client(transport, namespace="ml", field_manager="me").using(retry=NEVER, field_manager="you")
    assert (client.namespace, client.field_manager) == ("ml", "you")
    with pytest.raises(Unreachable):
        clock.run(client.get(POD, "a"), virtual=True)


def test_list_sets_api_version_and_kind_of_items() -> None:
    result = clock.run(Client(Scripted(listed(pod("a"), version="9", more="t"))).list(POD, limit=1), virtual=True)
    assert (result.items[0]["apiVersion"], result.items[0]["kind"]) == ("v1", "Pod")
    assert (result.resource_version, result.continue_token) == ("9", "t")


def test_list_all_reads_chunks() -> None:
    async def main() -> None:
        transport = Scripted(listed(pod("a"), version="9", more="t"), listed(pod("b"), version="9"))
        result = await Client(transport).list_all(POD, chunk=1, resource_version="5", labels="x")
        assert [item["metadata"]["name"] for item in result.items] == ["a", "b"]
        assert (result.resource_version, result.continue_token) == ("9", "")
        assert [dict(request.query) for request in transport.requests] == [
            {"limit": "1", "resourceVersion": "5", "labelSelector": "x"},
            {"limit": "1", "continue": "t", "labelSelector": "x"},
        ]

    clock.run(main(), virtual=True)


def test_list_with_expired_token_is_read_again_in_one_request() -> None:
    async def main() -> None:
        anew = listed(pod("a"), pod("c"), version="12")
        transport = Scripted(listed(pod("a"), more="t"), Expired("too old"), anew)
        result = await Client(transport).list_all(POD, chunk=1)
        assert [item["metadata"]["name"] for item in result.items] == ["a", "c"]
        assert transport.requests[-1].query == (("limit", "0"),)

        transport = Scripted(listed(pod("a"), more="t"), Expired("too old"), anew)
        assert [item["metadata"]["name"] async for item in Client(transport).iterate(POD, chunk=1)] == ["a", "c"]

        with pytest.raises(Expired):
            await Client(Scripted(Expired("too old"))).list_all(POD, chunk=1)

    clock.run(main(), virtual=True)


def test_iterate_returns_all_objects() -> None:
    async def main() -> None:
        transport = Scripted(listed(pod("a"), pod("b"), more="t"), listed(pod("c")))
        assert [item["metadata"]["name"] async for item in Client(transport).iterate(POD, chunk=2)] == ["a", "b", "c"]

    clock.run(main(), virtual=True)


def test_watch_decodes_events_across_chunks() -> None:
    async def main() -> None:
        wire = line("ADDED", pod("a")) + line("MODIFIED", pod("a", "2")) + line("BOOKMARK", {"metadata": {"resourceVersion": "3"}})
        for size in (1, 7, 50, len(wire)):
            feed = Feed(*(wire[at : at + size] for at in range(0, len(wire), size)), ended=True)
            events = [event async for event in Client(Scripted(stream(feed))).watch(POD, "d", resource_version="1")]
            assert [event.type for event in events] == ["ADDED", "MODIFIED", "BOOKMARK"]
            assert events[1].object["metadata"]["resourceVersion"] == "2"
            assert feed.closed

    clock.run(main(), virtual=True)


def test_watch_error_is_raised_after_earlier_events() -> None:
    async def main() -> None:
        feed = Feed(line("ADDED", pod("a")) + line("ERROR", Expired("too old resource version: 1 (5)").status()))
        watch = Client(Scripted(stream(feed))).watch(POD)
        assert (await anext(watch)).type == "ADDED"
        with pytest.raises(Expired, match="too old resource version"):
            await anext(watch)
        assert feed.closed

    clock.run(main(), virtual=True)


@pytest.mark.parametrize("wire", [b'{"type":"ADDED"', b"nonsense\n", b'{"no":"event"}\n', b"[]\n"])
def test_broken_watch_is_unreachable(wire: bytes) -> None:
    async def main() -> None:
        async for _ in Client(Scripted(stream(Feed(wire, ended=True)))).watch(POD):
            pass

    with pytest.raises(Unreachable, match="watch"):
        clock.run(main(), virtual=True)


def test_leaving_a_watch_closes_the_stream() -> None:
    async def main() -> None:
        feed = Feed(line("ADDED", pod("a")))
        watch = Client(Scripted(stream(feed))).watch(POD)
        async for _ in watch:
            break
        await watch.aclose()
        assert feed.closed

    clock.run(main(), virtual=True)


def test_subresources() -> None:
    async def main() -> None:
        transport = Scripted(*[answer({"kind": "Status"})] * 4)
        client = Client(transport)
        await client.patch(DEPLOYMENT, "d", {"spec": {"replicas": 3}}, "ml", subresource="scale")
        await client.get(DEPLOYMENT, "d", "ml", subresource="scale")
        await client.evict("p", "ml", grace_period_seconds=1)
        await client.create_token("robot", "ml", audiences=["me"], seconds=600)
        assert [
            (request.method, request.path.removeprefix("/api/v1").removeprefix("/apis/apps/v1")) for request in transport.requests
        ] == [
            ("PATCH", "/namespaces/ml/deployments/d/scale"),
            ("GET", "/namespaces/ml/deployments/d/scale"),
            ("POST", "/namespaces/ml/pods/p/eviction"),
            ("POST", "/namespaces/ml/serviceaccounts/robot/token"),
        ]
        bodies: list[dict[str, Any]] = [orjson.loads(request.body or b"{}") for request in transport.requests]
        assert bodies[2]["deleteOptions"]["gracePeriodSeconds"] == 1
        assert bodies[3]["spec"] == {"audiences": ["me"], "expirationSeconds": 600}

    clock.run(main(), virtual=True)


def test_logs() -> None:
    async def main() -> None:
        client = Client(
            Scripted(Response(200, {}, b"one\ntwo\n"), stream(Feed(b"three\n", b"four\n", ended=True)), Response(200, {}, b"all"))
        )
        assert await client.logs("p", "ml", tail_lines=2) == "one\ntwo\n"
        assert [piece async for piece in client.follow_logs("p", "ml")] == [b"three\n", b"four\n"]
        assert [piece async for piece in client.follow_logs("p", "ml")] == [b"all"]

    clock.run(main(), virtual=True)


def test_closing_the_client_closes_the_transport() -> None:
    async def main() -> bool:
        transport = Scripted()
        async with Client(transport):
            pass
        return transport.closed

    assert clock.run(main(), virtual=True)
