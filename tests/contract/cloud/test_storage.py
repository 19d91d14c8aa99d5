"""google-cloud-storage with the twin's buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from google.api_core.exceptions import Conflict, Forbidden, NotFound, PreconditionFailed, TooManyRequests

if TYPE_CHECKING:
    from google.cloud.storage import Bucket  # type: ignore[import-untyped]
    from tests.support.google_clients import Google


def bucket(google: Google, name: str) -> Bucket:
    return google.storage.create_bucket(name, location="us-central2")


def test_bucket_lifecycle(google: Google) -> None:
    created = bucket(google, "whole-life")
    assert (created.location, created.storage_class) == ("US-CENTRAL2", "STANDARD")
    created.versioning_enabled = True
    created.labels = {"team": "a"}
    created.patch()
    assert google.storage.get_bucket("whole-life").labels == {"team": "a"}
    with pytest.raises(Conflict, match="not available"):
        bucket(google, "whole-life")
    created.delete()
    with pytest.raises(NotFound, match="does not exist"):
        google.storage.get_bucket("whole-life")


def test_content_round_trip(google: Google) -> None:
    data = bytes(range(256)) * 20
    blob = bucket(google, "contents").blob("a folder/b%20c.bin")
    blob.upload_from_string(data, content_type="application/x-test")
    assert blob.download_as_bytes() == data
    assert blob.download_as_bytes(start=10, end=19) == data[10:20]
    blob.reload()
    assert (blob.size, blob.content_type) == (len(data), "application/x-test")
    blob.metadata = {"from": "here"}
    blob.patch()
    assert google.storage.bucket("contents").get_blob("a folder/b%20c.bin").metadata == {"from": "here"}


def test_large_objects_use_resumable_uploads(google: Google) -> None:
    blob = bucket(google, "pieces").blob("large", chunk_size=256 * 1024)
    data = b"0123456789" * 70_000
    blob.upload_from_string(data)
    assert blob.download_as_bytes() == data


def test_generation_precondition_protects_objects(google: Google) -> None:
    blob = bucket(google, "versions").blob("state")
    blob.upload_from_string("one", if_generation_match=0)
    seen = blob.generation
    with pytest.raises(PreconditionFailed, match="pre-conditions"):
        blob.upload_from_string("two", if_generation_match=0)
    blob.upload_from_string("two", if_generation_match=seen)
    with pytest.raises(PreconditionFailed):
        blob.delete(if_generation_match=seen)
    assert blob.download_as_bytes() == b"two"


def test_lists_are_paginated_and_grouped_by_prefix(google: Google) -> None:
    held = bucket(google, "many")
    for name in ("a/1", "a/2", "b/1", "top"):
        held.blob(name).upload_from_string(name)
    pages = [[blob.name for blob in page] for page in held.list_blobs(page_size=3).pages]
    assert pages == [["a/1", "a/2", "b/1"], ["top"]]
    by_folder = held.list_blobs(delimiter="/")
    assert [blob.name for blob in by_folder] == ["top"]
    assert sorted(by_folder.prefixes) == ["a/", "b/"]
    for number in range(3):
        bucket(google, f"paged-{number}")
    names = [[item.name for item in page] for page in google.storage.list_buckets(page_size=2, prefix="paged").pages]
    assert names == [["paged-0", "paged-1"], ["paged-2"]]
    with pytest.raises(Conflict, match="not empty"):
        held.delete()
    held.delete(force=True)


def test_objects_are_copied_and_renamed(google: Google) -> None:
    held = bucket(google, "moves")
    blob = held.blob("one")
    blob.upload_from_string("text")
    held.copy_blob(blob, held, "two")
    held.rename_blob(blob, "three")
    assert sorted(item.name for item in held.list_blobs()) == ["three", "two"]


def test_stale_policy_etag_is_rejected(google: Google) -> None:
    held = bucket(google, "policies")
    first, second = (held.get_iam_policy(requested_policy_version=3) for _ in range(2))
    for policy in (first, second):
        policy.bindings = [*policy.bindings, {"role": "roles/storage.objectViewer", "members": {"user:a@example.com"}}]
    held.set_iam_policy(first)
    with pytest.raises(PreconditionFailed, match="concurrent policy changes"):
        held.set_iam_policy(second)
    [binding] = held.get_iam_policy(requested_policy_version=3).bindings
    assert binding["members"] == {"user:a@example.com"}


def test_owner_has_all_tested_permissions(google: Google) -> None:
    permissions = ["storage.objects.create", "storage.objects.get"]
    assert bucket(google, "tested").test_iam_permissions(permissions) == permissions


@pytest.mark.parametrize(
    ("fault", "error"), [("PermissionDenied", Forbidden), ("RateLimited", TooManyRequests)], ids=["403", "429"]
)
def test_faults_raise_google_exceptions(google: Google, fault: str, error: type[Exception]) -> None:
    held = bucket(google, f"faults-{fault.lower()}")
    google.inject(fault, match={"method": "buckets.get"}, count=1)
    with pytest.raises(error):
        google.storage.get_bucket(held.name, retry=None)
    assert google.storage.get_bucket(held.name).name == held.name
