"""Failed or interrupted Terraform runs: a one-line error with a hint, and the next apply resumes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support import fake_terraform
from tests.support.sigint import with_sigint

from sliceworks.cli import main
from sliceworks.cli.env_site import EnvironmentCluster
from sliceworks.infra.target import Target

DOCUMENT = """apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: small}
spec:
  project: my-project
  region: us-central2
  zones: [us-central2-b]
  automation: {bucket: small-automation}
  pools: {cpu: {cpu: {nodes: 1}}, tpu: {slice: {type: v4-16}}}
"""
LOCKED = "Error acquiring the state lock|Error message: googleapi: conditionNotMet Lock Info: ID: 1700 Path: gs://b Who: ann@laptop"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A document with a fake Terraform, so nothing is applied to its cluster."""
    monkeypatch.setattr(EnvironmentCluster, "apply", lambda *_: [])
    monkeypatch.setattr(EnvironmentCluster, "remove", lambda *_: (0, []))
    monkeypatch.setattr(EnvironmentCluster, "requeue", lambda *_: None)
    monkeypatch.setattr(EnvironmentCluster, "compare", lambda *_: [])
    monkeypatch.setattr(EnvironmentCluster, "running_work", lambda *_: [])
    monkeypatch.setattr(Target, "missing_grant", lambda *_, creates: "")
    monkeypatch.setattr(Target, "read_json", lambda *_: {})
    monkeypatch.setattr(Target, "ensure_impersonation", lambda *_: None)
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLICEWORKS_TERRAFORM", str(fake_terraform.install(tmp_path / "bin")))
    document = tmp_path / "environment.yaml"
    document.write_text(DOCUMENT)
    return str(document)


def order(file: str, *orders: str) -> Path:
    return fake_terraform.install(Path(file).parent / "bin", *orders).parent


def test_failed_stage_has_a_hint_and_the_next_apply_resumes(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    order(file, "2-cluster Error 403: Quota 'CPUS' exceeded|Limit: 24.0")
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: 2-cluster: Error 403: Quota 'CPUS' exceeded: Limit: 24.0",
        "hint: request more quota, or reduce the pools in the document; then `sliceworks env apply` resumes where it stopped",
    ]
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0


def test_stale_lock_error_names_the_unlock_command(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    order(file, f"1-base {LOCKED}")
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 1
    assert "`sliceworks env unlock 1-base 1700`, then apply again" in capsys.readouterr().err


@pytest.mark.parametrize("stage", ["0-bootstrap", "1-base", "2-cluster"])
def test_destroy_after_partial_apply(file: str, stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    order(file, f"{stage} quota|exceeded")
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 1
    assert main.run(["env", "destroy", "-y", "-q", "-f", file]) == 0
    capsys.readouterr()
    assert main.run(["env", "show", "-o", "name", "-f", file]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("stage", "deleted"), [("2-cluster", 0), ("1-base", 1), ("0-bootstrap", 2)])
def test_interrupted_destroy_resumes(file: str, stage: str, deleted: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0
    calls = order(file, f"{stage} connection lost") / "calls"
    calls.write_text("")
    assert main.run(["env", "destroy", "-y", "-q", "-f", file]) == 1
    assert f"{stage}: connection lost" in capsys.readouterr().err
    assert calls.read_text().count(" destroy\n") == deleted + 1
    calls.write_text("")
    assert main.run(["env", "destroy", "-y", "-q", "-f", file]) == 0
    assert calls.read_text().count(" destroy\n") == 3 - deleted
    capsys.readouterr()
    assert main.run(["env", "show", "-o", "name", "-f", file]) == 0
    assert capsys.readouterr().out == ""


def test_unreadable_state_is_an_error(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0
    program = order(file) / "terraform"
    program.write_text(
        program.read_text().replace('elif verb == "state":', 'elif verb == "state":\n    sys.exit("Error: Failed to load state")')
    )
    assert main.run(["env", "destroy", "-y", "-q", "-f", file]) == 1
    assert "2-cluster: Failed to load state" in capsys.readouterr().err


def test_ctrl_c_waits_for_terraform_and_the_next_apply_resumes(file: str) -> None:
    folder = order(file, "1-base hang")
    # Another process has Google's own client: with an existing account it does not ask who the caller is.
    Path(file).write_text(DOCUMENT.replace("automation: {", "automation: {create: false, "))
    command = [sys.executable, "-m", "sliceworks", "env", "apply", "-y", "-f", file]
    process = subprocess.Popen(
        with_sigint(command), stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_GCE_CHECK": "true"}, start_new_session=True
    )
    for _ in range(1000):
        if (folder / "hanging").exists():
            break
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert output.split("\n\n")[0].splitlines()[-1:] + output.split()[-1:] == [
        "1-base: waiting for Terraform to finish its current operations",
        "interrupted",
    ]
    state = folder.parent / "home/environments/small/stages/1-base/state.json"
    assert state.read_text() == '["first", "second"]'
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0
    assert "third" in state.read_text()


def test_terraform_may_receive_ctrl_c_first(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    order(file, "1-base interrupted")
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0


def test_resize_changes_document_and_applies_one_stage(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0
    folder = order(file)
    (folder / "planned").write_text('delete module.node_pools.google_container_node_pool.this["slice-0"]\n')
    (folder / "calls").unlink()
    assert main.run(["env", "resize", "slice", "0", "-y", "-q", "-o", "name", "-f", file]) == 0
    assert capsys.readouterr().out.endswith('this["slice-0"]\n')
    assert Path(file).read_text() == DOCUMENT.replace("{type: v4-16}", "{count: 0, type: v4-16}")
    assert [call for call in (folder / "calls").read_text().splitlines() if call.endswith("apply")] == ["2-cluster apply"]


def test_resize_with_other_changes_does_nothing(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0
    (order(file) / "planned").write_text("update module.cluster.this\n")
    assert main.run(["env", "resize", "slice", "0", "-y", "-q", "-f", file]) == 1
    assert "resources besides slice would change: module.cluster.this" in capsys.readouterr().err
    assert Path(file).read_text() == DOCUMENT


def test_resize_of_missing_pool_names_the_closest(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "resize", "slices", "0", "-y", "-f", file]) == 2
    assert capsys.readouterr().err == "error: TPU pool 'slices' not found in small\nhint: did you mean slice?\n"


def test_resize_before_apply_is_an_error(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "resize", "slice", "0", "-y", "-q", "-f", file]) == 1
    assert "stage 0-bootstrap is not applied yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (DOCUMENT[: DOCUMENT.index("region")], "region"),
        (DOCUMENT[: DOCUMENT.index("{type")] + "{type: v4", "environment.yaml:10"),
        ("", "must contain one Environment, got 0"),
        (DOCUMENT.replace("small}", f"{'s' * 40}}}"), "is longer than 40 characters"),
        (DOCUMENT + "  network: {subnet: {nodes: 10.0.0.0/8, pods: 10.1.0.0/16}}\n", "overlaps with nodes (10.0.0.0/8)"),
        (DOCUMENT.replace("v4-16", "v5p-8"), "us-central2-b has no v5p-8"),
    ],
)
def test_invalid_document_is_an_error_before_start(file: str, text: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(file).write_text(text)
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 1
    output = capsys.readouterr().err
    assert says in output
    assert "Traceback" not in output
    assert not (Path(file).parent / "bin" / "calls").exists()
