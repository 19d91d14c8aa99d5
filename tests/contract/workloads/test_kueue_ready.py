"""Kueue that waits for pods: who does not get ready in time, who waits for whom, and who is next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.why import Asker, asker, asking, create

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.kueue import Desk
    from tests.support.kueue_settings import Settings


@pytest.fixture(scope="module")
def asks(cluster: Cluster) -> Iterator[Asker]:
    with asker(cluster) as made:
        yield made


def _ready(desk: Desk, name: str) -> None:
    """The pod of a Job runs."""
    query, core = {"labelSelector": f"batch.kubernetes.io/job-name={name}"}, f"/api/v1/namespaces/{desk.ns}/pods"
    pod = desk.until(lambda: desk.api.get(core, query).ok().json["items"], f"the pod of {name}")[0]
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    desk.api.patch(f"{core}/{pod['metadata']['name']}/status", {"status": status}).ok()
    desk.until_is(name, "PodsReady")


def _waiting(timeout: str, block: bool = False, **again: Any) -> dict[str, Any]:
    strategy = {"backoffBaseSeconds": 1, **again}
    return {"waitForPodsReady": {"timeout": timeout, "blockAdmission": block, "requeuingStrategy": strategy}}


def test_one_after_another(desk: Desk, kueue: Settings) -> None:
    kueue.configure(**_waiting("5m", block=True))
    desk.queue("q", {"name": "f", "cpu": 4})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.until_is("a", "PodsReady", "False")
    desk.job("b", "q").ok(201)
    desk.until_waits("b", "waiting")
    desk.until_is("b", "PodsReady", "False")
    desk.settles("ready_blocked", lambda: desk.picture("a", "b"))
    _ready(desk, "a")
    desk.until_runs("b")
    desk.until_is("b", "PodsReady", "False")
    desk.settles("ready_one_after_another", lambda: desk.picture("a", "b"))


def test_why_one_waits_for_another(desk: Desk, kueue: Settings, asks: Asker) -> None:
    kueue.configure(**_waiting("5m", block=True))
    desk.queue("q", {"name": "f", "cpu": 4})
    for name in ("a", "b"):
        create(desk.api, desk.ns, name, asking({"cpu": 1}), queue="q")

    def told() -> bool:
        """Jobs of other cases may be in the way of both: then the first of the two hears it."""
        causes = [each.kind.name for name in ("a", "b") for each in asks.ask(desk.ns, name).causes]
        return "others-not-ready" in causes

    desk.until(told, "others-not-ready")


def test_never_ready(desk: Desk, kueue: Settings) -> None:
    kueue.configure(**_waiting("2s", backoffLimitCount=1))
    desk.queue("q", {"name": "f", "cpu": 4})
    desk.job("a", "q").ok(201)
    desk.until_is("a", "Evicted", reason="PodsReadyTimeout")
    desk.until_is("a", "Requeued", reason="BackoffFinished")
    desk.until_is("a", "Evicted", reason="DeactivatedDueToRequeuingLimitExceeded")
    desk.until_is("a", "QuotaReserved", "False")
    desk.until_is("a", "Requeued", "False")
    desk.settles("never_ready", lambda: desk.picture("a"))


def test_why_it_was_sent_back(desk: Desk, kueue: Settings, asks: Asker) -> None:
    kueue.configure(**_waiting("2s", backoffLimitCount=1))
    desk.queue("q", {"name": "f", "cpu": 4})
    create(desk.api, desk.ns, "a", asking({"cpu": 1}), queue="q")
    found = asks.until(desk.ns, "a", "pods-not-ready-in-time").causes[0]
    assert "It was sent back once" in found.words
    desk.until_is("a", "Evicted", reason="DeactivatedDueToRequeuingLimitExceeded")
    assert "Kueue gave it up" in asks.until(desk.ns, "a", "pods-not-ready-in-time").causes[0].words


@pytest.mark.parametrize("timestamp", ["Creation", "Eviction"])
def test_who_is_next(desk: Desk, kueue: Settings, timestamp: str) -> None:
    kueue.configure(**_waiting("5s", timestamp=timestamp))
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    for name in "bc":
        desk.tick()
        desk.job(name, "q").ok(201)
    desk.until_is("a", "Evicted", reason="PodsReadyTimeout")
    desk.until_runs("b")
    _ready(desk, "b")
    desk.until_is("a", "Requeued", reason="BackoffFinished")
    desk.finish("b")
    first = "a" if timestamp == "Creation" else "c"
    desk.until(lambda: desk.condition(first, "Admitted").get("status") == "True", f"{first} is admitted")
    other = "ac".replace(first, "")
    assert desk.condition(other, "Admitted").get("status") != "True"
