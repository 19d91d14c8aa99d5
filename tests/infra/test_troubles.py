"""When Terraform fails or is stopped: one line and the remedy, nothing half known, and the next apply goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support import fake_terraform
from tests.support.interrupts import heeding

from sliceworks.cli import main
from sliceworks.cli.env_cluster import Inside
from sliceworks.infra import troubles

DOCUMENT = """apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: small}
spec:
  project: my-project
  region: us-central2
  zones: [us-central2-b]
  automation: {bucket: small-automation}
  pools: {tpu: {slice: {type: v4-16}}}
"""
LOCKED = "Error acquiring the state lock|Error message: googleapi: conditionNotMet Lock Info: ID: 1700 Path: gs://b Who: ann@laptop"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A document, beside a Terraform that makes nothing; so nothing is put into its cluster."""
    monkeypatch.setattr(Inside, "apply", lambda *_: [])
    monkeypatch.setattr(Inside, "remove", lambda *_: (0, []))
    monkeypatch.setattr(Inside, "requeue", lambda *_: None)
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLICEWORKS_TERRAFORM", str(fake_terraform.install(tmp_path / "bin")))
    document = tmp_path / "environment.yaml"
    document.write_text(DOCUMENT)
    return str(document)


def order(file: str, *orders: str) -> Path:
    return fake_terraform.install(Path(file).parent / "bin", *orders).parent


def test_what_is_there_may_be_from_a_try_of_ours() -> None:
    bucket = 'module.storage.google_storage_bucket.this["data"]'
    said = f"module.network.google_compute_network.this[0]: Error: invalid name {bucket}: googleapi: Error 409: it is there"
    assert troubles.remedy(said, "1-base").endswith(f"whose answer was lost: `sliceworks env adopt 1-base '{bucket}'`")
    named = "google_service_account.nodes[0]: google_service_account: creating failed: Service account x already exists."
    assert "env adopt 1-base 'google_service_account.nodes[0]'" in troubles.remedy(named, "1-base")
    assert "env adopt" not in troubles.remedy("Error 409: nobody knows what", "1-base")


@pytest.mark.parametrize(
    ("trouble", "hint"),
    [
        ("Error: googleapi: Error 403: Insufficient regional quota to satisfy request: CPUS", "ask for more quota"),
        ("Error waiting for creating NodePool: GCE_STOCKOUT: does not have enough resources", "try another zone"),
        ("googleapi: Error 403: Required 'container.clusters.create' permission", "spec.automation.roles"),
        ("Error reading: Get https://container.googleapis.com: read: connection reset by peer", "the connection was lost"),
        ("Error 409: The requested bucket name is not available", "names of buckets are taken once"),
        ("could not find default credentials", "gcloud auth application-default login"),
        (LOCKED, "ann@laptop is at work on it"),
        ("Invalid value for variable", ""),
    ],
)
def test_troubles_have_remedies(trouble: str, hint: str) -> None:
    found = troubles.remedy(trouble, "stages/2-cluster")
    assert hint in found
    assert bool(found) == bool(hint)


def test_a_stage_that_fails_says_why_and_what_to_do_and_the_next_apply_goes_on(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    order(file, "2-cluster Error 403: Quota 'CPUS' exceeded|Limit: 24.0")
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: 2-cluster: Error 403: Quota 'CPUS' exceeded: Limit: 24.0",
        "hint: ask for more quota, or for less in the document; then `sliceworks env apply` goes on where it stopped",
    ]
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0


