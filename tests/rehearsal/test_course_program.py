"""What a folder contains decides what is done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import small_platforms

from sliceworks.base.errors import InvalidDocument
from sliceworks.rehearsal.course.program import read

if TYPE_CHECKING:
    from pathlib import Path


def test_objects_and_a_scenario_that_expects_nothing_are_no_day(tmp_path: Path) -> None:
    found = read(small_platforms.write(tmp_path / "a", expect=""))
    assert not found.is_day
    assert found.environment is None
    assert {each.data["kind"] for each in found.objects} >= {"Node", "ClusterQueue"}


def test_expectations_terraform_and_load_tests_make_a_day(tmp_path: Path) -> None:
    assert read(small_platforms.write(tmp_path / "a")).is_day
    assert read(small_platforms.write(tmp_path / "b", expect="", load=True)).is_day
    found = read(small_platforms.write(tmp_path / "c", expect="", terraform=True, service=True))
    assert found.is_day
    assert found.environment is not None
    assert [each.data["metadata"]["name"] for each in found.services] == ["parrot"]
    assert found.objects == ()


def test_terraform_needs_one_environment(tmp_path: Path) -> None:
    folder = small_platforms.write(tmp_path / "a", terraform=True)
    (folder / "environment.yaml").unlink()
    with pytest.raises(InvalidDocument, match="has Terraform make an environment, and there are 0"):
        read(folder)


def test_an_environment_for_terraform_is_checked_before_anything_is_made(tmp_path: Path) -> None:
    folder = small_platforms.write(tmp_path / "a", terraform=True)
    file = folder / "environment.yaml"
    file.write_text(file.read_text().replace("zones: [us-west4-a]", "zones: [us-west4-x]"))
    with pytest.raises(InvalidDocument, match="us-west4-x has no v5litepod-4"):
        read(folder)


def test_a_load_test_needs_one_gateway(tmp_path: Path) -> None:
    folder = small_platforms.write(tmp_path / "a", load=True)
    gateway, _, test = (folder / "load.yaml").read_text().partition("---")
    (folder / "load.yaml").write_text(test)
    with pytest.raises(InvalidDocument, match="a load test needs a Gateway beside it"):
        read(folder)
    (folder / "load.yaml").write_text("---".join((gateway, gateway.replace("front", "back"), test)))
    with pytest.raises(InvalidDocument, match="is the second gateway"):
        read(folder)


def test_a_wrong_field_of_an_expectation_names_its_line(tmp_path: Path) -> None:
    expect = "\n  - job: {name: slow, namespace: vision, outcom: succeeded}\n"
    with pytest.raises(InvalidDocument, match=r"day.yaml:\d+: .*outcom; did you mean outcome"):
        read(small_platforms.write(tmp_path / "a", expect=expect))
