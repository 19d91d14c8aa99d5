"""Node pool requirements of pods, the shapes for them, and errors for invalid ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.slice_snapshots import GPU, TPU, pod_template, requirements

from sliceworks.base.errors import InvalidShape, SliceworksError, UnknownAccelerator
from sliceworks.controllers.slices import capacity, node_pool_requirements
from sliceworks.controllers.slices import well_known as keys
from sliceworks.controllers.slices.capacity import ON_DEMAND, SPOT, Candidate, Capacity
from sliceworks.controllers.slices.node_pool import shape_of
from sliceworks.controllers.slices.node_pool_requirements import NodePoolRequirements
from sliceworks.controllers.slices.settings import Settings


@pytest.mark.parametrize(
    ("selector", "request_", "more", "kind"),
    [
        (TPU, {"google.com/tpu": 4}, {}, "tpu"),
        (TPU, {"cpu": 4}, {}, None),
        ({"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice"}, {"google.com/tpu": 4}, {}, "tpu"),
        ({}, {"google.com/tpu": 4}, {}, "tpu"),
        ({"cloud.google.com/gke-nodepool": "own"}, {"google.com/tpu": 4}, {}, None),
        (TPU, {"google.com/tpu": 4}, {"labels": {keys.DISABLED: "true"}}, None),
        (TPU, {"google.com/tpu": 4}, {"annotations": {keys.DISABLED: "true"}}, None),
        (TPU, {"google.com/tpu": 4}, {"annotations": {keys.DISABLED: "false"}}, "tpu"),
        (GPU, {"nvidia.com/gpu": 8}, {}, "gpu"),
        ({}, {"nvidia.com/gpu": 8}, {}, None),
        ({"slices.sliceworks.dev/machine-type": "n2-standard-8"}, {"cpu": 2}, {}, "cpu"),
        ({"team": "a"}, {"cpu": 2}, {}, None),
    ],
)
def test_accelerator_type(selector: dict[str, str], request_: dict[str, Any], more: dict[str, Any], kind: str | None) -> None:
    assert node_pool_requirements.accelerator_type(*pod_template(selector, request_, **more)) == kind


def test_requests_of_all_containers_are_added() -> None:
    metadata, spec = pod_template(TPU, {"google.com/tpu": "2"}, {"google.com/tpu": 2}, {})
    spec["containers"].append({"resources": {"limits": {"google.com/tpu": 4}}})
    assert node_pool_requirements.read("tpu", metadata, spec).chips == 8


@pytest.mark.parametrize(
    ("accelerator", "topology", "chips", "machine", "nodes"),
    [
        ("tpu-v4-podslice", "2x2x1", 4, "ct4p-hightpu-4t", 1),
        ("tpu-v4-podslice", "2x2x2", 4, "ct4p-hightpu-4t", 2),
        ("tpu-v5p-slice", "2x2x4", 4, "ct5p-hightpu-4t", 4),
        ("tpu-v5-lite-podslice", "1x1", 1, "ct5lp-hightpu-1t", 1),
        ("tpu-v5-lite-podslice", "2x4", 8, "ct5lp-hightpu-8t", 1),
        ("tpu-v5-lite-podslice", "2x4", 4, "ct5lp-hightpu-4t", 2),
        ("tpu-v6e-slice", "16x16", 4, "ct6e-standard-4t", 64),
        ("tpu7x", "4x4x8", 4, "tpu7x-standard-4t", 32),
    ],
)
def test_tpu_shape(accelerator: str, topology: str, chips: int, machine: str, nodes: int) -> None:
    selector = {"cloud.google.com/gke-tpu-accelerator": accelerator, "cloud.google.com/gke-tpu-topology": topology}
    shape = shape_of(requirements(selector, {"google.com/tpu": chips}))
    assert (shape.machine, shape.nodes, shape.topology) == (machine, nodes, topology if nodes > 1 else "")


@pytest.mark.parametrize(
    ("selector", "gpus", "pods", "machine", "nodes"),
    [
        (GPU, 8, 4, "a3-highgpu-8g", 4),
        ({"cloud.google.com/gke-accelerator": "nvidia-l4"}, 1, 3, "g2-standard-4", 3),
        (
            {"cloud.google.com/gke-accelerator": "nvidia-l4", "node.kubernetes.io/instance-type": "g2-standard-16"},
            1,
            1,
            "g2-standard-16",
            1,
        ),
        (
            {"cloud.google.com/gke-accelerator": "nvidia-l4", "cloud.google.com/gke-accelerator-count": "4"},
            1,
            6,
            "g2-standard-48",
            2,
        ),
        ({"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, 1, 1, "n1-standard-4", 1),
    ],
)
def test_gpu_shape(selector: dict[str, str], gpus: int, pods: int, machine: str, nodes: int) -> None:
    shape = shape_of(requirements(selector, {"nvidia.com/gpu": gpus}, pods=pods))
    assert (shape.machine, shape.nodes, shape.placement) == (machine, nodes, None)
    assert shape.accelerators("default")[0]["acceleratorType"] == selector["cloud.google.com/gke-accelerator"]


def test_cpu_shape_packs_pods() -> None:
    selector = {"slices.sliceworks.dev/machine-type": "n2-standard-8"}
    assert shape_of(requirements(selector, {"cpu": "3", "memory": "4Gi"}, pods=5)).nodes == 3
    assert shape_of(requirements(selector, {"memory": "20Gi"}, pods=2)).nodes == 2
    assert shape_of(requirements(selector, {}, pods=9)).nodes == 1
    assert shape_of(requirements(selector, {})).accelerators("default") == []


@pytest.mark.parametrize(
    ("selector", "requests", "pods", "message"),
    [
        ({**TPU, "cloud.google.com/gke-tpu-accelerator": "tpu-v9"}, {"google.com/tpu": 4}, 1, "unknown TPU 'tpu-v9'"),
        ({**TPU, "cloud.google.com/gke-tpu-topology": "3x3x3"}, {"google.com/tpu": 4}, 1, "3x3x3 is not a tpu-v5p-slice topology"),
        ({**TPU, "cloud.google.com/gke-tpu-topology": "4x4"}, {"google.com/tpu": 4}, 1, "4x4 is not a tpu-v5p-slice topology"),
        (TPU, {"google.com/tpu": 3}, 1, "tpu-v5p-slice 2x2x4 has no hosts with 3 chips"),
        (TPU, {"google.com/tpu": 4}, 5, "5 pods of 4 chips do not fit on tpu-v5p-slice 2x2x4"),
        (
            {**TPU, "node.kubernetes.io/instance-type": "n2-standard-8"},
            {"google.com/tpu": 4},
            1,
            "uses machine type ct5p-hightpu-4t",
        ),
        ({"cloud.google.com/gke-accelerator": "nvidia-h900"}, {"nvidia.com/gpu": 1}, 1, "unknown GPU 'nvidia-h900'"),
        (GPU, {"nvidia.com/gpu": 3}, 1, "no machine type has 3 × nvidia-h100-80gb"),
        ({**GPU, "cloud.google.com/gke-accelerator-count": "1"}, {"nvidia.com/gpu": 8}, 1, "a pod requests 8 GPUs"),
        ({"slices.sliceworks.dev/machine-type": "n2-standard-9"}, {}, 1, "unknown machine type 'n2-standard-9'"),
        ({"slices.sliceworks.dev/machine-type": "n2-standard-8"}, {"cpu": 9}, 1, "does not fit on n2-standard-8"),
        ({"slices.sliceworks.dev/machine-type": "a3-highgpu-8g"}, {}, 1, "select nodes by accelerator"),
    ],
)
def test_shape_rejects_invalid_requirements(selector: dict[str, str], requests: dict[str, Any], pods: int, message: str) -> None:
    with pytest.raises((UnknownAccelerator, InvalidShape), match=message):
        shape_of(requirements(selector, requests, pods=pods))


@pytest.mark.parametrize(
    ("selector", "more", "message"),
    [
        ({"cloud.google.com/gke-tpu-topology": "2x2x4"}, {}, "cloud.google.com/gke-tpu-accelerator is required"),
        (TPU, {"annotations": {keys.NODE_NETWORKS: "vpc"}}, "invalid additional network 'vpc'"),
        (TPU, {"annotations": {keys.NODE_NETWORKS: "a:b, :::"}}, "invalid additional network ':::'"),
        (TPU, {"annotations": {keys.CAPACITY: "cheap"}}, "unknown capacity type 'cheap'"),
    ],
)
def test_read_rejects_invalid_pods(selector: dict[str, str], more: dict[str, Any], message: str) -> None:
    with pytest.raises(SliceworksError, match=message):
        node_pool_requirements.read("tpu", *pod_template(selector, {"google.com/tpu": 4}, **more))


def test_node_labels() -> None:
    selector = {
        **TPU,
        "abc": "xyz",
        "cloud.google.com/gke-location-hint": "cell",
        "cloud.google.com/other": "x",
        "google.com/x": "y",
    }
    selector |= {"topology.kubernetes.io/zone": "z", "node.kubernetes.io/instance-type": "ct5p-hightpu-4t"}
    parsed = requirements(
        selector,
        {"google.com/tpu": 4},
        labels={"team": "a", "copied": "b", "left": "c"},
        annotations={keys.COPY_LABELS: "copied, absent"},
    )
    assert dict(parsed.labels) == {"abc": "xyz", "cloud.google.com/gke-location-hint": "cell", "team": "a", "copied": "b"}


def test_networks_and_service_account() -> None:
    annotations = {keys.NODE_NETWORKS: " a:b , c:d", keys.NODE_SERVICE_ACCOUNT: "me@p"}
    parsed = requirements(TPU, {"google.com/tpu": 4}, annotations=annotations)
    assert parsed.networks == (("a", "b"), ("c", "d"))
    assert parsed.service_account == "me@p"


def test_digest_covers_every_field() -> None:
    base = requirements(TPU, {"google.com/tpu": 4})
    others = [
        requirements({**TPU, "cloud.google.com/gke-tpu-topology": "2x2x2"}, {"google.com/tpu": 4}),
        requirements(TPU, {"google.com/tpu": 4}, pods=2),
        requirements({**TPU, "abc": "x"}, {"google.com/tpu": 4}),
        requirements({**TPU, keys.SPOT: "true"}, {"google.com/tpu": 4}, tolerations=[{"key": keys.SPOT, "operator": "Exists"}]),
        requirements({**TPU, "cloud.google.com/reservation-name": "r"}, {"google.com/tpu": 4}),
        requirements(TPU, {"google.com/tpu": 4}, annotations={keys.NODE_SERVICE_ACCOUNT: "me"}),
        requirements(TPU, {"google.com/tpu": 4}, annotations={keys.ZONES: "a"}),
    ]
    assert len({requirements.digest for requirements in [base, *others]}) == 8
    assert requirements(TPU, {"google.com/tpu": "4"}).digest == base.digest
    assert base.digest.startswith("s1-")
    assert len(base.digest) < 63


def test_candidates_are_ordered() -> None:
    settings = Settings(zones=("a", "b"), capacity=(SPOT, ON_DEMAND))
    requirements = NodePoolRequirements("tpu")
    assert [str(item) for item in capacity.candidates(requirements, settings)] == [
        "spot in a",
        "spot in b",
        "on-demand in a",
        "on-demand in b",
    ]
    assert capacity.candidates(replace(requirements, zones=("c",), capacity=(ON_DEMAND,)), settings) == (Candidate("c", ON_DEMAND),)


def test_selected_capacity_is_the_only_candidate() -> None:
    settings = Settings(zones=("a",), capacity=(SPOT, ON_DEMAND))
    assert capacity.candidates(NodePoolRequirements("tpu", spot=True), settings) == (Candidate("a", SPOT),)
    reserved = capacity.candidates(NodePoolRequirements("tpu", reservation="r"), settings)
    assert reserved == (Candidate("a", Capacity("reservation", "r")),)
    assert str(reserved[0]) == "reservation r in a"
    forced = Settings(zones=("a",), force_on_demand=True)
    assert capacity.candidates(NodePoolRequirements("tpu", spot=True, reservation="r"), forced) == (Candidate("a", ON_DEMAND),)


def test_capacity_selectors() -> None:
    selector = {**TPU, "cloud.google.com/reservation-name": "r", "cloud.google.com/reservation-project": "p"}
    assert requirements(selector, {"google.com/tpu": 4}).reservation == "projects/p/reservations/r"
    annotations = {keys.ZONES: "a, b", keys.CAPACITY: "reservation=r, spot"}
    annotated = requirements(TPU, {"google.com/tpu": 4}, annotations=annotations)
    assert annotated.zones == ("a", "b")
    assert annotated.capacity == (Capacity("reservation", "r"), SPOT)
    assert requirements({**TPU, "topology.kubernetes.io/zone": "z"}, {"google.com/tpu": 4}, annotations=annotations).zones == ("z",)


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "cloud.google.com/gke-spot", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerates_spot(toleration: dict[str, str], tolerates: bool) -> None:
    assert requirements(TPU, {"google.com/tpu": 4}, tolerations=[toleration]).tolerates_spot is tolerates
