"""What a folder contains decides what is done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import small_platforms

from sliceworks.base.errors import InvalidDocument
from sliceworks.rehearsal.course.aiming import aim, gateway
from sliceworks.rehearsal.course.program import read

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.rehearsal.course.program import Program


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


def _load(folder: Path, text: str) -> Program:
    (folder / "load.yaml").write_text(text)
    return read(folder)


def test_a_load_test_asks_the_gateway_of_the_folder(tmp_path: Path) -> None:
    folder = small_platforms.write(tmp_path / "a", load=True)
    front, _, test = small_platforms.LOAD.partition("---")
    assert read(folder).load_tests
    with pytest.raises(InvalidDocument, match="is the second gateway"):
        _load(folder, "---".join((front, front.replace("front", "back"), test)))
    with pytest.raises(InvalidDocument, match=r"load.yaml:\d+: has no model parrot, which a load test asks for"):
        _load(folder, "---".join((front.replace("name: parrot", "name: raven"), test)))


def test_a_load_test_may_ask_a_model_service_of_the_folder(tmp_path: Path) -> None:
    folder = small_platforms.write(tmp_path / "a", service=True)
    test = small_platforms.LOAD.partition("---")[2].replace("  model: parrot\n", "").replace("  api: openai-chat\n", "")
    found = _load(folder, test.replace("url: http://127.0.0.1:1", "modelService: {name: parrot}"))
    [aimed] = aim(found.load_tests, found.services)
    assert (aimed.spec.model, aimed.spec.api) == ("parrot", "openai-chat")
    assert [model["name"] for model in gateway(found.gateways, [aimed])["spec"]["models"]] == ["parrot"]
    found = _load(folder, test.replace("url: http://127.0.0.1:1", "modelService: {file: model.yaml}"))
    assert [each.spec.model for each in aim(found.load_tests, ())] == ["parrot"]
    with pytest.raises(InvalidDocument, match="there is no ModelService raven in this folder"):
        _load(folder, test.replace("url: http://127.0.0.1:1", "modelService: {name: raven}"))


def test_a_wrong_field_of_an_expectation_names_its_line(tmp_path: Path) -> None:
    expect = "\n  - job: {name: slow, namespace: vision, outcom: succeeded}\n"
    with pytest.raises(InvalidDocument, match=r"day.yaml:\d+: .*outcom; did you mean outcome"):
        read(small_platforms.write(tmp_path / "a", expect=expect))
