"""What a run began and nobody knows the end of: written down, judged by the errors, and named as Terraform imports it."""

from __future__ import annotations

import getpass
import socket
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base.errors import SliceworksError
from sliceworks.infra.adopting import IDS, import_id
from sliceworks.infra.journal import FILE, Journal
from sliceworks.infra.standin import planning
from sliceworks.infra.standin.kinds import unfilled
from sliceworks.infra.standin.resources import KINDS
from sliceworks.infra.turns import taken

if TYPE_CHECKING:
    from pathlib import Path


def start(address: str, action: str = "create") -> dict[str, Any]:
    return {"type": "apply_start", "hook": {"action": action, "resource": {"addr": address}}}


def failed(address: str, detail: str) -> dict[str, Any]:
    return {"type": "diagnostic", "diagnostic": {"severity": "error", "summary": "failed", "detail": detail, "address": address}}


def test_what_was_begun_is_in_doubt_until_the_run_ends(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for said in (start("a"), start("b"), start("c", "update")):
        journal.take(said)
    assert Journal(tmp_path).in_doubt() == ["a", "b"]
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
def test_only_what_failed_without_a_clear_answer_stays_in_doubt(tmp_path: Path, detail: str, stays: bool) -> None:
    journal = Journal(tmp_path)
    journal.take(start("a"))
    journal.take(failed("a", detail))
    journal.settle()
    assert Journal(tmp_path).in_doubt() == (["a"] if stays else [])


def test_a_line_that_was_cut_short_says_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"address":"a"}\n{"addr')
    assert Journal(tmp_path).in_doubt() == ["a"]


def test_every_kind_that_can_be_taken_over_is_one_that_the_stand_in_imports() -> None:
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
        ),
        "some-thing",
    )
    for kind in IDS:
        found = import_id(kind, values)
        assert any(unfilled(template, found) for template in KINDS[kind].imports), kind


def test_what_is_not_known_yet_has_no_id() -> None:
    assert import_id("google_compute_network", {"project": "p", "name": None}) == ""
    assert import_id("google_project_iam_member", {"project": "p"}) == ""
    assert (
        import_id("google_container_node_pool", {"project": "p", "location": "l", "cluster": "projects/p/clusters/c", "name": "n"})
        == "p/l/c/n"
    )


def test_nothing_and_no_and_none_are_the_same_to_the_cloud() -> None:
    assert planning.replaced({"a": False, "b": [], "c": "x"}, {"a": None, "b": None, "c": "y"}, ("a", "b", "c")) == ["c"]


def test_a_bucket_that_was_taken_over_is_where_the_document_has_it() -> None:
    prior = {"location": "US-CENTRAL2", "name": "b"}
    assert planning.in_capitals(prior, {"location": "us-central2", "name": "b"}, ("location",)) == prior
    moved = {"location": "us-east1", "name": "b"}
    assert planning.in_capitals(prior, moved, ("location",)) == moved
    assert planning.in_capitals(None, moved, ("location",)) == moved


LOCK = "Lock Info: ID: 1700 Path: gs://b Operation: OperationTypeApply Who: {who} Version: 1.11.4 Created: {created} +0000 UTC"


def test_a_lock_is_our_own_only_after_a_run_that_was_killed(tmp_path: Path) -> None:
    me = f"{getpass.getuser()}@{socket.gethostname()}"
    with taken(tmp_path, "1-base") as turn:
        assert turn.own_lock(LOCK.format(who=me, created="2099-01-01 00:00:00")) == ""
        with pytest.raises(SliceworksError, match="another run on this machine is at work"), taken(tmp_path, "1-base"):
            pass
    (tmp_path / "turn").write_text("2026-01-01T10:00:00.000000Z")
    with taken(tmp_path, "1-base") as turn:
        assert turn.own_lock(LOCK.format(who=me, created="2026-01-01 10:00:05")) == "1700"
        assert turn.own_lock(LOCK.format(who=me, created="2026-01-01 09:00:00")) == ""
        assert turn.own_lock(LOCK.format(who="ann@laptop", created="2026-01-01 10:00:05")) == ""
    assert (tmp_path / "turn").read_text() == ""
