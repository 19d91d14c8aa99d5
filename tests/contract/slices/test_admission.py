"""The slices controller as an admission check of Kueue, on the twin and on the real control plane: capacity first, then
admission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.conftest import fresh_namespace
from tests.support.clusters import Cluster, RealCluster
from tests.support.jobsets import GROUP
from tests.support.kueue import KueueHarness
from tests.support.kueue_namespaces import until_known
from tests.support.polling import eventually
from tests.support.slices_controller import jobset

from sliceworks.controllers.slices import well_known

if TYPE_CHECKING:
    from tests.support.slice_thread import SliceThread

Obj = dict[str, Any]
_PATIENCE = 90.0
_LABELS = {"cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice", "cloud.google.com/gke-tpu-topology": "2x2x2"}


@pytest.fixture(scope="module")
def kueue(cluster: Cluster) -> None:
    """Install Kueue in the cluster."""
    if isinstance(cluster, RealCluster):
        from tests.real.kueue import KueueManager

        KueueManager(cluster.plane, cluster.api)


@pytest.fixture
def harness(cluster: Cluster, kueue: None, slices: SliceThread, ns: str) -> KueueHarness:
    """A queue whose flavor is a TPU slice and whose admission check is ours."""
    created = KueueHarness(cluster, ns)
    until_known(cluster.api, fresh_namespace(cluster.api))
    check = created.own("slices")
    created.make("AdmissionCheck", "admissionchecks", check, {"controllerName": well_known.CHECK_CONTROLLER}).ok(201)
    created.flavor("v4", nodeLabels=_LABELS, tolerations=[{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}])
    created.queue("q", {"name": "v4", "google.com/tpu": 16}, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    return created


def _create(harness: KueueHarness, name: str = "js", **more: Any) -> None:
    # The flavor sets the node selectors: the JobSet requests only chips.
    none = dict.fromkeys(_LABELS)
    body = jobset(name, 2, namespace=harness.ns, labels={"kueue.x-k8s.io/queue-name": "q"}, selector=none, suspend=True, **more)
    harness.api.post(f"{GROUP}/namespaces/{harness.ns}/jobsets", body).ok(201)


def _pods(harness: KueueHarness, phase: str) -> list[Obj]:
    items: list[Obj] = harness.api.get(f"/api/v1/namespaces/{harness.ns}/pods").ok().json["items"]
    return [pod for pod in items if pod["status"].get("phase") == phase]


def _pools(harness: KueueHarness, slices: SliceThread) -> dict[str, str]:
    label = "google.com/tpu-provisioner-jobset-namespace"
    return {name: pool["status"] for name, pool in slices.pools().items() if pool["config"]["labels"].get(label) == harness.ns}


def _check(harness: KueueHarness, name: str = "js") -> Obj:
    result: list[Obj] = (harness.workloads()[name].get("status") or {}).get("admissionChecks") or [{}]
    return result[0]


def test_jobset_is_admitted_when_slices_are_ready(harness: KueueHarness, slices: SliceThread) -> None:
    _create(harness, seconds=600)
    eventually(lambda: len(_pools(harness, slices)) == 2, _PATIENCE, "two pools exist")
    running = _pods(harness, "Running")
    if _check(harness)["state"] == "Pending":  # the pods were already scheduled when the check was read
        assert not running
    eventually(lambda: len(_pods(harness, "Running")) == 4, _PATIENCE, "four pods run")
    assert set(_pools(harness, slices).values()) == {"RUNNING"}
    assert _check(harness)["state"] == "Ready"
    assert _check(harness)["message"] == "2 slices are ready"
    own = {well_known.POOL_JOBSET_NAME: "js", well_known.POOL_JOBSET_NAMESPACE: harness.ns}
    assert all(own.items() <= pod["spec"]["nodeSelector"].items() for pod in _pods(harness, "Running"))
    harness.api.delete(f"{GROUP}/namespaces/{harness.ns}/jobsets/js").ok()
    eventually(lambda: not _pools(harness, slices), _PATIENCE, "the pools are deleted")


def test_invalid_slice_is_rejected(harness: KueueHarness, slices: SliceThread) -> None:
    _create(harness, chips=2)
    eventually(lambda: "AdmissionCheck" in str(harness.condition("js", "Evicted")), _PATIENCE, "the Workload is refused")
    reason = "tpu-v4-podslice 2x2x2 has no hosts with 2 chips"

    def condition() -> bool:
        events = harness.api.get(f"/api/v1/namespaces/{harness.ns}/events").ok().json["items"]
        return any(reason in event["message"] for event in events)

    eventually(condition, _PATIENCE, "the Workload has the reason")
    assert not _pools(harness, slices)
