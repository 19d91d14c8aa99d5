"""What pods ask for: which of them get a pool, of what shape, and what is wrong with those that do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.slice_asks import GPU, TPU, pod, read

from sliceworks.base.errors import SliceworksError, UnknownAccelerator, WrongShape
from sliceworks.controllers.slices import asks, capacity
from sliceworks.controllers.slices import words as keys
from sliceworks.controllers.slices.asks import Ask
from sliceworks.controllers.slices.capacity import ON_DEMAND, SPOT, Candidate, Capacity
from sliceworks.controllers.slices.settings import Settings
from sliceworks.controllers.slices.shapes import shape_of


@pytest.mark.parametrize(
    ("selector", "request_", "more", "kind"),
    [
        (TPU, {"google.com/tpu": 4}, {}, "tpu"),
        (TPU, {"cpu": 4}, {}, None),
        ({"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice"}, {"google.com/tpu": 4}, {}, None),
        (TPU, {"google.com/tpu": 4}, {"labels": {keys.DISABLED: "true"}}, None),
        (TPU, {"google.com/tpu": 4}, {"annotations": {keys.DISABLED: "true"}}, None),
        (TPU, {"google.com/tpu": 4}, {"annotations": {keys.DISABLED: "false"}}, "tpu"),
        (GPU, {"nvidia.com/gpu": 8}, {}, "gpu"),
        ({}, {"nvidia.com/gpu": 8}, {}, None),
        ({"slices.sliceworks.dev/machine-type": "n2-standard-8"}, {"cpu": 2}, {}, "cpu"),
        ({"team": "a"}, {"cpu": 2}, {}, None),
    ],
)
def test_who_gets_a_pool(selector: dict[str, str], request_: dict[str, Any], more: dict[str, Any], kind: str | None) -> None:
    assert asks.wanted(*pod(selector, request_, **more)) == kind


def test_requests_of_all_containers_count_and_limits_stand_in_for_them() -> None:
    metadata, spec = pod(TPU, {"google.com/tpu": "2"}, {"google.com/tpu": 2}, {})
    spec["containers"].append({"resources": {"limits": {"google.com/tpu": 4}}})
    assert asks.read("tpu", metadata, spec).chips == 8


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
def test_the_catalogue_says_how_many_nodes(accelerator: str, topology: str, chips: int, machine: str, nodes: int) -> None:
    selector = {"cloud.google.com/gke-tpu-accelerator": accelerator, "cloud.google.com/gke-tpu-topology": topology}
    shape = shape_of(read(selector, {"google.com/tpu": chips}))
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
def test_gpu_machines(selector: dict[str, str], gpus: int, pods: int, machine: str, nodes: int) -> None:
    shape = shape_of(read(selector, {"nvidia.com/gpu": gpus}, pods=pods))
    assert (shape.machine, shape.nodes, shape.placement) == (machine, nodes, None)
    assert shape.accelerators("default")[0]["acceleratorType"] == selector["cloud.google.com/gke-accelerator"]


def test_as_many_helpers_to_a_machine_as_fit() -> None:
    selector = {"slices.sliceworks.dev/machine-type": "n2-standard-8"}
    assert shape_of(read(selector, {"cpu": "3", "memory": "4Gi"}, pods=5)).nodes == 3
    assert shape_of(read(selector, {"memory": "20Gi"}, pods=2)).nodes == 2
    assert shape_of(read(selector, {}, pods=9)).nodes == 1
    assert shape_of(read(selector, {})).accelerators("default") == []


@pytest.mark.parametrize(
    ("selector", "requests", "pods", "words"),
    [
        ({**TPU, "cloud.google.com/gke-tpu-accelerator": "tpu-v9"}, {"google.com/tpu": 4}, 1, "no TPU is called 'tpu-v9'"),
        ({**TPU, "cloud.google.com/gke-tpu-topology": "3x3x3"}, {"google.com/tpu": 4}, 1, "3x3x3 is no topology of tpu-v5p-slice"),
        ({**TPU, "cloud.google.com/gke-tpu-topology": "4x4"}, {"google.com/tpu": 4}, 1, "4x4 is no topology of tpu-v5p-slice"),
        (TPU, {"google.com/tpu": 3}, 1, "3 chips per host do not fit tpu-v5p-slice 2x2x4"),
        (TPU, {"google.com/tpu": 4}, 5, "5 pods of 4 chips do not fit tpu-v5p-slice 2x2x4"),
        ({**TPU, "node.kubernetes.io/instance-type": "n2-standard-8"}, {"google.com/tpu": 4}, 1, "is made of ct5p-hightpu-4t"),
        ({"cloud.google.com/gke-accelerator": "nvidia-h900"}, {"nvidia.com/gpu": 1}, 1, "no GPU is called 'nvidia-h900'"),
        (GPU, {"nvidia.com/gpu": 3}, 1, "no machine has 3 × nvidia-h100-80gb"),
        ({**GPU, "cloud.google.com/gke-accelerator-count": "1"}, {"nvidia.com/gpu": 8}, 1, "a pod asks for 8 GPUs"),
        ({"slices.sliceworks.dev/machine-type": "n2-standard-9"}, {}, 1, "no machine type is called 'n2-standard-9'"),
        ({"slices.sliceworks.dev/machine-type": "n2-standard-8"}, {"cpu": 9}, 1, "does not fit n2-standard-8"),
        ({"slices.sliceworks.dev/machine-type": "a3-highgpu-8g"}, {}, 1, "select it by them"),
    ],
)
def test_what_does_not_fit_is_said(selector: dict[str, str], requests: dict[str, Any], pods: int, words: str) -> None:
    with pytest.raises((UnknownAccelerator, WrongShape), match=words):
        shape_of(read(selector, requests, pods=pods))


@pytest.mark.parametrize(
    ("selector", "more", "words"),
    [
        ({"cloud.google.com/gke-tpu-topology": "2x2x4"}, {}, "has no nodeSelector cloud.google.com/gke-tpu-accelerator"),
        (TPU, {"annotations": {keys.NODE_NETWORKS: "vpc"}}, "'vpc' is no additional network"),
        (TPU, {"annotations": {keys.NODE_NETWORKS: "a:b, :::"}}, "':::' is no additional network"),
        (TPU, {"annotations": {keys.CAPACITY: "cheap"}}, "'cheap' is no kind of capacity"),
    ],
)
def test_what_cannot_be_read_is_said(selector: dict[str, str], more: dict[str, Any], words: str) -> None:
    with pytest.raises(SliceworksError, match=words):
        asks.read("tpu", *pod(selector, {"google.com/tpu": 4}, **more))


def test_labels_for_nodes() -> None:
    selector = {
        **TPU,
        "abc": "xyz",
        "cloud.google.com/gke-location-hint": "cell",
        "cloud.google.com/other": "x",
        "google.com/x": "y",
    }
    selector |= {"topology.kubernetes.io/zone": "z", "node.kubernetes.io/instance-type": "ct5p-hightpu-4t"}
    ask = read(
        selector,
        {"google.com/tpu": 4},
        labels={"team": "a", "copied": "b", "left": "c"},
        annotations={keys.COPY_LABELS: "copied, absent"},
    )
    assert dict(ask.labels) == {"abc": "xyz", "cloud.google.com/gke-location-hint": "cell", "team": "a", "copied": "b"}


def test_networks_and_accounts_of_a_pod() -> None:
    annotations = {keys.NODE_NETWORKS: " a:b , c:d", keys.NODE_SERVICE_ACCOUNT: "me@p"}
    ask = read(TPU, {"google.com/tpu": 4}, annotations=annotations)
    assert ask.networks == (("a", "b"), ("c", "d"))
    assert ask.service_account == "me@p"


def test_the_hash_tells_every_difference() -> None:
    base = read(TPU, {"google.com/tpu": 4})
    others = [
        read({**TPU, "cloud.google.com/gke-tpu-topology": "2x2x2"}, {"google.com/tpu": 4}),
        read(TPU, {"google.com/tpu": 4}, pods=2),
        read({**TPU, "abc": "x"}, {"google.com/tpu": 4}),
        read({**TPU, "cloud.google.com/gke-spot": "true"}, {"google.com/tpu": 4}),
        read({**TPU, "cloud.google.com/reservation-name": "r"}, {"google.com/tpu": 4}),
        read(TPU, {"google.com/tpu": 4}, annotations={keys.NODE_SERVICE_ACCOUNT: "me"}),
        read(TPU, {"google.com/tpu": 4}, annotations={keys.ZONES: "a"}),
    ]
    assert len({ask.digest for ask in [base, *others]}) == 8
    assert read(TPU, {"google.com/tpu": "4"}).digest == base.digest
    assert base.digest.startswith("s1-")
    assert len(base.digest) < 63


def test_where_and_how_in_order() -> None:
    settings = Settings(zones=("a", "b"), capacity=(SPOT, ON_DEMAND))
    ask = Ask("tpu")
    assert [str(each) for each in capacity.candidates(ask, settings)] == [
        "spot in a",
        "spot in b",
        "on-demand in a",
        "on-demand in b",
    ]
    assert capacity.candidates(replace(ask, zones=("c",), capacity=(ON_DEMAND,)), settings) == (Candidate("c", ON_DEMAND),)


def test_a_pod_that_selects_its_capacity_gets_no_other() -> None:
    settings = Settings(zones=("a",), capacity=(SPOT, ON_DEMAND))
    assert capacity.candidates(Ask("tpu", spot=True), settings) == (Candidate("a", SPOT),)
    reserved = capacity.candidates(Ask("tpu", reservation="r"), settings)
    assert reserved == (Candidate("a", Capacity("reservation", "r")),)
    assert str(reserved[0]) == "reservation r in a"
    forced = Settings(zones=("a",), force_on_demand=True)
    assert capacity.candidates(Ask("tpu", spot=True, reservation="r"), forced) == (Candidate("a", ON_DEMAND),)


def test_selectors_of_capacity() -> None:
    selector = {**TPU, "cloud.google.com/reservation-name": "r", "cloud.google.com/reservation-project": "p"}
    assert read(selector, {"google.com/tpu": 4}).reservation == "projects/p/reservations/r"
    annotations = {keys.ZONES: "a, b", keys.CAPACITY: "reservation=r, spot"}
    ask = read(TPU, {"google.com/tpu": 4}, annotations=annotations)
    assert ask.zones == ("a", "b")
    assert ask.capacity == (Capacity("reservation", "r"), SPOT)
    assert read({**TPU, "topology.kubernetes.io/zone": "z"}, {"google.com/tpu": 4}, annotations=annotations).zones == ("z",)


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "cloud.google.com/gke-spot", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_who_tolerates_spot(toleration: dict[str, str], tolerates: bool) -> None:
    assert read(TPU, {"google.com/tpu": 4}, tolerations=[toleration]).tolerates_spot is tolerates
