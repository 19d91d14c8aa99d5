"""Google's client with Secret Manager, which the twin declares in one file; responses match Google's discovery document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from googleapiclient.errors import HttpError  # type: ignore[import-untyped]
from tests.support.google_clients import PROJECT

if TYPE_CHECKING:
    from tests.support.google_clients import Google

PARENT = f"projects/{PROJECT}"
REPLICATION: dict[str, Any] = {"replication": {"automatic": {}}}


def error_of(request: Any) -> tuple[int, str]:
    """HTTP status and message of a request that must fail."""
    with pytest.raises(HttpError) as caught:
        request.execute()
    return caught.value.resp.status, caught.value.reason


def test_secret_is_created_read_and_deleted(google: Google) -> None:
    secrets = google.api("secretmanager").projects().secrets()
    name = f"{PARENT}/secrets/token"
    created = google.do(secrets.create(parent=PARENT, secretId="token", body={**REPLICATION, "labels": {"team": "a"}}))
    assert (created["name"], created["labels"], created["replication"]) == (name, {"team": "a"}, {"automatic": {}})
    assert google.do(secrets.get(name=name)) == created
    assert error_of(secrets.create(parent=PARENT, secretId="token", body=REPLICATION)) == (409, f"Already exists: {name}.")
    assert error_of(secrets.create(parent=PARENT, body=REPLICATION))[0] == 400
    assert google.do(secrets.delete(name=name)) == {}
    assert error_of(secrets.get(name=name)) == (404, f"Not found: {name}.")
    assert error_of(secrets.delete(name=name))[0] == 404


def test_patch_changes_only_the_fields_of_the_update_mask(google: Google) -> None:
    secrets = google.api("secretmanager").projects().secrets()
    name = f"{PARENT}/secrets/masked"
    body = {**REPLICATION, "labels": {"team": "a"}, "annotations": {"note": "x"}}
    created = google.do(secrets.create(parent=PARENT, secretId="masked", body=body))
    change = {"labels": {"team": "b"}, "annotations": {"note": "y"}}
    patched = google.do(secrets.patch(name=name, updateMask="labels", body=change))
    assert patched == {**created, "labels": {"team": "b"}}
    cleared = google.do(secrets.patch(name=name, updateMask="annotations,version_aliases", body={"versionAliases": {"live": "3"}}))
    assert "annotations" not in cleared
    assert cleared["versionAliases"] == {"live": "3"}


def test_list_returns_pages_of_one_project(google: Google) -> None:
    secrets = google.api("secretmanager").projects().secrets()
    for secret in ("c", "a", "b"):
        google.do(secrets.create(parent="projects/listed", secretId=secret, body=REPLICATION))
    google.do(secrets.create(parent="projects/other", secretId="d", body=REPLICATION))
    names, request = [], secrets.list(parent="projects/listed", pageSize=2)
    while request is not None:
        page = google.do(request)
        names.append([secret["name"].rpartition("/")[2] for secret in page["secrets"]])
        request = secrets.list_next(request, page)
    assert names == [["a", "b"], ["c"]]


def test_policy_needs_the_secret_and_a_current_etag(google: Google) -> None:
    secrets = google.api("secretmanager").projects().secrets()
    name = f"{PARENT}/secrets/guarded"
    assert error_of(secrets.getIamPolicy(resource=name))[0] == 404
    google.do(secrets.create(parent=PARENT, secretId="guarded", body=REPLICATION))
    before = google.do(secrets.getIamPolicy(resource=name))
    binding = {"role": "roles/secretmanager.secretAccessor", "members": ["user:a@example.com"]}
    policy = {"policy": {**before, "bindings": [binding]}}
    assert google.do(secrets.setIamPolicy(resource=name, body=policy))["bindings"] == [binding]
    assert error_of(secrets.setIamPolicy(resource=name, body=policy))[0] == 409
    google.do(secrets.delete(name=name))
    google.do(secrets.create(parent=PARENT, secretId="guarded", body=REPLICATION))
    assert "bindings" not in google.do(secrets.getIamPolicy(resource=name))


def test_faults_match_methods_of_declared_services(google: Google) -> None:
    secrets = google.api("secretmanager").projects().secrets()
    google.inject("PermissionDenied", match={"service": "secretmanager", "method": "secrets.create"}, count=1)
    status, message = error_of(secrets.create(parent=PARENT, secretId="denied", body=REPLICATION))
    assert (status, "secretmanager.secrets.create" in message) == (403, True)
