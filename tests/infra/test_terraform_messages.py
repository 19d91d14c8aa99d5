"""Messages of Terraform and of Google's provider, as they print them, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sliceworks.infra import terraform_messages as messages

if TYPE_CHECKING:
    from collections.abc import Callable

LOCKED = "Error acquiring the state lock|Error message: googleapi: conditionNotMet Lock Info: ID: 1700 Path: gs://b Who: ann@laptop"


@pytest.mark.parametrize(
    ("meaning", "output"),
    [
        (
            messages.is_bucket_missing,
            "Error: Failed to get existing workspaces: querying Cloud Storage failed: storage: bucket doesn't exist",
        ),
        (messages.is_bucket_missing, "googleapi: Error 404: The specified bucket does not exist., notFound"),
        (
            messages.is_plan_stale,
            "Error: Saved plan is stale: The given plan file can no longer be applied because the state was changed",
        ),
        (messages.is_plan_stale, "Error: Saved plan does not match the given state"),
        (messages.is_left_locked, "Error: Error releasing the state lock: Lock ID: 1700"),
        (messages.is_state_older, "Failed to write state: cannot import state with serial 3 over newer state with serial 4"),
        (messages.is_state_missing, "No state file was found!\n\nState management commands require a state file."),
        (messages.is_object_missing, "Error: Cannot import non-existent remote object"),
        (messages.is_interruption, "Interrupt received.\nPlease wait for Terraform to exit or data loss may occur."),
        (messages.is_outcome_unknown, "Error waiting for creating Network: googleapi: Error 503: Backend Error"),
        (messages.is_outcome_unknown, "Post https://compute.googleapis.com: read: connection reset by peer"),
    ],
)
def test_meaning_of_a_message(meaning: Callable[[str], bool], output: str) -> None:
    assert meaning(output)
    assert not meaning("Error: Invalid value for variable")


def test_already_exists_error_may_be_our_own_resource() -> None:
    bucket = 'module.storage.google_storage_bucket.this["data"]'
    output = f"module.network.google_compute_network.this[0]: Error: invalid name {bucket}: googleapi: Error 409: it is there"
    assert messages.find_hint(output, "1-base").endswith(f"run of yours created it: `sliceworks env adopt 1-base '{bucket}'`")
    named = "google_service_account.nodes[0]: google_service_account: creating failed: Service account x already exists."
    assert "env adopt 1-base 'google_service_account.nodes[0]'" in messages.find_hint(named, "1-base")
    assert "env adopt" not in messages.find_hint("Error 409: unknown conflict", "1-base")


@pytest.mark.parametrize(
    ("trouble", "hint"),
    [
        ("Error: googleapi: Error 403: Insufficient regional quota to satisfy request: CPUS", "request more quota"),
        ("Error waiting for creating NodePool: GCE_STOCKOUT: does not have enough resources", "use another zone"),
        ("googleapi: Error 403: Required 'container.clusters.create' permission", "spec.automation.roles"),
        ("Error reading: Get https://container.googleapis.com: read: connection reset by peer", "the connection was lost"),
        ("Error 409: The requested bucket name is not available", "bucket names are globally unique"),
        ("could not find default credentials", "gcloud auth application-default login"),
        (LOCKED, "locked by ann@laptop"),
        ("Invalid value for variable", ""),
    ],
)
def test_known_errors_have_hints(trouble: str, hint: str) -> None:
    result = messages.find_hint(trouble, "stages/2-cluster")
    assert hint in result
    assert bool(result) == bool(hint)
