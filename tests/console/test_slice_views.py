"""Slices from nodes and pods, and their drawings."""

import re
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import pytest

from sliceworks.console.pages import slice_detail
from sliceworks.console.pages import slices as slices_page
from sliceworks.console.views import slice_svg, slice_view
from sliceworks.console.views.hosts import HostState, natural_key

Object = dict[str, Any]
_GKE = "cloud.google.com/gke-"
V5E, V5P = "tpu-v5-lite-podslice", "tpu-v5p-slice"


def node(name: str, pool: str = "p", tpu: str = V5E, topology: str = "4x4", **more: Any) -> Object:
    labels = {f"{_GKE}nodepool": pool, f"{_GKE}tpu-accelerator": tpu, f"{_GKE}tpu-topology": topology, **more.get("labels", {})}
    ready = more.get("ready", "True")
    conditions = [{"type": "Ready", "status": ready, "message": "so it says"}] if ready else []
    return {
        "metadata": {"name": name, "labels": labels, "annotations": more.get("annotations", {})},
        "spec": more.get("spec", {}),
        "status": {"capacity": {"google.com/tpu": "4"}, "conditions": conditions},
    }


def pod(name: str, on: str, *, jobset: str = "train", phase: str = "Running", chips: bool = True) -> Object:
    limits = {"google.com/tpu": "4"} if chips else {"cpu": "1"}
    return {
        "metadata": {"name": name, "namespace": "ml", "labels": {"jobset.sigs.k8s.io/jobset-name": jobset}},
        "spec": {"nodeName": on, "containers": [{"resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }


def one(*nodes: Object, pods: list[Object] | None = None, jobsets: list[Object] | None = None) -> slice_view.SliceView:
    [result] = slice_view.list_slices(list(nodes), pods or [], jobsets or [])
    return result


def test_multi_host_pool_is_one_slice_with_hosts_in_natural_order() -> None:
    result = one(*(node(f"h{number}", topology="8x16") for number in (10, 2, 1)))
    assert [host.name for host in result.hosts[:3]] == ["h1", "h2", "h10"]
    assert (result.type_name, result.chips, len(result.hosts)) == ("v5litepod-128", 128, 32)
    assert {host.state for host in result.hosts[3:]} == {HostState.MISSING}
    assert natural_key("a2b") < natural_key("a10b")


def test_host_keeps_its_position_when_another_is_deleted() -> None:
    result = one(node("pool-0"), node("pool-3"))
    assert [host.name for host in result.hosts] == ["pool-0", "", "", "pool-3"]
    random = one(node("pool-x9zq"), node("pool-a7ck"))
    assert [host.name for host in random.hosts] == ["pool-a7ck", "pool-x9zq", "", ""]


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({}, HostState.READY),
        ({"ready": ""}, HostState.BOOTING),
        ({"ready": "Unknown"}, HostState.FAILED),
        ({"ready": "False", "annotations": {"sliceworks.dev/state": "preempted"}}, HostState.PREEMPTED),
        ({"ready": "False", "annotations": {"sliceworks.dev/state": "maintenance"}}, HostState.MAINTENANCE),
        ({"ready": "False", "spec": {"taints": [{"key": "cloud.google.com/impending-node-termination"}]}}, HostState.PREEMPTED),
        ({"spec": {"unschedulable": True}}, HostState.DRAINING),
    ],
)
def test_host_state_follows_its_node(given: Object, state: HostState) -> None:
    result = one(node("a", topology="2x2", **given))
    assert result.state is state
    assert f"1 {state}" in result.summary


def test_host_shows_the_job_that_uses_its_chips() -> None:
    nodes = [node("a"), node("b"), node("c"), node("d")]
    running = [pod("w0", "a"), pod("w1", "b", phase="Pending"), pod("w2", "c", phase="Succeeded"), pod("log", "d", chips=False)]
    result = one(*nodes, pods=running)
    assert [host.state for host in result.hosts] == [HostState.RUNNING, HostState.READY, HostState.READY, HostState.READY]
    assert (result.owner, result.team) == ("ml/train", "ml")
    assert result.hosts[0].summary == "Host 0 (a) runs ml/train"
    assert result.hosts[1].message == "ml/train is starting here"
    assert result.hosts[3].work is None


def test_slices_of_drained_jobset_are_draining() -> None:
    owned = {"google.com/tpu-provisioner-jobset-name": "train", "google.com/tpu-provisioner-jobset-namespace": "ml"}
    drained = {"metadata": {"name": "train", "namespace": "ml", "annotations": {"slices.sliceworks.dev/drain": "true"}}}
    result = one(node("a", topology="2x2", labels=owned), jobsets=[drained])
    assert (result.state, result.owner) == (HostState.DRAINING, "ml/train")


def test_single_host_slices_and_nodes_without_pool_are_separate() -> None:
    gpu = {
        "metadata": {"name": "g", "labels": {f"{_GKE}accelerator": "nvidia-l4"}},
        "status": {"capacity": {"nvidia.com/gpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    strange = {"metadata": {"name": "x"}, "status": {"capacity": {"google.com/tpu": "3"}}}
    plain = {"metadata": {"name": "cpu"}, "status": {"capacity": {"cpu": "3"}}}
    result = slice_view.list_slices([node("a", topology="2x2"), node("b", topology="2x2"), gpu, strange, plain], [])
    assert {item.name: item.type_name for item in result} == {"a": "v5litepod-4", "b": "v5litepod-4", "g": "l4-1", "x": "3 chips"}
    for item in result:
        ElementTree.fromstring(slice_svg.tile_svg(item))


def test_failed_slices_are_first_and_filter_matches() -> None:
    result = slice_view.list_slices(
        [node("a", "p1", topology="2x2"), node("b", "p2", topology="2x2", ready="False")], [pod("w", "a")]
    )
    assert [item.name for item in result] == ["b", "a"]
    assert [item.name for item in result if slice_view.SliceFilter(state="running")(item)] == ["a"]
    assert [item.name for item in result if slice_view.SliceFilter(team="ml", text="TRAIN v5")(item)] == ["a"]
    assert not [item for item in result if slice_view.SliceFilter(type_name="v5p-8")(item)]
    slice_filter = slice_view.SliceFilter("v5p-8", "", "ml", "a b")
    assert slice_filter.to_params() == {"type": "v5p-8", "team": "ml", "text": "a b"}
    assert slice_view.SliceFilter.read({**slice_filter.to_params(), "other": "x"}) == slice_filter


@pytest.mark.parametrize(
    ("topology", "hosts", "chips", "links", "wraps"),
    [("2x4", 2, 8, 10, 0), ("16x16", 64, 256, 480, 2), ("2x2x1", 1, 4, 4, 0), ("2x2x4", 4, 16, 28, 0), ("4x4x4", 16, 64, 108, 3)],
)
def test_drawing_has_every_chip_once_and_the_torus_links(topology: str, hosts: int, chips: int, links: int, wraps: int) -> None:
    result = one(node("a", tpu=V5P if topology.count("x") == 2 else V5E, topology=topology))
    plan = slice_svg.slice_layout(result.shape, len(result.hosts), result.chips)
    assert len(plan.hosts) == hosts
    places = [chip for host in plan.hosts for chip in host.chips]
    assert len(places) == len(set(places)) == chips
    assert (len(plan.links) + len(plan.spines), len(plan.wraps)) == (links, wraps)
    picture = slice_svg.detail_svg(result)
    ElementTree.fromstring(picture)
    assert len(re.findall(r'class="sw-pick"', picture)) == hosts
    assert ("sw-wraps" in picture) == bool(wraps)


def test_hosts_of_3d_slice_do_not_overlap() -> None:
    result = one(node("a", tpu=V5P, topology="8x8x16"))
    plan = slice_svg.slice_layout(result.shape, len(result.hosts), result.chips)
    for one_host in plan.hosts:
        x, y = one_host.middle
        inside = [other for other in plan.hosts if other is not one_host and _within(x, y, other.outline)]
        assert not inside


def _within(x: float, y: float, outline: tuple[tuple[float, float], ...]) -> bool:
    sides = zip(outline, (*outline[1:], outline[0]), strict=True)
    turns = [(c - a) * (y - b) - (d - b) * (x - a) for (a, b), (c, d) in sides]
    return all(turn > 0 for turn in turns) or all(turn < 0 for turn in turns)


def test_state_is_shown_by_more_than_colour() -> None:
    signs = {slice_svg.state_icon(state) for state in HostState}
    assert len({re.sub(r"(sw-is|sw-mark)-\w+", "", sign) for sign in signs}) == len(HostState)
    result = one(node("<b>", topology="2x2", ready="False"))
    assert "&lt;b&gt;" in slice_svg.detail_svg(result)
    assert "<b>" not in slice_svg.detail_svg(result)


def test_tile_size_is_bounded() -> None:
    result = one(node("a", topology="16x16"))
    assert len(slice_svg.tile_svg(result)) < 4000
    assert slice_svg.tile_svg(result).count("<path") == 2  # one for each state, whatever the number of hosts


def test_page_of_a_slice_with_a_failed_host_names_it() -> None:
    def page(view: slice_view.SliceView) -> str:
        return str(slice_detail.slice_panels(view, None, [], datetime(2026, 1, 5, tzinfo=UTC)))

    healthy, broken = one(*(node(f"h-{n}") for n in range(4))), one(*(node(f"h-{n}", ready=str(n != 2)) for n in range(4)))
    assert "No warnings." in page(healthy)
    assert "No warnings." not in page(broken)
    assert "h-2 is unreachable" in page(broken)


def test_names_of_tiles_differ_at_their_visible_end() -> None:
    tiles = [str(slices_page._tile(one(node("n", pool=f"gke-a-cluster-with-a-long-name-0123-{end}")))) for end in ("2mxo", "uwd3")]
    assert [re.search(r"'tail'}, '([^']*)'", tile)[1] for tile in tiles] == ["3-2mxo", "3-uwd3"]  # type: ignore[index]
