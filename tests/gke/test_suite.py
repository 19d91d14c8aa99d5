"""The suite for a throw-away project: its order and its cost, and all of it on a twin's cloud."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.gke import suite
from tests.gke.suite import TEMPLATES, StepFailed, Suite, main, run_command
from tests.support.terraform_twin import running

from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Sequence

APART = True  # each environment has its own twin


class Recorder:
    """Runs `env init`, and records all other commands; one of them fails."""

    def __init__(self, failing: str = "") -> None:
        self.commands: list[str] = []
        self.failing = failing

    def __call__(self, command: Sequence[str]) -> str:
        text = " ".join(command)
        if " env init " in text:
            return run_command(command)
        self.commands.append(text)
        if command[0] == "env":
            Path(command[1].removeprefix("KUBECONFIG=")).touch()
        if self.failing and self.failing in text:
            raise StepFailed(text)
        return ""

    def verbs(self) -> list[str]:
        return [text.partition(" sliceworks ")[2].partition(" -f ")[0] or text for text in self.commands]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of Google's APIs."""
    result: list[str] = []

    def call(_: Suite, method: str, service: str, path: str) -> Any:
        result.append(f"{method} {service} {path}")
        return {"parent": {"type": "organization", "id": "77"}} if service == "cloudresourcemanager" else {}

    monkeypatch.setattr(Suite, "call", call)
    return result


def test_cost_is_printed_and_confirmed_before_anything_is_created(
    tmp_path: Path, calls: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder()
    with pytest.raises(SliceworksError, match="stdin is not a terminal"):
        main(["--project", "throw-away", "--folder", str(tmp_path)], recorder)
    output = capsys.readouterr().out
    assert "training       103.04     1.5     154.56" in output
    assert "estimated cost: 164.65 USD, without cpu-pool, whose price is unknown" in output
    assert recorder.commands == []
    assert [call for call in calls if call.startswith("POST")] == []


def test_every_environment_is_created_used_and_destroyed(
    tmp_path: Path, calls: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder()
    assert main(["--project", "throw-away", "--folder", str(tmp_path), "--yes"], recorder) == 0
    verbs = recorder.verbs()
    assert [verb for verb in verbs if verb.startswith("env ") and "gcloud" not in verb] == [
        *("env check", "env plan", "env apply", "env plan", "env resize tpu-node-pool 1", "env destroy", "env show"),
        *("env check", "env plan", "env apply", "env plan", "env destroy", "env show") * 3,
    ]
    assert [verb.split(" --")[0] for verb in verbs if verb.startswith(("train", "models"))] == [
        "train submit hello -n tpu-training",
        "models deploy",
        "models delete small -n triton -y",
    ]
    assert len([text for text in recorder.commands if "gcloud container clusters get-credentials" in text]) == 2
    assert len([text for text in recorder.commands if "kubectl" in text]) == 4
    assert len([call for call in calls if call.startswith("POST serviceusage")]) == len(suite.SERVICES)
    assert '      organization: "77"' in (tmp_path / "self-service" / "environment.yaml").read_text()
    assert "'Last verified on GKE' in docs/explanation/fidelity.md" in capsys.readouterr().out


@pytest.mark.usefixtures("calls")
def test_failed_step_destroys_its_environment_and_ends_the_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder(failing="models deploy")
    assert main(["--project", "throw-away", "--folder", str(tmp_path), "--yes"], recorder) == 1
    assert recorder.verbs()[-3:] == ["models deploy", "env destroy", "env show"]
    assert not any("saxml" in text for text in recorder.commands)
    assert "failed: triton:" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.long(100)
@pytest.mark.timeout(900)
@pytest.mark.skipif(os.environ.get("SLICEWORKS_REAL") != "1", reason="takes minutes: make test-real runs it")
@pytest.mark.parametrize("name", TEMPLATES)
def test_suite_on_a_twin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("SLICEWORKS_HOME", str(home))
    for _ in running(home):
        code = main(["--project", "my-project", "--folder", str(tmp_path / "files"), "--twin", "--yes", "--only", name])
        output = capsys.readouterr()
        assert code == 0, output.err
        steps = [line.split(maxsplit=1)[1] for line in output.out.splitlines() if line.startswith(f"{name} ")]
        assert steps[-1].startswith("nothing remains ")
        assert any(step.startswith("slices on demand ") for step in steps) == (name == "training")
