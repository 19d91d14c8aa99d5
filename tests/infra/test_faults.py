"""Faults during real Terraform runs on a twin: a clear error, nothing created twice, the next apply resumes, destroy works."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pytest
from tests.support.polling import eventually
from tests.support.sigint import with_sigint
from tests.support.tcp_proxy import TcpProxy
from tests.support.terraform_twin import DOCUMENT, SPEED, STAGE, Twin, apply_base, ignore_stage, twin_at

from sliceworks.base.errors import CloudNotFound, SliceworksError
from sliceworks.infra.stack import Workspace
from sliceworks.infra.target import TwinTarget
from sliceworks.infra.terraform import FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sliceworks.infra.stack import Stack

pytestmark = [
    pytest.mark.real,
    pytest.mark.long(80),
    pytest.mark.skipif(os.environ.get("SLICEWORKS_REAL") != "1", reason="starts Terraform many times: run by make test-real"),
    pytest.mark.timeout(600),
]
WHOLE = ["data", "network", "network-router", "network-us-central2", "nodes", "runs"]


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    yield from twin_at(tmp_path_factory.mktemp("home"))


def whole(name: str) -> list[str]:
    return [f"{name}-{item}" for item in WHOLE]


def failure(site: Stack) -> SliceworksError:
    with pytest.raises(SliceworksError) as caught:
        apply_base(site)
    return caught.value


def is_finished(site: Stack) -> bool:
    """Whether a plan has no changes."""
    return all(change.action in ("noop", "read") for change in next(site.plan()).changes)


def remove(site: Stack) -> None:
    for _ in site.destroy(ignore_stage):
        pass


REFUSALS = (
    ("fault: QuotaExceeded, match: {method: networks.create}, count: 1", "Insufficient regional quota", "request more quota"),
    ("fault: PermissionDenied, match: {method: networks.create}, count: 1", "compute.networks.create", "spec.automation.roles"),
    ("fault: ExpiredCredentials, match: {method: networks.create}, count: 2", "invalid authentication", "gcloud auth"),
)


def test_rejection_is_one_line_and_the_next_apply_resumes(twin: Twin, tmp_path: Path) -> None:
    site = twin.site(twin.document(tmp_path, "refused"))
    for trouble, says, hint in REFUSALS:
        twin.inject(tmp_path, trouble)
        error = failure(site)
        assert (says in error.message, hint in error.hint, "\n" in error.message) == (True, True, False), error
    apply_base(site)
    assert twin.existing_resources("refused") == whole("refused")
    remove(site)
    assert twin.existing_resources("refused") == []


LOST = ("networks.create", "buckets.insert", "serviceAccounts.create", "tensorboards.create")
MADE = (
    ("/storage/v1/b/lost-data", "timeCreated"),
    ("/compute/v1/projects/my-project/global/networks/lost-network", "creationTimestamp"),
)
"""The creation time fields of the cloud."""


def test_resource_created_without_response_is_imported(twin: Twin, tmp_path: Path) -> None:
    site = twin.site(twin.document(tmp_path, "lost"))
    twin.inject(tmp_path, *(f"fault: LostAnswers, match: {{method: {method}}}, count: 1" for method in LOST))
    assert "the connection was lost" in failure(site).hint
    assert len(site.workspace.stage(STAGE).joinpath(FILE).read_bytes().splitlines()) == len(LOST)
    first = [twin.ask("GET", path)[key] for path, key in MADE]
    apply_base(site)
    assert twin.existing_resources("lost") == whole("lost")
    assert [twin.ask("GET", path)[key] for path, key in MADE] == first
    assert is_finished(site)
    remove(site)
    assert twin.existing_resources("lost") == []


def test_destroy_finds_unconfirmed_resources(twin: Twin, tmp_path: Path) -> None:
    site = twin.site(twin.document(tmp_path, "orphans"))
    twin.inject(tmp_path, *(f"fault: LostAnswers, match: {{method: {method}}}, count: 1" for method in LOST))
    failure(site)
    assert twin.existing_resources("orphans") == [f"orphans-{item}" for item in ("data", "network", "nodes", "runs")]
    remove(site)
    assert twin.existing_resources("orphans") == []


def held(kind: str, seconds: int = 5) -> str:
    """One resource of a kind is created, but its response is delayed by this much real time."""
    return f"name: held-{kind}, fault: SlowAnswers, seconds: {seconds * SPEED}, match: {{method: {kind}.create}}, count: 1"


def begun(twin: Twin, file: Path, site: Stack, things: int, stage: str = STAGE) -> subprocess.Popen[str]:
    """An apply in its own processes that has started to create this many resources; earlier runs may have left a journal."""
    journal = site.workspace.stage(stage) / FILE
    before = journal.read_bytes() if journal.exists() else b""
    command = [sys.executable, "-m", "sliceworks", "env", "apply", "--twin", "-f", str(file)]
    environment = {**os.environ, "SLICEWORKS_HOME": str(twin.home)}
    process = subprocess.Popen(with_sigint(command), env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for _ in range(12000):
        if journal.exists() and (content := journal.read_bytes()) != before and len(content.splitlines()) >= things:
            return process
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.01)
    raise AssertionError("nothing was begun")


def test_apply_resumes_after_a_kill(twin: Twin, tmp_path: Path) -> None:
    file = twin.document(tmp_path, "killed")
    site = twin.site(file)
    for kind in ("networks", "subnetworks"):
        twin.inject(tmp_path, held(kind))
        process = begun(twin, file, site, 1)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=120)
    apply_base(site)
    assert twin.existing_resources("killed") == whole("killed")
    assert is_finished(site)
    remove(site)
    assert twin.existing_resources("killed") == []


CLUSTER = "  pools: {cpu: {cpu: {nodes: 1}}}\n"


def test_partly_created_cluster_is_imported_without_default_pool(twin: Twin, tmp_path: Path) -> None:
    file = twin.document(tmp_path, "half")
    file.write_text(file.read_text() + CLUSTER)
    site = twin.site(file)
    process = begun(twin, file, site, 1, "2-cluster")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=120)
    for _ in site.apply(ignore_stage):
        pass
    pools = twin.ask("GET", "/container/v1/projects/my-project/locations/us-central2/clusters/half-cluster/nodePools")
    assert [pool["name"] for pool in pools["nodePools"]] == ["cpu"]
    assert all(change.action in ("noop", "read") for planned in site.plan() for change in planned.changes)
    remove(site)
    assert twin.existing_resources("half") == []


def test_apply_resumes_after_ctrl_c(twin: Twin, tmp_path: Path) -> None:
    file = twin.document(tmp_path, "stopped")
    site = twin.site(file)
    twin.inject(tmp_path, held("networks"))
    process = begun(twin, file, site, 3)
    os.killpg(process.pid, signal.SIGINT)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    apply_base(site)
    assert twin.existing_resources("stopped") == whole("stopped")
    remove(site)
    assert twin.existing_resources("stopped") == []


def test_lost_connection_is_retried(twin: Twin, tmp_path: Path) -> None:
    site = twin.site(twin.document(tmp_path, "cut"))
    wire = TcpProxy(twin.address)
    reported: list[SliceworksError] = []
    cut_off = replace(site, target=TwinTarget(address=wire.address, token=twin.token))
    worker = threading.Thread(target=lambda: reported.append(failure(cut_off)))
    twin.inject(tmp_path, held("networks", 60))  # it is lost with the connection: no client waits for it
    worker.start()
    eventually(lambda: "cut-network" in twin.existing_resources("cut"), 240, "the network exists, and its response is delayed")
    wire.cut()
    time.sleep(1)
    wire.restore()
    worker.join(400)
    wire.cut()
    assert "the connection was lost" in reported[0].hint
    apply_base(site)
    assert twin.existing_resources("cut") == whole("cut")
    remove(site)
    assert twin.existing_resources("cut") == []


def test_foreign_lock_is_reported_and_unlocked_manually(twin: Twin, tmp_path: Path) -> None:
    file = twin.document(tmp_path, "locked")
    site = twin.site(file)
    info = {"ID": "1700", "Operation": "OperationTypeApply", "Who": "ann@laptop", "Version": "1.11.4"}
    lock = f"locked/terraform/{STAGE}/default.tflock"
    twin.upload("locked-automation", lock, orjson.dumps({**info, "Created": "2026-11-14T10:00:00Z", "Path": "gs://locked"}))
    error = failure(site)
    assert "locked by ann@laptop since 2026-11-14 10:00:00" in error.hint
    assert f"`sliceworks env unlock {STAGE} " in error.hint
    number = error.hint.partition(f"unlock {STAGE} ")[2].partition("`")[0]
    freed = twin.run("env", "unlock", STAGE, number, "--twin", "-f", str(file))
    assert freed.returncode == 0, freed.stderr
    apply_base(site)
    remove(site)


def test_state_of_the_first_stage_moves_to_its_bucket(twin: Twin, tmp_path: Path) -> None:
    file = tmp_path / "environment.yaml"
    made_here = "automation: {bucket: first-states, serviceAccount: robot-two}"
    file.write_text(re.sub(r"automation: .*", made_here, DOCUMENT.format(name="first")))
    site = twin.site(file)
    apply_base(site)
    names = [item["name"] for item in twin.ask("GET", "/storage/v1/b/first-states/o")["items"]]
    assert "first/terraform/0-bootstrap/default.tfstate" in names
    assert {"providers/providers.tf", "providers/1-base/backend.tf", "tfvars/bootstrap.auto.tfvars.json"} <= set(names)
    elsewhere = replace(site, workspace=Workspace(tmp_path / "another-machine"))
    assert is_finished(elsewhere)
    remove(elsewhere)
    with pytest.raises(CloudNotFound):
        twin.ask("GET", "/storage/v1/b/first-states")


def test_files_and_states_have_no_secrets(twin: Twin, tmp_path: Path) -> None:
    file = twin.document(tmp_path, "quiet")
    site = twin.site(file)
    twin.inject(tmp_path, "fault: PermissionDenied, match: {method: networks.create}, count: 1")
    error = failure(site)
    apply_base(site)
    state = twin.ask("GET", f"/download/storage/v1/b/quiet-automation/o/quiet%2Fterraform%2F{STAGE}%2Fdefault.tfstate")
    assert state["resources"]
    kept = [file for file in site.workspace.folder.rglob("*") if file.is_file() and twin.token.encode() in file.read_bytes()]
    assert kept == []
    assert twin.token not in orjson.dumps(state).decode() + error.message + error.hint
    assert site.workspace.folder.stat().st_mode & 0o077 == 0
    remove(site)
