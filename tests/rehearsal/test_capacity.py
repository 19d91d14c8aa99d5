"""Model services that can grow beyond the GPU machines of the environment, or convert on too small disks, are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sliceworks.platform.validation import validate_folder

EXAMPLES = Path(__file__).parents[2] / "examples"
AUTOSCALING = "        autoscaling: {min: 1, max: 3} # the servers of a ModelService scale from one to three\n"


def folder(tmp_path: Path, pool: str, service: str = "densenet-triton.yaml") -> Path:
    environment = (EXAMPLES / "environments" / "triton" / "environment.yaml").read_text()
    assert AUTOSCALING in environment
    (tmp_path / "environment.yaml").write_text(environment.replace(AUTOSCALING, pool))
    (tmp_path / "model.yaml").write_text((EXAMPLES / "models" / service).read_text())
    return tmp_path


@pytest.mark.parametrize(("pool", "machines"), [("", 1), ("        nodes: 2\n", 2), ("        autoscaling: {min: 0, max: 2}\n", 2)])
def test_service_larger_than_its_pool(pool: str, machines: int, tmp_path: Path) -> None:
    [error] = validate_folder(folder(tmp_path, pool))
    assert f"spec.autoscaling.max: must be at most {machines}, got 3: node pool triton-gpu can have {machines} machines" in str(
        error
    )
    assert "model.yaml:" in str(error)


def test_two_services_share_a_pool(tmp_path: Path) -> None:
    place = folder(tmp_path, AUTOSCALING)
    text = (place / "model.yaml").read_text()
    (place / "second.yaml").write_text(text.replace("name: densenet\n", "name: second\n"))
    [error] = validate_folder(place)
    assert "must be at most 0, got 3" in str(error)


def test_example_fits(tmp_path: Path) -> None:
    assert validate_folder(folder(tmp_path, AUTOSCALING)) == []
    assert validate_folder(EXAMPLES / "platform") == []


def conversion(tmp_path: Path, pool: str) -> Path:
    environment = (EXAMPLES / "environments" / "saxml" / "environment.yaml").read_text()
    huge = f"      huge: {{machineType: n2-highmem-80, autoscaling: {{min: 0, max: 1}}{pool}}}\n"
    sized = environment.replace("        type: v5litepod-4\n", "        type: v5litepod-16\n        count: 2\n")
    (tmp_path / "environment.yaml").write_text(sized.replace("    tpu:\n", f"{huge}    tpu:\n", 1))
    (tmp_path / "model.yaml").write_text((EXAMPLES / "models" / "llama2-70b-saxml.yaml").read_text())
    return tmp_path


def test_conversion_needs_disks_of_its_pool(tmp_path: Path) -> None:
    [error] = validate_folder(conversion(tmp_path, ""))
    assert "model.yaml:30: spec.saxml.models[0].convert.disk: must be at most 104Gi, got 400Gi: pods of node" in str(error)
    assert error.hint == "raise pools.cpu.huge.disk.gib in the environment"


def test_conversion_fits_larger_disks(tmp_path: Path) -> None:
    assert validate_folder(conversion(tmp_path, ", disk: {gib: 600}")) == []
