"""Model services in rehearsals: on the machines of their environment, and with a shared gateway."""

from __future__ import annotations

from pathlib import Path

import pytest

from sliceworks.base.errors import InvalidDocument
from sliceworks.platform import loader
from sliceworks.rehearsal.basic_run import rehearse

EXAMPLES = Path(__file__).parents[2] / "examples"


def day(tmp_path: Path, environment: str, *models: str) -> Path:
    folder = tmp_path / "day"
    folder.mkdir()
    (folder / "environment.yaml").write_text((EXAMPLES / "environments" / environment / "environment.yaml").read_text())
    for name in models:
        (folder / f"{name}.yaml").write_text((EXAMPLES / "models" / f"{name}.yaml").read_text())
    return folder


def states(folder: Path, seconds: float) -> dict[str, str]:
    done = rehearse(loader.load(folder), seconds=seconds)
    assert [item.reason for item in done.refused] == []
    return {outcome.document.name: outcome.state for outcome in done.outcomes}


def test_services_run_on_machines_of_their_environment(tmp_path: Path) -> None:
    result = states(day(tmp_path, "saxml", "llama2-7b-saxml", "llama2-13b-saxml"), 1800)
    ready = {name for name, state in result.items() if name.startswith("Deployment/") and state == "1/1 ready"}
    assert {"Deployment/llama2-7b", "Deployment/llama2-7b-admin"} <= ready
    assert result["Deployment/gateway"] == "2/2 ready"
    assert result["HorizontalPodAutoscaler/gateway"] == "2 of 2 to 5, no metrics on a twin"
    assert "Deployment/llama2-13b" not in ready  # the environment has no slice of one chip
    assert [state for name, state in result.items() if name.startswith("Job/llama2-7b-")] == ["Complete", "Complete"]


def test_shared_gateway_is_written_once(tmp_path: Path) -> None:
    written = loader.load(day(tmp_path, "saxml", "llama2-7b-saxml", "llama2-13b-saxml"))
    [gateway] = [item for item in written if item.name == "ConfigMap/gateway"]
    assert "name: llama2-7b\n" in gateway.data["data"]["gateway.yaml"]
    assert "name: llama2-13b\n" in gateway.data["data"]["gateway.yaml"]
    names = [item.name for item in written]
    assert len(names) == len(set(names))


def test_invalid_service_is_an_error_with_its_location(tmp_path: Path) -> None:
    folder = day(tmp_path, "triton", "densenet-triton")
    file = folder / "densenet-triton.yaml"
    file.write_text(file.read_text().replace("nvidia-tesla-t4", "nvidia-tesla-t5"))
    with pytest.raises(InvalidDocument, match=r"densenet-triton.yaml:9: unknown GPU 'nvidia-tesla-t5'"):
        loader.load(folder)
