"""Resources whose creation was started and not confirmed: recorded, classified by error, and imported by their Terraform id."""

from __future__ import annotations

import getpass
import socket
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from sliceworks.base.errors import SliceworksError
from sliceworks.infra.provider import grpc_provider
from sliceworks.infra.provider.resources import RESOURCES
from sliceworks.infra.provider.rest_resource import match_template
from sliceworks.infra.stack import TerraformBinary
from sliceworks.infra.terraform import FILE, Journal, Terraform, TerraformFailed
from sliceworks.infra.terraform_messages import StateLock, read_state_lock
from sliceworks.infra.terraform_state import IMPORT_IDS, import_id, lock_stage

if TYPE_CHECKING:
    from pathlib import Path


def start(address: str, action: str = "create") -> dict[str, Any]:
    return {"type": "apply_start", "hook": {"action": action, "resource": {"addr": address}}}


def failed(address: str, detail: str) -> dict[str, Any]:
    return {"type": "diagnostic", "diagnostic": {"severity": "error", "summary": "failed", "detail": detail, "address": address}}


def write(journal: Journal, *events: dict[str, Any]) -> None:
    """Write events as Terraform does, and record those that fail."""
    with journal.open() as file:
        for event in events:
            file.write(orjson.dumps(event) + b"\n")
            journal.record_failure(event)


def test_started_resource_is_unconfirmed_until_the_run_ends(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    write(journal, start("a"), start("b"), start("c", "update"), {"type": "version"})
    assert Journal(tmp_path).pending_addresses() == ["a", "b"]
    journal.settle()
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    ("detail", "stays"),
    [
        ("googleapi: Error 503: The service is currently unavailable.", True),
        ("Post: read tcp 10.0.0.1: connection reset by peer", True),
        ("unexpected EOF", True),
        ("googleapi: Error 403: Insufficient regional quota", False),
        ("googleapi: Error 409: Already exists", False),
    ],
)
def test_only_ambiguous_failures_stay_unconfirmed(tmp_path: Path, detail: str, stays: bool) -> None:
    journal = Journal(tmp_path)
    write(journal, start("a"), failed("a", detail))
    journal.settle()
    assert Journal(tmp_path).pending_addresses() == (["a"] if stays else [])


def test_truncated_line_is_ignored(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    write(journal, start("a"))
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"type":"apply_sta')
    write(journal, start("b"))
    assert Journal(tmp_path).pending_addresses() == ["a", "b"]


def fake_terraform(folder: Path, *lines: str) -> Terraform:
    """A program in the place of Terraform, which runs these lines of Python."""
    script = "\n".join(("import os, signal, sys", *lines))
    return Terraform(TerraformBinary((sys.executable, "-c", script), "terraform"), folder, {}, "1-base", lock_timeout=1)


def test_killed_run_names_resources_that_no_process_has_read(tmp_path: Path) -> None:
    """Terraform writes the journal itself: its resources are known even if the process that follows it never ran."""
    event = orjson.dumps(start("a")).decode()
    terraform = fake_terraform(tmp_path, f"print({event!r}, flush=True)", "os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(TerraformFailed):
        terraform.apply(lambda _: None)
    assert Journal(tmp_path).pending_addresses() == ["a"]


def test_line_in_several_parts_is_one_event(tmp_path: Path) -> None:
    event = orjson.dumps({"type": "outputs", "outputs": {"x": {"value": 5}}}).decode()
    parts = event[:9], event[9:20], event[20:]
    terraform = fake_terraform(tmp_path, *(f"sys.stdout.write({part!r}); sys.stdout.flush()" for part in parts))
    assert terraform.apply(lambda _: None)[1] == {"x": 5}
    assert Journal(tmp_path).pending_addresses() == []


def test_importable_kinds_are_supported_by_the_provider() -> None:
    values = dict.fromkeys(
        (
            "project",
            "location",
            "region",
            "name",
            "cluster",
            "account_id",
            "repository_id",
            "dataset_id",
            "table_id",
            "membership_id",
            "role_id",
        ),
        "some-thing",
    )
    for kind in IMPORT_IDS:
        result = import_id(kind, values)
        assert any(match_template(template, result) for template in RESOURCES[kind].imports), kind


def test_unknown_values_have_no_import_id() -> None:
    assert import_id("google_compute_network", {"project": "p", "name": None}) == ""
    assert import_id("google_project_iam_member", {"project": "p"}) == ""
    assert (
        import_id("google_container_node_pool", {"project": "p", "location": "l", "cluster": "projects/p/clusters/c", "name": "n"})
        == "p/l/c/n"
    )


def test_imported_bucket_has_the_documents_location() -> None:
    prior = {"location": "US-CENTRAL2", "name": "b"}
    assert grpc_provider.keep_equal_case(prior, {"location": "us-central2", "name": "b"}, ("location",)) == prior
    moved = {"location": "us-east1", "name": "b"}
    assert grpc_provider.keep_equal_case(prior, moved, ("location",)) == moved
    assert grpc_provider.keep_equal_case(None, moved, ("location",)) == moved


LOCK = "Lock Info: ID: 1700 Path: gs://b Operation: OperationTypeApply Who: {who} Version: 1.11.4 Created: {created} +0000 UTC"


def locked(who: str, created: str) -> StateLock:
    lock = read_state_lock(LOCK.format(who=who, created=created))
    assert lock is not None
    assert lock.id == "1700"
    return lock


def test_lock_is_owned_only_after_a_killed_run(tmp_path: Path) -> None:
    me = f"{getpass.getuser()}@{socket.gethostname()}"
    with lock_stage(tmp_path, "1-base") as turn:
        assert not turn.is_own(locked(who=me, created="2099-01-01 00:00:00"))
        with pytest.raises(SliceworksError, match="another run on this machine holds the lock"), lock_stage(tmp_path, "1-base"):
            pass
    (tmp_path / "stage.lock").write_text("2026-01-01T10:00:00.000000Z")
    with lock_stage(tmp_path, "1-base") as turn:
        assert turn.is_own(locked(who=me, created="2026-01-01 10:00:05"))
        assert not turn.is_own(locked(who=me, created="2026-01-01 09:00:00"))
        assert not turn.is_own(locked(who="ann@laptop", created="2026-01-01 10:00:05"))
    assert (tmp_path / "stage.lock").read_text() == ""
