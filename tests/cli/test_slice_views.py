"""Node pools as slices: type, hosts, capacity, owner, state, price."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.catalog.labels import NODE_POOL
from sliceworks.cli import slice_view
from sliceworks.controllers.slices import well_known

Object = dict[str, Any]


def pool(name: str = "train-abc", machine: str = "ct4p-hightpu-4t", nodes: int = 2, **changes: Any) -> Object:
    """A pool that the controller created for JobSet `default/train`; `others` is a foreign pool."""
    config: Object = {"machineType": machine, **changes.pop("config", {})}
    if not changes.pop("others", False):
        config["labels"] = {
            well_known.MANAGER: well_known.MANAGER_VALUE,
            well_known.POOL_JOBSET_NAME: "train",
            well_known.POOL_JOBSET_NAMESPACE: "default",
            well_known.PARENT_NAME: "train-slice-0",
            well_known.PARENT_NAMESPACE: "default",
        }
    body = {"name": name, "status": "RUNNING", "initialNodeCount": nodes, "locations": ["us-central2-b"], "config": config}
    return {**body, **changes}


def node(of: str, ready: bool = True, born: str = "2026-11-15T07:00:00Z") -> Object:
    labels = {NODE_POOL: of}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"metadata": {"name": f"gke-{of}", "labels": labels, "creationTimestamp": born}, "status": {"conditions": conditions}}


def jobset(**annotations: str) -> Object:
    metadata = {"name": "train", "namespace": "default", "annotations": annotations}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": {}}


def only(*views: slice_view.SliceView) -> slice_view.SliceView:
    assert len(views) == 1
    return views[0]


def test_slice_with_its_price() -> None:
    raw = pool(placementPolicy={"type": "COMPACT", "tpuTopology": "2x2x2"})
    view = only(*slice_view.build_views([raw], [node("train-abc"), node("train-abc", born="2026-11-15T06:59:00Z")], [jobset()]))
    assert (view.type_name, view.ready, view.capacity, view.state) == ("v4-16", 2, "on-demand", "ready")
    assert str(view.owner) == "default/train"
    assert view.created is not None
    assert view.created.minute == 59
    assert view.price is not None
    assert view.price.usd == pytest.approx(25.76)
    assert slice_view.slice_data(view)["owner"] == {"kind": "JobSet", "namespace": "default", "name": "train"}


@pytest.mark.parametrize(
    ("raw", "name", "usd"),
    [
        (pool(machine="tpu7x-standard-4t", nodes=16, locations=["us-central1-c"]), "tpu7x-128", 768.0),
        (pool(machine="ct6e-standard-8t", nodes=1, locations=["us-central1-b"]), "v6e-8", 21.6),
        (pool(machine="ct6e-standard-4t", nodes=2, locations=["us-central1-b"]), "v6e-8", 21.6),
        (pool(machine="a3-highgpu-8g", nodes=4, locations=["us-central1-a"]), "h100-80gb-8", 4 * 88.49),
        (
            pool(
                machine="n1-standard-4",
                nodes=2,
                locations=["us-central1-a"],
                config={"accelerators": [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": "1"}]},
            ),
            "t4-1",
            2 * 0.54,
        ),
        (pool(machine="n2-standard-8", nodes=3, locations=["us-central1-a"]), "n2-standard-8", 3 * 0.388),
        (pool(machine="ct4p-hightpu-4t", nodes=3), "ct4p-hightpu-4t", None),
        (pool(machine="z9-mystery-1"), "z9-mystery-1", None),
    ],
)
def test_types_and_prices(raw: Object, name: str, usd: float | None) -> None:
    view = only(*slice_view.build_views([raw], [], [jobset()]))
    assert view.type_name == name
    assert (view.price.usd if view.price else None) == (None if usd is None else pytest.approx(usd))


@pytest.mark.parametrize(
    ("raw", "nodes", "jobsets", "state", "message"),
    [
        (pool(status="PROVISIONING"), [], [jobset()], "provisioning", ""),
        (pool(), [node("train-abc")], [jobset()], "starting", "1 of 2 hosts are ready"),
        (pool(), [node("train-abc"), node("train-abc", ready=False)], [jobset()], "starting", "1 of 2 hosts are ready"),
        (pool(status="STOPPING"), [], [], "deleting", ""),
        (pool(), [], [], "unowned", "its JobSet was deleted"),
        (pool(), [], [jobset(**{well_known.DRAIN: "true"})], "draining", ""),
        (
            pool(status="ERROR", conditions=[{"code": "GCE_STOCKOUT", "message": "no more  machines"}]),
            [],
            [jobset()],
            "failed",
            "GCE_STOCKOUT: no more machines",
        ),
        (pool(status="RECONCILING", others=True), [], [], "reconciling", ""),
    ],
)
def test_states(raw: Object, nodes: list[Object], jobsets: list[Object], state: str, message: str) -> None:
    view = only(*slice_view.build_views([raw], nodes, jobsets))
    assert (view.state, view.message) == (state, message)


@pytest.mark.parametrize(
    ("config", "capacity"),
    [
        ({"spot": True}, "spot"),
        ({"flexStart": True}, "flex-start"),
        ({"reservationAffinity": {"consumeReservationType": "SPECIFIC_RESERVATION", "values": ["mine"]}}, "reservation mine"),
        ({"reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}}, "on-demand"),
    ],
)
def test_capacity(config: Object, capacity: str) -> None:
    assert only(*slice_view.build_views([pool(config=config)], [], [])).capacity == capacity


def test_foreign_pools_are_last_without_owner() -> None:
    result = slice_view.build_views([pool("a", others=True), pool("z")], [], [jobset()])
    assert [(view.name, str(view.owner)) for view in result] == [("z", "default/train"), ("a", "None")]
