"""GPU and CPU machine types, zones and prices."""

from __future__ import annotations

import pytest

from sliceworks import catalog
from sliceworks.base.errors import InvalidShape, UnknownAccelerator
from sliceworks.catalog import availability, data, gpus, machine_types, prices
from sliceworks.catalog import prices as rates

EVERYTHING: list[catalog.Accelerator] = [*catalog.list_slices(defaults=True), *gpus.shapes()]


@pytest.mark.parametrize(
    ("name", "machine", "label", "has"),
    [
        ("t4-1", "n1-standard-4", "nvidia-tesla-t4", (1, 4, 15, 0)),
        ("t4-4", "n1-standard-16", "nvidia-tesla-t4", (4, 16, 60, 0)),
        ("l4-1", "g2-standard-4", "nvidia-l4", (1, 4, 16, 0)),
        ("g2-standard-32", "g2-standard-32", "nvidia-l4", (1, 32, 128, 0)),
        ("l4-2", "g2-standard-24", "nvidia-l4", (2, 24, 96, 0)),
        ("a100-40gb-8", "a2-highgpu-8g", "nvidia-tesla-a100", (8, 96, 680, 0)),
        ("a100-40gb-16", "a2-megagpu-16g", "nvidia-tesla-a100", (16, 96, 1360, 0)),
        ("a100-80gb-4", "a2-ultragpu-4g", "nvidia-a100-80gb", (4, 48, 680, 4)),
        ("h100-80gb-8", "a3-highgpu-8g", "nvidia-h100-80gb", (8, 208, 1872, 16)),
        ("a3-edgegpu-8g", "a3-edgegpu-8g", "nvidia-h100-80gb", (8, 208, 1872, 16)),
        ("h100-mega-80gb-8", "a3-megagpu-8g", "nvidia-h100-mega-80gb", (8, 208, 1872, 16)),
        ("h200-141gb-8", "a3-ultragpu-8g", "nvidia-h200-141gb", (8, 224, 2952, 32)),
        ("b200-8", "a4-highgpu-8g", "nvidia-b200", (8, 224, 3968, 32)),
    ],
)
def test_gpu_machines(name: str, machine: str, label: str, has: tuple[int, int, float, int]) -> None:
    result = catalog.find(name)
    assert isinstance(result, catalog.GpuShape)
    count = has[0]
    assert (result.machine.name, result.accelerator) == (machine, label)
    assert (result.chips, result.machine.cpu, result.machine.memory, result.machine.local_ssds) == has
    assert result.node_labels() == {"cloud.google.com/gke-accelerator": label, "cloud.google.com/gke-accelerator-count": str(count)}
    assert result.hosts * result.chips_per_host == result.chips


def test_gpus_are_attached_to_any_n1_type_within_the_limit() -> None:
    shape = catalog.find_gpu("n1-highmem-8", "nvidia-tesla-t4", 2)
    assert shape.attached
    assert shape.guest_accelerators("latest") == [
        {
            "acceleratorCount": "2",
            "acceleratorType": "nvidia-tesla-t4",
            "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"},
        }
    ]
    for machine, count, hint in [
        ("n1-standard-64", 1, "at most 48 vCPUs"),
        ("n1-standard-4", 3, "1, 2, 4"),
        ("n2-standard-4", 1, "N1"),
    ]:
        with pytest.raises(InvalidShape) as caught:
            catalog.find_gpu(machine, "nvidia-tesla-t4", count)
        assert hint in caught.value.hint


def test_builtin_gpu_machine_rejects_attached_gpus() -> None:
    assert catalog.find_gpu("a2-highgpu-2g", "nvidia-tesla-a100", 2).chips == 2
    with pytest.raises(InvalidShape, match="has 2 × nvidia-tesla-a100"):
        catalog.find_gpu("a2-highgpu-2g", "nvidia-l4", 2)
    with pytest.raises(InvalidShape, match="cannot be attached"):
        catalog.find_gpu("n1-standard-4", "nvidia-l4", 1)
    with pytest.raises(UnknownAccelerator) as caught:
        catalog.find_gpu("n1-standard-4", "nvidia-t4", 1)
    assert "nvidia-tesla-t4" in caught.value.hint


