"""Capacity first, then admission: the controller as an admission check of Kueue, on the twin and on the real thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.conftest import fresh_namespace
from tests.support.clusters import Cluster, RealCluster
from tests.support.jobsets import GROUP
from tests.support.known_namespaces import until_known
from tests.support.kueue import Desk
from tests.support.slices import jobset
from tests.support.waiting import eventually

from sliceworks.controllers.slices import words

if TYPE_CHECKING:
    from tests.support.slice_thread import SliceThread

Obj = dict[str, Any]
_PATIENCE = 90.0
_LABELS = {"cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice", "cloud.google.com/gke-tpu-topology": "2x2x2"}


@pytest.fixture(scope="module")
def kueue(cluster: Cluster) -> None:
    """Kueue, installed in the cluster."""
    if isinstance(cluster, RealCluster):
        from tests.real.kueue import KueueManager

        KueueManager(cluster.plane, cluster.api)


@pytest.fixture
def desk(cluster: Cluster, kueue: None, slices: SliceThread, ns: str) -> Desk:
    """A queue whose flavor is a TPU slice, and whose check is ours."""
    made = Desk(cluster, ns)
    until_known(cluster.api, fresh_namespace(cluster.api))
    check = made.own("slices")
    made.make("AdmissionCheck", "admissionchecks", check, {"controllerName": words.CHECK_CONTROLLER}).ok(201)
    made.flavor("v4", nodeLabels=_LABELS, tolerations=[{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}])
    made.queue("q", {"name": "v4", "google.com/tpu": 16}, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    return made


def _create(desk: Desk, name: str = "js", **more: Any) -> None:
    # The flavor brings the selectors: the JobSet asks for chips alone.
    none = dict.fromkeys(_LABELS)
    body = jobset(name, 2, namespace=desk.ns, labels={"kueue.x-k8s.io/queue-name": "q"}, selector=none, suspend=True, **more)
    desk.api.post(f"{GROUP}/namespaces/{desk.ns}/jobsets", body).ok(201)


def _pods(desk: Desk, phase: str) -> list[Obj]:
    items: list[Obj] = desk.api.get(f"/api/v1/namespaces/{desk.ns}/pods").ok().json["items"]
    return [pod for pod in items if pod["status"].get("phase") == phase]


def _pools(desk: Desk, slices: SliceThread) -> dict[str, str]:
    label = "google.com/tpu-provisioner-jobset-namespace"
    return {name: pool["status"] for name, pool in slices.pools().items() if pool["config"]["labels"].get(label) == desk.ns}


def _check(desk: Desk, name: str = "js") -> Obj:
    found: list[Obj] = (desk.workloads()[name].get("status") or {}).get("admissionChecks") or [{}]
    return found[0]


def test_a_jobset_is_admitted_when_its_slices_are_there(desk: Desk, slices: SliceThread) -> None:
    _create(desk, seconds=600)
    eventually(lambda: len(_pools(desk, slices)) == 2, _PATIENCE, "two pools are made")
    running = _pods(desk, "Running")
    if _check(desk)["state"] == "Pending":  # it was when the pods were looked at, too
        assert not running
    eventually(lambda: len(_pods(desk, "Running")) == 4, _PATIENCE, "four pods run")
    assert set(_pools(desk, slices).values()) == {"RUNNING"}
    assert _check(desk)["state"] == "Ready"
    assert _check(desk)["message"] == "2 slices are ready"
    own = {words.POOL_JOBSET_NAME: "js", words.POOL_JOBSET_NAMESPACE: desk.ns}
    assert all(own.items() <= pod["spec"]["nodeSelector"].items() for pod in _pods(desk, "Running"))
    desk.api.delete(f"{GROUP}/namespaces/{desk.ns}/jobsets/js").ok()
    eventually(lambda: not _pools(desk, slices), _PATIENCE, "the pools are given back")


def test_what_cannot_be_had_is_rejected(desk: Desk, slices: SliceThread) -> None:
    _create(desk, chips=2)
    eventually(lambda: "AdmissionCheck" in str(desk.condition("js", "Evicted")), _PATIENCE, "the Workload is refused")
    reason = "2 chips per host do not fit tpu-v4-podslice 2x2x2"

    def told() -> bool:
        events = desk.api.get(f"/api/v1/namespaces/{desk.ns}/events").ok().json["items"]
        return any(reason in event["message"] for event in events)

    eventually(told, _PATIENCE, "it is told why")
    assert not _pools(desk, slices)
