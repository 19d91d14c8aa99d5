"""The content of a folder determines how it is rehearsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support import small_platforms

from sliceworks.base.errors import InvalidDocument
from sliceworks.platform.document_set import load, resolve_gateway, resolve_load_tests

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.platform.document_set import DocumentSet


def test_folder_without_expectations_is_a_basic_run(tmp_path: Path) -> None:
    result = load(small_platforms.write(tmp_path / "a", expect=""))
    assert not result.needs_simulation
    assert result.environment is None
    assert {obj.data["kind"] for obj in result.objects} >= {"Node", "ClusterQueue"}


def test_expectations_terraform_and_load_tests_need_a_simulation(tmp_path: Path) -> None:
    assert load(small_platforms.write(tmp_path / "a")).needs_simulation
    assert load(small_platforms.write(tmp_path / "b", expect="", load=True)).needs_simulation
    result = load(small_platforms.write(tmp_path / "c", expect="", terraform=True, service=True))
    assert result.needs_simulation
    assert result.environment is not None
    assert [service.data["metadata"]["name"] for service in result.services] == ["parrot"]
    assert result.objects == ()


def test_terraform_needs_one_environment(tmp_path: Path) -> None:
    folder = small_platforms.write(tmp_path / "a", terraform=True)
    (folder / "environment.yaml").unlink()
    with pytest.raises(InvalidDocument, match="requires exactly one Environment, found 0"):
        load(folder)


def test_environment_for_terraform_is_validated_first(tmp_path: Path) -> None:
    folder = small_platforms.write(tmp_path / "a", terraform=True)
    file = folder / "environment.yaml"
    file.write_text(file.read_text().replace("zones: [us-west4-a]", "zones: [us-west4-x]"))
    with pytest.raises(InvalidDocument, match="us-west4-x has no v5litepod-4"):
        load(folder)


def _load(folder: Path, text: str) -> DocumentSet:
    (folder / "load.yaml").write_text(text)
    return load(folder)


def test_load_test_targets_gateway_of_folder(tmp_path: Path) -> None:
    folder = small_platforms.write(tmp_path / "a", load=True)
    front, _, test = small_platforms.LOAD.partition("---")
    assert load(folder).load_tests
    with pytest.raises(InvalidDocument, match="only one Gateway is allowed"):
        _load(folder, "---".join((front, front.replace("front", "back"), test)))
    with pytest.raises(InvalidDocument, match=r"load.yaml:\d+: spec.models: model parrot not found, which a load test requests"):
        _load(folder, "---".join((front.replace("name: parrot", "name: raven"), test)))


def test_load_test_targets_model_service_of_folder(tmp_path: Path) -> None:
    folder = small_platforms.write(tmp_path / "a", service=True)
    test = small_platforms.LOAD.partition("---")[2].replace("  model: parrot\n", "").replace("  api: openai-chat\n", "")
    result = _load(folder, test.replace("url: http://127.0.0.1:1", "modelService: {name: parrot}"))
    [aimed] = resolve_load_tests(result.load_tests, result.services)
    assert (aimed.spec.model, aimed.spec.api) == ("parrot", "openai-chat")
    assert [model["name"] for model in resolve_gateway(result.gateways, [aimed])["spec"]["models"]] == ["parrot"]
    result = _load(folder, test.replace("url: http://127.0.0.1:1", "modelService: {file: model.yaml}"))
    assert [item.spec.model for item in resolve_load_tests(result.load_tests, ())] == ["parrot"]
    with pytest.raises(InvalidDocument, match="ModelService raven not found in this folder"):
        _load(folder, test.replace("url: http://127.0.0.1:1", "modelService: {name: raven}"))


def test_invalid_expectation_field_has_its_line(tmp_path: Path) -> None:
    expect = "\n  - job: {name: slow, namespace: vision, outcom: succeeded}\n"
    with pytest.raises(InvalidDocument, match=r"day.yaml:\d+: .*outcom; did you mean outcome"):
        load(small_platforms.write(tmp_path / "a", expect=expect))