def test_gpu_machine_rejects_a_topology() -> None:
    with pytest.raises(InvalidShape, match="l4-1 is one machine"):
        catalog.find("l4-1", "2x2")


@pytest.mark.parametrize(
    ("name", "cpu", "memory"),
    [
        ("n1-standard-1", 1, 3.75),
        ("n1-highmem-8", 8, 52),
        ("n2-highmem-32", 32, 256),
        ("n2-highmem-128", 128, 864),
        ("e2-highcpu-32", 32, 32),
        ("e2-medium", 1, 4),
        ("c2-standard-60", 60, 240),
        ("c3-standard-88", 88, 352),
        ("c4-standard-8", 8, 30),
        ("m1-megamem-96", 96, 1433.6),
        ("ct5lp-hightpu-4t", 112, 192),
        ("a3-highgpu-8g", 208, 1872),
    ],
)
def test_machine_types(name: str, cpu: int, memory: float) -> None:
    result = catalog.find_machine(name)
    assert (result.cpu, result.memory) == (cpu, memory)
    assert result.disks


def test_unknown_machine_type_suggests_the_closest() -> None:
    with pytest.raises(UnknownAccelerator, match="unknown machine type 'n2-standard-7'") as caught:
        catalog.find_machine("n2-standard-7")
    assert "n2-standard-" in caught.value.hint


def test_every_accelerator_has_zones_or_is_listed_without() -> None:
    without = {item.accelerator for item in EVERYTHING if not availability.zones_of(item)}
    assert without == {"nvidia-rtx-pro-6000"}
    for item in EVERYTHING:
        assert set(availability.zones_of(item, "documented")) <= set(availability.zones_of(item))


def test_zone_has_a_region_and_a_source() -> None:
    v4 = catalog.find("v4-8")
    assert availability.zones_of(v4) == availability.zones_of(v4, "documented") == ("us-central2-b",)
    assert availability.zones_of(v4, "flex-start") == ()
    assert "us-central1-ai1a" in availability.zones_of(catalog.find("v6e-8"))
    assert availability.region_of("us-central1-ai1a") == availability.region_of("us-central1") == "us-central1"


@pytest.mark.parametrize(
    ("name", "place", "capacity", "usd"),
    [
        ("v5p-256", "us-central1", "on-demand", 128 * 4.20),
        ("v5p-256", "us-east5-a", "reservation", 128 * 4.20),
        ("v4-8", "us-central2-b", "on-demand", 12.88),
        ("v5litepod-16", "europe-west4", "on-demand", 16 * 1.56),
        ("v6e-1", "us-central1", "commitment-3y", 1.22),
        ("t4-2", "us-central1", "on-demand", 0.380 + 2 * 0.35),
        ("a3-megagpu-8g", "us-central1", "on-demand", 93.40),
        ("a4-highgpu-8g", "us-central1", "flex-start", 64.44),
        ("a2-highgpu-2g", "europe-west4", "on-demand", 2 * 3.748),
        ("a3-highgpu-1g", "us-east4-a", "spot", 5.44),
        ("g2-standard-8", "asia-east1", "on-demand", 8 * 0.04249 + 0.6485),
        ("t4-1", "us-west4", "spot", 4 * 0.01345 + 15 * 0.001804 + 0.1598),
    ],
)
def test_price_has_components_and_a_dated_source(name: str, place: str, capacity: str, usd: float) -> None:
    result = prices.get_price(catalog.find(name), place, capacity)
    assert result is not None
    assert result.low == result.high == pytest.approx(usd)
    assert result.source.date.startswith("2026-")