def test_a_stale_lock_names_the_command_that_frees_it(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    order(file, f"1-base {LOCKED}")
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 1
    assert "`sliceworks env unlock 1-base 1700`, and apply again" in capsys.readouterr().err


@pytest.mark.parametrize("stage", ["0-bootstrap", "1-base", "2-cluster"])
def test_destroy_works_from_wherever_apply_stopped(file: str, stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    order(file, f"{stage} quota|exceeded")
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 1
    assert main.run(["env", "destroy", "-y", "-q", "-f", file]) == 0
    capsys.readouterr()
    assert main.run(["env", "show", "-o", "name", "-f", file]) == 0
    assert capsys.readouterr().out == ""


def test_a_state_that_cannot_be_read_is_not_taken_for_none(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0
    program = order(file) / "terraform"
    program.write_text(
        program.read_text().replace('elif verb == "state":', 'elif verb == "state":\n    sys.exit("Error: Failed to load state")')
    )
    assert main.run(["env", "destroy", "-y", "-q", "-f", file]) == 1
    assert "2-cluster: Failed to load state" in capsys.readouterr().err


def test_after_ctrl_c_terraform_is_waited_for_and_the_next_apply_goes_on(file: str) -> None:
    folder = order(file, "1-base hang")
    command = [sys.executable, "-m", "sliceworks", "env", "apply", "-y", "-f", file]
    process = subprocess.Popen(heeding(command), stderr=subprocess.PIPE, text=True, env=dict(os.environ), start_new_session=True)
    for _ in range(1000):
        if (folder / "hanging").exists():
            break
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert said.split("\n\n")[0].splitlines()[-1:] + said.split()[-1:] == ["1-base: Terraform ends what it began", "interrupted"]
    state = folder.parent / "home/environments/small/stages/1-base/state.json"
    assert state.read_text() == '["first", "second"]'
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0
    assert "third" in state.read_text()


def test_terraform_may_hear_of_ctrl_c_first(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    order(file, "1-base interrupted")
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0


def test_a_resize_changes_the_document_and_applies_one_stage(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0
    folder = order(file)
    (folder / "planned").write_text('delete module.node_pools.google_container_node_pool.this["slice-0"]\n')
    (folder / "calls").unlink()
    assert main.run(["env", "resize", "slice", "0", "-y", "-q", "-o", "name", "-f", file]) == 0
    assert capsys.readouterr().out.endswith('this["slice-0"]\n')
    assert Path(file).read_text() == DOCUMENT.replace("{type: v4-16}", "{count: 0, type: v4-16}")
    assert [call for call in (folder / "calls").read_text().splitlines() if call.endswith("apply")] == ["2-cluster apply"]


def test_a_resize_that_would_change_more_does_nothing(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 0
    (order(file) / "planned").write_text("update module.cluster.this\n")
    assert main.run(["env", "resize", "slice", "0", "-y", "-q", "-f", file]) == 1
    assert "more than slice would change: module.cluster.this" in capsys.readouterr().err
    assert Path(file).read_text() == DOCUMENT


def test_a_resize_of_a_pool_that_is_not_there_names_the_closest(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "resize", "slices", "0", "-y", "-f", file]) == 2
    assert capsys.readouterr().err == "error: small has no TPU pool slices\nhint: did you mean slice?\n"


def test_a_resize_before_anything_is_made_says_so(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "resize", "slice", "0", "-y", "-q", "-f", file]) == 1
    assert "0-bootstrap is not made yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (DOCUMENT[: DOCUMENT.index("region")], "region"),
        (DOCUMENT[: DOCUMENT.index("{type")] + "{type: v4", "environment.yaml:10"),
        ("", "has 0 Environments, one is wanted"),
        (DOCUMENT.replace("small}", f"{'s' * 40}}}"), "is longer than 40 characters"),
        (DOCUMENT + "  network: {subnet: {nodes: 10.0.0.0/8, pods: 10.1.0.0/16}}\n", "overlaps with nodes (10.0.0.0/8)"),
        (DOCUMENT.replace("v4-16", "v5p-8"), "us-central2-b has no v5p-8"),
    ],
)
def test_a_document_that_will_not_do_is_refused_before_anything_begins(
    file: str, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(text)
    assert main.run(["env", "apply", "-y", "-q", "-f", file]) == 1
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said
    assert not (Path(file).parent / "bin" / "calls").exists()
