"""Stages after the bootstrap run as the account that it creates; the user gets the role for it, as owners need one too."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.cloud_http import served_cloud
from tests.support.environments import SMALL

from sliceworks.base.errors import PermissionDenied, SliceworksError
from sliceworks.base.yaml_documents import load_all
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.session import Session
from sliceworks.infra.provider.rest_resource import ProviderConfig
from sliceworks.infra.stack import BOOTSTRAP, expected_outputs
from sliceworks.infra.stages import compile_stages
from sliceworks.infra.target import PROVIDER, Target, TwinTarget
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.cloud_http import HttpCloud

ACCOUNT = "runner@my-project.iam.gserviceaccount.com"
GRANT = f"roles/iam.serviceAccountTokenCreator on {ACCOUNT} for user:administrator@example.com"
PATH = f"/iam/v1/projects/my-project/serviceAccounts/{ACCOUNT}"
NETWORKS = "/compute/v1/projects/my-project/global/networks"


@pytest.fixture
def served() -> Iterator[HttpCloud]:
    with served_cloud() as cloud:
        yield cloud


def call(served: HttpCloud, method: str, path: str, body: Any = None, *, token: str = "") -> Any:
    async def send() -> Any:
        async with Session(served.url, Token(token or served.token)) as session:
            return await session.call(method, path, body)

    return asyncio.run(send())


def ensure(served: HttpCloud, token: str = "", approved: list[str] | None = None) -> list[str]:
    """What is reported when the bearer of a token wants to act as the account."""
    reports: list[str] = []
    target = TwinTarget(address=served.url, token=token or served.token)
    target.ensure_impersonation("my-project", ACCOUNT, reports.append, approved)
    return reports


def planned(served: HttpCloud, *, creates: bool = True) -> str:
    return TwinTarget(address=served.url, token=served.token).missing_grant("my-project", ACCOUNT, creates=creates)


def acting(served: HttpCloud) -> str:
    """The token with which the twin's provider acts as the account."""
    environment = {"GOOGLE_OAUTH_ACCESS_TOKEN": served.token}
    return ProviderConfig.read({"impersonate_service_account": ACCOUNT}, environment).token


def test_owner_gets_the_role_once(served: HttpCloud) -> None:
    call(served, "POST", "/iam/v1/projects/my-project/serviceAccounts", {"accountId": "runner"})
    with pytest.raises(PermissionDenied, match="getAccessToken"):
        call(served, "GET", NETWORKS, token=acting(served))
    assert ensure(served) == [f"granted {GRANT}"]
    assert ensure(served) == []
    with pytest.raises(PermissionDenied, match=r"compute\.networks\.list"):
        call(served, "GET", NETWORKS, token=acting(served))
    binding = {"role": "roles/compute.networkAdmin", "members": [f"serviceAccount:{ACCOUNT}"]}
    call(served, "POST", "/cloudresourcemanager/v1/projects/my-project:setIamPolicy", {"policy": {"bindings": [binding]}})
    call(served, "GET", NETWORKS, token=acting(served))


def test_other_bindings_of_the_account_are_kept(served: HttpCloud) -> None:
    call(served, "POST", "/iam/v1/projects/my-project/serviceAccounts", {"accountId": "runner"})
    others = [{"role": "roles/iam.serviceAccountUser", "members": ["user:a@example.com"]}]
    call(served, "POST", f"{PATH}:setIamPolicy", {"policy": {"bindings": others}})
    ensure(served)
    roles = {binding["role"] for binding in call(served, "POST", f"{PATH}:getIamPolicy", {})["bindings"]}
    assert roles == {"roles/iam.serviceAccountUser", "roles/iam.serviceAccountTokenCreator"}


def test_missing_account_needs_no_role(served: HttpCloud) -> None:
    assert ensure(served) == []


def test_grant_is_planned_before_and_after_the_account_exists_until_it_is_made(served: HttpCloud) -> None:
    assert (planned(served), planned(served, creates=False)) == (GRANT, "")
    call(served, "POST", "/iam/v1/projects/my-project/serviceAccounts", {"accountId": "runner"})
    assert planned(served, creates=False) == GRANT
    assert ensure(served, approved=[GRANT]) == [f"granted {GRANT}"]
    assert (planned(served), ensure(served, approved=[])) == ("", [])


def test_role_in_the_project_needs_no_grant(served: HttpCloud) -> None:
    binding = {"role": "roles/iam.serviceAccountTokenCreator", "members": ["user:administrator@example.com"]}
    call(served, "POST", "/cloudresourcemanager/v1/projects/my-project:setIamPolicy", {"policy": {"bindings": [binding]}})
    assert planned(served) == ""


def test_grant_that_was_not_approved_is_not_made(served: HttpCloud) -> None:
    call(served, "POST", "/iam/v1/projects/my-project/serviceAccounts", {"accountId": "runner"})
    with pytest.raises(SliceworksError) as refused:
        ensure(served, approved=[GRANT.replace("administrator", "colleague")])
    assert "the approved plan does not grant it to user:administrator@example.com" in refused.value.message
    assert "--member=user:administrator@example.com" in refused.value.hint
    assert planned(served) == GRANT


def test_user_who_may_not_grant_it_gets_the_command(served: HttpCloud) -> None:
    for name in ("runner", "visitor"):
        call(served, "POST", "/iam/v1/projects/my-project/serviceAccounts", {"accountId": name})
    visitor = "visitor@my-project.iam.gserviceaccount.com"
    creator = {"role": "roles/iam.serviceAccountTokenCreator", "members": ["user:administrator@example.com"]}
    path = f"/iam/v1/projects/my-project/serviceAccounts/{visitor}"
    call(served, "POST", f"{path}:setIamPolicy", {"policy": {"bindings": [creator]}})
    with pytest.raises(SliceworksError) as refused:
        ensure(served, f"{served.token}~{visitor}")
    assert refused.value.message.startswith(f"you may not act as {ACCOUNT}: ")
    assert "add-iam-policy-binding runner@my-project" in refused.value.hint
    assert "--member=user:YOU" in refused.value.hint


def test_later_stages_are_planned_as_the_user_before_the_account_exists() -> None:
    [document] = load_all(SMALL, "environment.yaml")
    environment = documents.read_as(document, Environment)
    bootstrap = next(stage for stage in compile_stages(environment) if stage.name == BOOTSTRAP)
    assert expected_outputs(bootstrap, applied=False)["bootstrap"]["service_account"] is None
    assert expected_outputs(bootstrap, applied=True)["bootstrap"]["service_account"].endswith("@my-project.iam.gserviceaccount.com")


def test_twin_knows_only_accounts_that_the_environment_creates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROVIDER, raising=False)
    assert TwinTarget().impersonates(created=True)
    assert not TwinTarget().impersonates(created=False)
    assert Target().impersonates(created=False)
    monkeypatch.setenv(PROVIDER, "/somewhere")
    assert not TwinTarget().impersonates(created=True)
