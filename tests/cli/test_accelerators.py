"""`accelerators list` and `accelerators show`: what they print, in every form."""

from __future__ import annotations

from itertools import pairwise

import orjson
import pytest
import yaml
from tests.support import texts

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
def test_what_is_printed(golden: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    texts.check(golden, run(capsys, *arguments))


def test_json_and_yaml_say_the_same_as_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    listed = orjson.loads(run(capsys, "list", "--kind", "tpu", "--all", "-o", "json"))
    assert [(each["name"], each["topology"]) for each in listed] == [(each.type_name, each.topology) for each in catalog.slices()]
    assert all(each["hosts"] * each["chipsPerHost"] == each["chips"] for each in listed)
    assert yaml.safe_load(run(capsys, "show", "l4-8", "-o", "yaml")) == orjson.loads(run(capsys, "show", "l4-8", "-o", "json"))


def test_names_can_be_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    names = run(capsys, "list", "-o", "name").split()
    assert len(set(names)) == len(names) > 300
    assert {catalog.find(name).type_name for name in names} == set(names)
    assert run(capsys, "show", "a2-highgpu-8g", "-o", "name") == "a100-40gb-8\n"


def test_a_list_of_one_generation_grows(capsys: pytest.CaptureFixture[str]) -> None:
    listed = orjson.loads(run(capsys, "list", "--generation", "v5p", "-o", "json"))
    assert all(one["chips"] < other["chips"] for one, other in pairwise(listed))
    assert all(each["zones"]["visible"] for each in listed)


def test_nothing_in_a_zone_that_no_one_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "list", "--zone", "moon-base1-a", "-o", "name") == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["show", "v5p-4"],
            "error: no accelerator is called 'v5p-4'\nhint: the nearest are v5p-8 and v5p-16; the number counts cores",
        ),
        (["show", "a3-mega"], "error: no accelerator is called 'a3-mega'\nhint: the closest are a3-megagpu-8g\n"),
        (["show", "v5p-256", "--topology", "4x4x4"], "error: v5p-256 has 128 chips, topology 4x4x4 has 64\n"),
        (["show", "v5p-256", "--chips-per-host", "8"], "error: 8 chips per host do not fit tpu-v5p-slice 4x4x8\n"),
        (["list", "--generation", "v9"], "error: no generation is called 'v9'\nhint: there are 7x, "),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["accelerators", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(message)
    assert captured.out == ""
