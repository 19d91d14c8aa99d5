"""The output of `accelerators list` and `accelerators show`, in every format."""

from __future__ import annotations

from itertools import pairwise

import orjson
import pytest
import yaml
from tests.support import golden_text

from sliceworks import catalog
from sliceworks.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main.run(["accelerators", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


@pytest.mark.parametrize(
    ("golden", "arguments"),
    [
        ("accelerators-list", ["list"]),
        ("accelerators-list-v5e-wide", ["list", "--generation", "v5e", "-o", "wide"]),
        ("accelerators-list-spot-in-a-zone", ["list", "--zone", "us-east5-a", "--chips", "8", "--capacity", "spot"]),
        ("accelerators-list-all-of-512", ["list", "--chips", "512", "--all", "--kind", "tpu"]),
        ("accelerators-show-v5p-256", ["show", "v5p-256"]),
        ("accelerators-show-v5p-256.yaml", ["show", "v5p-256", "-o", "yaml"]),
        ("accelerators-show-v6e-8-on-two-hosts", ["show", "v6e-8", "--chips-per-host", "4", "--zone", "europe-west4-a"]),
        ("accelerators-show-v4-8192-stretched", ["show", "v4-8192", "--topology", "4x4x256"]),
        ("accelerators-show-tpu7x-128", ["show", "tpu7x-128"]),
        ("accelerators-show-b200-8", ["show", "b200-8"]),
    ],
)
def test_output_matches_golden(golden: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    golden_text.check(golden, run(capsys, *arguments))


def test_json_and_yaml_match_the_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    listed = orjson.loads(run(capsys, "list", "--kind", "tpu", "--all", "-o", "json"))
    assert [(item["name"], item["topology"]) for item in listed] == [
        (slice_.type_name, slice_.topology) for slice_ in catalog.list_slices()
    ]
    assert all(item["hosts"] * item["chipsPerHost"] == item["chips"] for item in listed)
    assert yaml.safe_load(run(capsys, "show", "l4-8", "-o", "yaml")) == orjson.loads(run(capsys, "show", "l4-8", "-o", "json"))


def test_listed_names_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    names = run(capsys, "list", "-o", "name").split()
    assert len(set(names)) == len(names) > 300
    assert {catalog.find(name).type_name for name in names} == set(names)
    assert run(capsys, "show", "a2-highgpu-8g", "-o", "name") == "a100-40gb-8\n"


def test_list_of_one_generation_is_sorted_by_size(capsys: pytest.CaptureFixture[str]) -> None:
    listed = orjson.loads(run(capsys, "list", "--generation", "v5p", "-o", "json"))
    assert all(one["chips"] < other["chips"] for one, other in pairwise(listed))
    assert all(item["zones"]["visible"] for item in listed)


def test_unknown_zone_has_no_accelerators(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "list", "--zone", "moon-base1-a", "-o", "name") == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["show", "v5p-4"],
            "error: unknown accelerator 'v5p-4'\nhint: nearest: v5p-8 and v5p-16; the number counts TensorCores",
        ),
        (["show", "a3-mega"], "error: unknown accelerator 'a3-mega'\nhint: closest: a3-megagpu-8g\n"),
        (["show", "v5p-256", "--topology", "4x4x4"], "error: v5p-256 has 128 chips, topology 4x4x4 has 64\n"),
        (["show", "v5p-256", "--chips-per-host", "8"], "error: tpu-v5p-slice 4x4x8 has no hosts with 8 chips\n"),
        (["list", "--generation", "v9"], "error: generation 'v9' not found\nhint: known generations: 7x, "),
    ],
)
def test_unknown_name_is_a_one_line_error(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["accelerators", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(message)
    assert captured.out == ""
