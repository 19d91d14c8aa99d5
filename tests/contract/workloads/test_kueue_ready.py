"""Kueue's waitForPodsReady: timeouts, blocked admission, and requeueing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.diagnosis import DiagnosisClient, create, diagnosis_client, replicated_job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.kueue import KueueHarness
    from tests.support.kueue_install import Settings


@pytest.fixture(scope="module")
def diagnosis(cluster: Cluster) -> Iterator[DiagnosisClient]:
    with diagnosis_client(cluster) as created:
        yield created


def _ready(harness: KueueHarness, name: str) -> None:
    """Make the pod of a Job ready."""
    query, core = {"labelSelector": f"batch.kubernetes.io/job-name={name}"}, f"/api/v1/namespaces/{harness.ns}/pods"
    pod = harness.until(lambda: harness.api.get(core, query).ok().json["items"], f"the pod of {name}")[0]
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    harness.api.patch(f"{core}/{pod['metadata']['name']}/status", {"status": status}).ok()
    harness.wait_condition(name, "PodsReady")


def _waiting(timeout: str, block: bool = False, **again: Any) -> dict[str, Any]:
    strategy = {"backoffBaseSeconds": 1, **again}
    return {"waitForPodsReady": {"timeout": timeout, "blockAdmission": block, "requeuingStrategy": strategy}}


def test_jobs_are_admitted_one_after_another(harness: KueueHarness, kueue: Settings) -> None:
    kueue.configure(**_waiting("5m", block=True))
    harness.queue("q", {"name": "f", "cpu": 4})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    harness.wait_condition("a", "PodsReady", "False")
    harness.job("b", "q").ok(201)
    harness.wait_pending("b", "waiting")
    harness.wait_condition("b", "PodsReady", "False")
    harness.settles("ready_blocked", lambda: harness.picture("a", "b"))
    _ready(harness, "a")
    harness.wait_admitted("b")
    harness.wait_condition("b", "PodsReady", "False")
    harness.settles("ready_one_after_another", lambda: harness.picture("a", "b"))


def test_why_reports_blocked_admission(harness: KueueHarness, kueue: Settings, diagnosis: DiagnosisClient) -> None:
    kueue.configure(**_waiting("5m", block=True))
    harness.queue("q", {"name": "f", "cpu": 4})
    for name in ("a", "b"):
        create(harness.api, harness.ns, name, replicated_job({"cpu": 1}), queue="q")

    def pending_reason() -> bool:
        """Jobs of other tests may block both: then the first of the two has the message."""
        causes = [cause.kind.name for name in ("a", "b") for cause in diagnosis.diagnose_job(harness.ns, name).causes]
        return "others-not-ready" in causes

    harness.until(pending_reason, "others-not-ready")


def test_job_that_is_never_ready_is_evicted(harness: KueueHarness, kueue: Settings) -> None:
    kueue.configure(**_waiting("2s", backoffLimitCount=1))
    harness.queue("q", {"name": "f", "cpu": 4})
    harness.job("a", "q").ok(201)
    harness.wait_condition("a", "Evicted", reason="PodsReadyTimeout")
    harness.wait_condition("a", "Requeued", reason="BackoffFinished")
    harness.wait_condition("a", "Evicted", reason="DeactivatedDueToRequeuingLimitExceeded")
    harness.wait_condition("a", "QuotaReserved", "False")
    harness.wait_condition("a", "Requeued", "False")
    harness.settles("never_ready", lambda: harness.picture("a"))


def test_why_reports_eviction(harness: KueueHarness, kueue: Settings, diagnosis: DiagnosisClient) -> None:
    kueue.configure(**_waiting("2s", backoffLimitCount=1))
    harness.queue("q", {"name": "f", "cpu": 4})
    create(harness.api, harness.ns, "a", replicated_job({"cpu": 1}), queue="q")
    result = diagnosis.until(harness.ns, "a", "pods-not-ready-in-time").causes[0]
    assert "It was evicted once" in result.message
    harness.wait_condition("a", "Evicted", reason="DeactivatedDueToRequeuingLimitExceeded")
    assert "Kueue deactivated it" in diagnosis.until(harness.ns, "a", "pods-not-ready-in-time").causes[0].message


def test_replicated_job_that_starts_later_counts_as_not_ready(
    harness: KueueHarness, kueue: Settings, diagnosis: DiagnosisClient
) -> None:
    """Kueue v0.15 expects all replicated jobs of a JobSet, also those that JobSet has not created."""
    kueue.configure(**_waiting("3s", backoffLimitCount=1))
    harness.queue("q", {"name": "f", "cpu": 4})
    follows = [{"name": "first", "status": "Complete"}]
    create(
        harness.api,
        harness.ns,
        "a",
        replicated_job({"cpu": 1}, "first"),
        replicated_job({"cpu": 1}, "second", dependsOn=follows),
        queue="q",
    )
    query, core = {"labelSelector": "jobset.sigs.k8s.io/jobset-name=a"}, f"/api/v1/namespaces/{harness.ns}/pods"
    pod = harness.until(lambda: harness.api.get(core, query).ok().json["items"], "the pod of the first replicated job")[0]
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    harness.api.patch(f"{core}/{pod['metadata']['name']}/status", {"status": status}).ok()
    harness.wait_condition("a", "Evicted", reason="PodsReadyTimeout")
    result = diagnosis.until(harness.ns, "a", "pods-not-ready-in-time").causes[0]
    assert "Kueue also counts second, which cannot start before other replicated jobs" in result.message


@pytest.mark.parametrize("timestamp", ["Creation", "Eviction"])
def test_requeue_order(harness: KueueHarness, kueue: Settings, timestamp: str) -> None:
    kueue.configure(**_waiting("5s", timestamp=timestamp))
    harness.queue("q", {"name": "f", "cpu": 1})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    for name in "bc":
        harness.tick()
        harness.job(name, "q").ok(201)
    harness.wait_condition("a", "Evicted", reason="PodsReadyTimeout")
    harness.wait_admitted("b")
    _ready(harness, "b")
    harness.wait_condition("a", "Requeued", reason="BackoffFinished")
    harness.finish("b")
    first = "a" if timestamp == "Creation" else "c"
    harness.until(lambda: harness.condition(first, "Admitted").get("status") == "True", f"{first} is admitted")
    other = "ac".replace(first, "")
    assert harness.condition(other, "Admitted").get("status") != "True"
