"""Faults in the middle of real Terraform's work on a twin: a clear line, nothing twice, the next apply goes on, destroy works."""

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
from tests.support.interrupts import heeding
from tests.support.proxies import Wire
from tests.support.sites import DOCUMENT, SPEED, STAGE, Twin, apply_base, began, twin_at
from tests.support.waiting import eventually

from sliceworks.base.errors import CloudNotFound, SliceworksError
from sliceworks.infra.journal import FILE
from sliceworks.infra.targets import TwinTarget
from sliceworks.infra.workspaces import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sliceworks.infra.environments import Site

pytestmark = [
    pytest.mark.real,
    pytest.mark.long(80),
    pytest.mark.skipif(os.environ.get("SLICEWORKS_REAL") != "1", reason="starts Terraform many times: make test-real does it"),
    pytest.mark.timeout(600),
]
WHOLE = ["data", "network", "network-router", "network-us-central2", "nodes", "runs"]


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    yield from twin_at(tmp_path_factory.mktemp("home"))


def whole(name: str) -> list[str]:
    return [f"{name}-{each}" for each in WHOLE]


def failure(site: Site) -> SliceworksError:
    with pytest.raises(SliceworksError) as caught:
        apply_base(site)
    return caught.value


def is_finished(site: Site) -> bool:
    """Whether a plan finds nothing more to do."""
    return all(change.action in ("noop", "read") for change in next(site.plan()).changes)


def remove(site: Site) -> None:
    for _ in site.destroy(began):
        pass


REFUSALS = (
    ("fault: QuotaExceeded, match: {method: networks.create}, count: 1", "Insufficient regional quota", "ask for more quota"),
    ("fault: PermissionDenied, match: {method: networks.create}, count: 1", "compute.networks.create", "spec.automation.roles"),
    ("fault: ExpiredCredentials, match: {method: networks.create}, count: 2", "invalid authentication", "gcloud auth"),
)


def test_refusals_are_one_line_and_the_next_apply_goes_on(twin: Twin, tmp_path: Path) -> None:
    site = twin.site(twin.document(tmp_path, "refused"))
    for trouble, says, hint in REFUSALS:
        twin.inject(tmp_path, trouble)
        error = failure(site)
        assert (says in error.message, hint in error.hint, "\n" in error.message) == (True, True, False), error
    apply_base(site)
    assert twin.there("refused") == whole("refused")
    remove(site)
    assert twin.there("refused") == []


LOST = ("networks.create", "buckets.insert", "serviceAccounts.create", "tensorboards.create")
MADE = (
    ("/storage/v1/b/lost-data", "timeCreated"),
    ("/compute/v1/projects/my-project/global/networks/lost-network", "creationTimestamp"),
)
"""Where the cloud says when a thing was made."""


def test_what_was_made_without_an_answer_is_taken_over_and_not_made_twice(twin: Twin, tmp_path: Path) -> None:
    site = twin.site(twin.document(tmp_path, "lost"))
    twin.inject(tmp_path, *(f"fault: LostAnswers, match: {{method: {method}}}, count: 1" for method in LOST))
    assert "the connection was lost" in failure(site).hint
    assert len(site.workspace.stage(STAGE).joinpath(FILE).read_bytes().splitlines()) == len(LOST)
    first = [twin.ask("GET", path)[key] for path, key in MADE]
    apply_base(site)
    assert twin.there("lost") == whole("lost")
    assert [twin.ask("GET", path)[key] for path, key in MADE] == first
    assert is_finished(site)
    remove(site)
    assert twin.there("lost") == []


def test_destroy_finds_what_nobody_knows_of(twin: Twin, tmp_path: Path) -> None:
    site = twin.site(twin.document(tmp_path, "orphans"))
    twin.inject(tmp_path, *(f"fault: LostAnswers, match: {{method: {method}}}, count: 1" for method in LOST))
    failure(site)
    assert twin.there("orphans") == [f"orphans-{each}" for each in ("data", "network", "nodes", "runs")]
    remove(site)
    assert twin.there("orphans") == []


def held(kind: str, seconds: int = 5) -> str:
    """One of a kind is made, but its answer comes so much later by this machine's clock: much is still to do until then."""
    return f"name: held-{kind}, fault: SlowAnswers, seconds: {seconds * SPEED}, match: {{method: {kind}.create}}, count: 1"


def begun(twin: Twin, file: Path, site: Site, things: int, stage: str = STAGE) -> subprocess.Popen[str]:
    """An apply in processes of its own, which has begun to make so many things."""
    command = [sys.executable, "-m", "sliceworks", "env", "apply", "--twin", "-f", str(file)]
    environment = {**os.environ, "SLICEWORKS_HOME": str(twin.home)}
    process = subprocess.Popen(heeding(command), env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    journal = site.workspace.stage(stage) / FILE
    for _ in range(6000):
        if journal.exists() and len(journal.read_bytes().splitlines()) >= things:
            return process
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.01)
    raise AssertionError("nothing was begun")


