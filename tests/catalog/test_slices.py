"""The catalog of slices: documented types, topologies, consistency, and errors with the nearest valid type."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks import catalog
from sliceworks.base.errors import InvalidShape, SliceworksError, UnknownAccelerator
from sliceworks.catalog import tpus
from sliceworks.catalog.tpus import GENERATIONS, TPU7X, V4, V5P, V6E

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = list(catalog.list_slices())

# The types that the user's first document lists.
TABLE = """
v5litepod-1    tpu-v5-lite-podslice  1x1    ct5lp-hightpu-1t  1   1
v5litepod-4    tpu-v5-lite-podslice  2x2    ct5lp-hightpu-4t  1   4
v5litepod-8    tpu-v5-lite-podslice  2x4    ct5lp-hightpu-8t  1   8
v5litepod-16   tpu-v5-lite-podslice  4x4    ct5lp-hightpu-4t  4   4
v5litepod-32   tpu-v5-lite-podslice  4x8    ct5lp-hightpu-4t  8   4
v5litepod-64   tpu-v5-lite-podslice  8x8    ct5lp-hightpu-4t  16  4
v5litepod-128  tpu-v5-lite-podslice  8x16   ct5lp-hightpu-4t  32  4
v5litepod-256  tpu-v5-lite-podslice  16x16  ct5lp-hightpu-4t  64  4
v4-8           tpu-v4-podslice       2x2x1  ct4p-hightpu-4t   1   4
v4-16          tpu-v4-podslice       2x2x2  ct4p-hightpu-4t   2   4
v4-32          tpu-v4-podslice       2x2x4  ct4p-hightpu-4t   4   4
v4-64          tpu-v4-podslice       2x4x4  ct4p-hightpu-4t   8   4
v4-128         tpu-v4-podslice       4x4x4  ct4p-hightpu-4t   16  4
"""


@pytest.mark.parametrize("row", TABLE.strip().splitlines(), ids=lambda row: row.split()[0])
def test_rules_produce_the_documented_types(row: str) -> None:
    name, label, topology, machine, hosts, chips = row.split()
    result = catalog.find(name)
    assert isinstance(result, catalog.Slice)
    assert (result.type_name, result.accelerator, result.topology, result.machine.name) == (name, label, topology, machine)
    assert (result.hosts, result.chips_per_host) == (int(hosts), int(chips))


@pytest.mark.parametrize(
    ("chips", "default", "others"),
    [
        (256, "4x8x8", {"4x4x16"}),
        (320, "4x4x20", set()),
        (512, "8x8x8", {"4x4x32", "4x8x16"}),
        (768, "8x8x12", {"4x4x48", "4x8x24", "4x12x16"}),
        (1024, "8x8x16", {"4x4x64", "4x8x32", "4x16x16"}),
        (1536, "8x12x16", {"8x8x24", "4x16x24", "4x12x32", "4x8x48", "4x4x96"}),
    ],
)
def test_type_name_has_a_default_and_other_topologies(chips: int, default: str, others: set[str]) -> None:
    first, *rest = V5P.topologies(chips)
    assert tpus.format_topology(first) == default
    assert {tpus.format_topology(axes) for axes in rest} == others


@pytest.mark.parametrize(
    ("name", "topology"),
    [
        ("v5p-3072", "8x12x16"),
        ("v5p-12288", "16x16x24"),
        ("v5p-17920", "16x20x28"),
        ("tpu7x-18432", "16x24x24"),
        ("v4-8192", "16x16x16"),
        ("tpu7x-2", "1x1x1"),
    ],
)
def test_largest_and_smallest_slices(name: str, topology: str) -> None:
    assert catalog.find(name).topology == topology


@pytest.mark.parametrize("chips", [4288, 4544, 4672, 5056, 5312, 5696])
def test_size_without_a_topology_is_rejected(chips: int) -> None:
    assert V5P.topologies(chips) == ()
    with pytest.raises(UnknownAccelerator):
        catalog.find(f"v5p-{2 * chips}")


def test_every_slice_is_consistent() -> None:
    for item in ALL:
        assert item.hosts * item.chips_per_host == item.chips == prod(item.axes)
        assert tpus.format_topology(tpus.parse_topology(item.topology)) == item.topology
        assert item.multi_host == (item.hosts > 1) == (item.placement is not None)
        assert catalog.find(item.type_name, item.topology, item.chips_per_host) == item
        assert catalog.find_slice(item.accelerator, item.topology, item.chips_per_host) == item
        assert item.chips <= item.generation.pod
    assert len(set(ALL)) == len(ALL) > 900


def test_every_type_name_has_one_default() -> None:
    defaults = [item for item in ALL if item.is_default]
    assert len({item.type_name for item in defaults}) == len(defaults) == len({item.type_name for item in ALL})
    assert all(catalog.find(item.type_name) == item for item in defaults)
    assert list(catalog.list_slices(defaults=True)) == defaults


def test_default_topologies_are_the_most_compact() -> None:
    for generation in (V4, V5P, TPU7X):
        for chips in generation.sizes():
            first, *rest = generation.topologies(chips)
            assert all(sum(first) <= sum(axes) for axes in rest)


def test_large_topologies_consist_of_cubes() -> None:
    for item in ALL:
        if len(item.axes) == 3 and item.chips > 32:
            assert all(axis % 4 == 0 and axis <= 256 for axis in item.axes)
            assert list(item.axes) == sorted(item.axes)


def test_eight_chips_are_one_host_or_two() -> None:
    one, two = catalog.find("v6e-8"), catalog.find("v6e-8", chips_per_host=4)
    assert (one.hosts, one.machine.name, one.placement) == (1, "ct6e-standard-8t", None)
    assert (two.hosts, two.machine.name) == (2, "ct6e-standard-4t")
    assert isinstance(two, catalog.Slice)
    assert two.placement == catalog.Placement("COMPACT", "2x4")


def test_tpu7x_uses_a_workload_policy() -> None:
    result = catalog.find_slice("tpu7x", "4x4x4", 4)
    assert result.placement is not None
    assert result.placement.policy("near") == {"policyName": "near"}
    assert result.placement.resource() == {"workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "4x4x4"}}
    older = catalog.find_slice("tpu-v5p-slice", "4x4x4").placement
    assert older is not None
    assert older.policy() == {"type": "COMPACT", "tpuTopology": "4x4x4"}
    assert older.resource() is None


def test_only_v4_accepts_axes_in_any_order() -> None:
    assert catalog.find_slice("tpu-v4-podslice", "8x4x4").hosts == 32
    with pytest.raises(InvalidShape, match="is not a tpu-v5p-slice topology") as caught:
        catalog.find_slice("tpu-v5p-slice", "8x4x4")
    assert caught.value.hint == "topologies with 128 chips: 4x4x8"


def test_node_labels_and_taints_of_a_slice() -> None:
    result = catalog.find("v6e-16")
    assert result.node_labels() == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "4x4",
        "cloud.google.com/gke-accelerator-count": "4",
    }
    assert result.node_taints() == [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}]
    assert result.machine.capacity() == {"cpu": "180", "memory": "720Gi"}


def test_allocatable_resources_of_a_machine() -> None:
    eight = V6E.machines[-1]
    assert (eight.cpu, eight.listed_cpu) == (180, 360)
    assert eight.allocatable()["cpu"] == "179480m"
    assert catalog.find_machine("e2-standard-4").allocatable() == {"cpu": "3920m", "memory": "13948518Ki"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("v5p-4", "v5p-8 and v5p-16; the number counts TensorCores: 4 chips are v5p-8"),
        ("v5p-100", "nearest: v5p-64 and v5p-128"),
        ("v5p-9", "nearest: v5p-8 and v5p-16"),
        ("v5litepod-2", "v5litepod-1 and v5litepod-4"),
        ("v5lite-16", "v5litepod-16"),
        ("h100", "h100-80gb-1"),
        ("a3-mega", "a3-megagpu-8g"),
        ("", "known: v4-8"),
        ("tpu", "tpu7x-2"),
        ("v5p-99999999999999", "v5p-"),
    ],
)
def test_unknown_type_suggests_valid_ones(name: str, hint: str) -> None:
    with pytest.raises(UnknownAccelerator, match="unknown accelerator") as caught:
        catalog.find(name)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (("tpu-v5-slice", "2x2", 4), "unknown TPU 'tpu-v5-slice'", "tpu-v5p-slice"),
        (("tpu-v4-podslice", "1x2x2", 4), "1x2x2 is not a tpu-v4-podslice topology", "topologies with 4 chips: 2x2x1"),
        (("tpu-v4-podslice", "2x2x3", 4), "2x2x3 is not a tpu-v4-podslice topology", "nearest: 2x2x2 and 2x2x4"),
        (("tpu-v4-podslice", "4x4", 4), "4x4 is not a tpu-v4-podslice topology", "2x2x4"),
        (
            ("tpu-v6e-slice", "2x4", 1),
            "tpu-v6e-slice 2x4 has no hosts with 1 chips",
            "8 (ct6e-standard-8t) or 4 (ct6e-standard-4t)",
        ),
        (("tpu-v6e-slice", "4x4", 8), "has no hosts with 8 chips", "use 4 (ct6e-standard-4t)"),
        (("tpu-v6e-slice", "four", 4), "'four' is not a topology", "such as 4x8"),
        (("tpu-v6e-slice", "02x2", 4), "'02x2' is not a topology", "such as 4x8"),
    ],
)
def test_mismatching_shape_is_explained(call: tuple[str, str, int], message: str, hint: str) -> None:
    with pytest.raises(SliceworksError) as caught:
        catalog.find_slice(*call)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_topology_of_another_size_is_rejected() -> None:
    with pytest.raises(InvalidShape, match="v5p-256 has 128 chips, topology 4x4x4 has 64") as caught:
        catalog.find("v5p-256", "4x4x4")
    assert caught.value.hint == "topologies of v5p-256: 4x4x8"


def hint_of(kind: type[SliceworksError], ask: Callable[[], object]) -> str:
    """The hint of the error; empty if none is raised."""
    try:
        ask()
    except kind as error:
        return error.hint or "an error without a hint"
    return ""


@given(st.text(max_size=12) | st.from_regex(r"(v4|v5p|v6e|v5litepod|7x)-[0-9]{0,6}", fullmatch=True))
def test_any_name_is_found_or_rejected_in_one_line(name: str) -> None:
    result = hint_of(UnknownAccelerator, lambda: catalog.find(name))
    assert result or name in catalog.list_type_names() or name.startswith(("7x-", "v5e-"))


@given(st.sampled_from(GENERATIONS), st.lists(st.integers(0, 300), min_size=1, max_size=4), st.none() | st.integers(-1, 9))
def test_any_topology_is_found_or_rejected(generation: catalog.Generation, axes: list[int], chips: int | None) -> None:
    text = "x".join(map(str, axes))
    fits = generation.has(tuple(axes)) if len(axes) == generation.dimensions else False
    hint = hint_of(InvalidShape, lambda: catalog.find_slice(generation.label, text, chips))
    assert bool(hint) == (not fits or chips not in (None, *(item.chips for item in generation.machines_for(tuple(axes)))))