@pytest.mark.parametrize(
    ("name", "place", "capacity"),
    [
        ("v4-8", "us-central1", "on-demand"),
        ("tpu7x-8", "us-east1", "on-demand"),
        ("tpu7x-8", "us-central1", "spot"),
        ("a4-highgpu-8g", "us-central1", "on-demand"),
        ("a2-highgpu-1g", "europe-west3", "on-demand"),
        ("a3-highgpu-1g", "us-east4", "on-demand"),
        ("t4-1", "us-central2", "on-demand"),
        ("p4-1", "us-east1", "spot"),
        ("gb200-4", "us-central1", "on-demand"),
    ],
)
def test_price_without_a_source_is_unknown(name: str, place: str, capacity: str) -> None:
    assert prices.get_price(catalog.find(name), place, capacity) is None


def test_spot_price_can_be_a_range() -> None:
    result = prices.get_price(catalog.find("v5litepod-4"), "us-central1", "spot")
    assert result is not None
    assert (round(result.low, 2), round(result.usd, 2), str(result)) == (0.72, 3.12, "0.72–3.12")


def test_machine_without_gpus_has_a_price() -> None:
    tpu = prices.get_price(catalog.find_machine("ct5p-hightpu-4t"), "us-east5-a")
    cpu = prices.get_price(catalog.find_machine("n2-standard-8"), "us-central1-b")
    assert tpu is not None
    assert cpu is not None
    assert (tpu.usd, cpu.usd) == (16.80, 0.388)


@pytest.mark.parametrize(
    ("name", "usd"),
    [("e2-micro", 0.0084), ("e2-small", 0.0168), ("n2-standard-16", 0.7769), ("n2-highcpu-8", 0.2868), ("n4-standard-4", 0.1814)],
)
def test_unlisted_machine_is_priced_by_its_components(name: str, usd: float) -> None:
    result = prices.get_price(catalog.find_machine(name), "us-central1")
    assert result is not None
    assert result.usd == pytest.approx(usd, rel=0.003)
    assert result.source == data.source("SKU")


def test_component_prices_match_list_prices() -> None:
    """Larger differences are local SSDs, which the list price includes."""
    table = data.load("prices")["machines"]
    for capacity in ("on-demand", "spot"):
        for name, usd in table[capacity].items():
            machine = catalog.find_machine(name)
            reckoned = rates.machine_rate(machine, table["region"], capacity)
            if reckoned is not None and isinstance(usd, float):
                assert reckoned == pytest.approx(usd, rel=0.02 if name.startswith("n1-standard-1") else 0.01), name


def test_price_data_names_known_machines_only() -> None:
    result = data.load("rates")
    families = {
        machine.family
        for machine in (*machine_types.cpu_machines().values(), *(shape.machine for shape in gpus.gpu_machines().values()))
    }
    assert {*result["parts"], *result["gpus"]} <= families
    assert set(result["shares"]) <= {name.rpartition("-")[0] for name in gpus.gpu_machines()}
    assert set(result["attached"]) == {gpu.name for gpu in gpus.GPUS if gpu.attached}
    assert set(result["billed"]) <= set(machine_types.cpu_machines())
    table = data.load("prices")["machines"]
    named = {name for key, rows in table.items() if isinstance(rows, dict) for name in rows}
    known = {*machine_types.cpu_machines(), *gpus.gpu_machines()}
    assert named <= known
    assert set(data.load("prices")["attached"]) == {gpu.name for gpu in gpus.GPUS if gpu.attached}
    assert {availability.region_of(zone) for item in EVERYTHING for zone in availability.zones_of(item)} >= {
        "us-central1",
        "europe-west4",
    }


def test_quoted_region_has_a_price() -> None:
    assert prices.region_for(catalog.find("v4-8")) == "us-central2"
    assert prices.region_for(catalog.find("v5p-8")) == "us-central1"