def test_killed_at_any_moment_the_next_apply_goes_on(twin: Twin, tmp_path: Path) -> None:
    file = twin.document(tmp_path, "killed")
    site = twin.site(file)
    for things, kind in ((1, "networks"), (4, "subnetworks")):
        twin.inject(tmp_path, held(kind))
        process = begun(twin, file, site, things)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
    apply_base(site)
    assert twin.there("killed") == whole("killed")
    assert is_finished(site)
    remove(site)
    assert twin.there("killed") == []


CLUSTER = "  pools: {cpu: {cpu: {nodes: 1}}}\n"


def test_a_cluster_that_was_being_made_is_taken_over_without_its_first_pool(twin: Twin, tmp_path: Path) -> None:
    file = twin.document(tmp_path, "half")
    file.write_text(file.read_text() + CLUSTER)
    site = twin.site(file)
    process = begun(twin, file, site, 1, "2-cluster")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    for _ in site.apply(began):
        pass
    pools = twin.ask("GET", "/container/v1/projects/my-project/locations/us-central2/clusters/half-cluster/nodePools")
    assert [pool["name"] for pool in pools["nodePools"]] == ["cpu"]
    assert all(change.action in ("noop", "read") for planned in site.plan() for change in planned.changes)
    remove(site)
    assert twin.there("half") == []


def test_after_ctrl_c_the_next_apply_goes_on(twin: Twin, tmp_path: Path) -> None:
    file = twin.document(tmp_path, "stopped")
    site = twin.site(file)
    twin.inject(tmp_path, held("networks"))
    process = begun(twin, file, site, 3)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    apply_base(site)
    assert twin.there("stopped") == whole("stopped")
    remove(site)
    assert twin.there("stopped") == []


def test_a_connection_that_is_lost_for_a_while(twin: Twin, tmp_path: Path) -> None:
    site = twin.site(twin.document(tmp_path, "cut"))
    wire = Wire(twin.address)
    journal = site.workspace.stage(STAGE) / FILE
    told: list[SliceworksError] = []
    cut_off = replace(site, target=TwinTarget(address=wire.address, token=twin.token))
    worker = threading.Thread(target=lambda: told.append(failure(cut_off)))
    twin.inject(tmp_path, held("networks", 60))  # it is lost with the connection: nobody waits for it
    worker.start()
    eventually(lambda: journal.exists() and len(journal.read_bytes().splitlines()) >= 2, 120, "two things are begun")
    wire.cut()
    time.sleep(1)
    wire.mend()
    worker.join(200)
    wire.cut()
    assert "the connection was lost" in told[0].hint
    apply_base(site)
    assert twin.there("cut") == whole("cut")
    remove(site)
    assert twin.there("cut") == []


def test_a_lock_of_somebody_else_is_named_and_freed_by_hand(twin: Twin, tmp_path: Path) -> None:
    file = twin.document(tmp_path, "locked")
    site = twin.site(file)
    info = {"ID": "1700", "Operation": "OperationTypeApply", "Who": "ann@laptop", "Version": "1.11.4"}
    lock = f"locked/terraform/{STAGE}/default.tflock"
    twin.upload("locked-automation", lock, orjson.dumps({**info, "Created": "2026-11-14T10:00:00Z", "Path": "gs://locked"}))
    error = failure(site)
    assert "ann@laptop is at work on it since 2026-11-14 10:00:00" in error.hint
    assert f"`sliceworks env unlock {STAGE} " in error.hint
    number = error.hint.partition(f"unlock {STAGE} ")[2].partition("`")[0]
    freed = twin.run("env", "unlock", STAGE, number, "--twin", "-f", str(file))
    assert freed.returncode == 0, freed.stderr
    apply_base(site)
    remove(site)


def test_the_state_of_the_first_stage_ends_in_the_bucket_that_it_makes(twin: Twin, tmp_path: Path) -> None:
    file = tmp_path / "environment.yaml"
    made_here = "automation: {bucket: first-states, serviceAccount: robot-two}"
    file.write_text(re.sub(r"automation: .*", made_here, DOCUMENT.format(name="first")))
    site = twin.site(file)
    apply_base(site)
    names = [each["name"] for each in twin.ask("GET", "/storage/v1/b/first-states/o")["items"]]
    assert "first/terraform/0-bootstrap/default.tfstate" in names
    assert {"providers/providers.tf", "providers/1-base/backend.tf", "tfvars/bootstrap.auto.tfvars.json"} <= set(names)
    elsewhere = replace(site, workspace=Workspace(tmp_path / "another-machine"))
    assert is_finished(elsewhere)
    remove(elsewhere)
    with pytest.raises(CloudNotFound):
        twin.ask("GET", "/storage/v1/b/first-states")


def test_no_secret_is_in_files_or_states(twin: Twin, tmp_path: Path) -> None:
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
