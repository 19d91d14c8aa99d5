"""The preflight on a project: what Google Cloud says about it, asked on the twin's cloud."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.cloud_http import served_cloud

from sliceworks.base.yaml_documents import load_all
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.session import Session
from sliceworks.infra.live_preflight import LIVE_CHECKS, check_live
from sliceworks.infra.target import TwinTarget
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.cloud_http import HttpCloud

DOCUMENT = """apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: small}
spec:
  project: my-project
  region: us-central2
  zones: [us-central2-b]
  automation: {bucket: small-automation}
  pools:
    cpu: {main: {machineType: n1-standard-4, nodes: 3}}
    tpu: {slice: {type: v4-32}}
"""
CLUSTER = {"name": "first", "initialNodeCount": 1}
EXISTING = "{network: absent, subnet: absent}"
PROJECT = "/cloudresourcemanager/v1/projects/my-project"


def call(served: HttpCloud, method: str, path: str, body: Any = None) -> Any:
    async def send() -> Any:
        async with Session(served.url, Token(served.token)) as session:
            return await session.call(method, path, body)

    return asyncio.run(send())


@pytest.fixture
def served() -> Iterator[HttpCloud]:
    """A cloud whose project has the services that the bootstrap stage needs."""
    with served_cloud() as cloud:
        for service in ("cloudresourcemanager", "compute", "container", "iam"):
            call(cloud, "POST", f"/serviceusage/v1/projects/my-project/services/{service}.googleapis.com:enable", {})
        yield cloud


def check(served: HttpCloud, old: str = "", new: str = "", token: str = "") -> list[tuple[str, str, str]]:
    """Check, problem and remedy of every finding."""
    [document] = load_all(DOCUMENT.replace(old, new) if old else DOCUMENT, "environment.yaml")
    environment = documents.read(document)
    assert isinstance(environment, Environment)
    findings = check_live(environment, TwinTarget(address=served.url, token=token or served.token))
    return [(finding.check, finding.message, finding.hint) for finding in findings]


def test_project_with_everything_has_no_findings(served: HttpCloud) -> None:
    assert check(served) == []


def test_new_project_lacks_only_what_it_does_not_start_with() -> None:
    with served_cloud() as cloud:
        assert [problem for _, problem, _ in check(cloud)] == ["services are not enabled: cloudresourcemanager.googleapis.com"]


def test_disabled_service_is_reported_with_the_command_that_enables_it(served: HttpCloud) -> None:
    call(served, "POST", "/serviceusage/v1/projects/my-project/services/cloudresourcemanager.googleapis.com:disable", {})
    services, permissions = check(served)
    assert services == (
        "services",
        "services are not enabled: cloudresourcemanager.googleapis.com",
        "gcloud services enable cloudresourcemanager.googleapis.com --project=my-project",
    )
    assert permissions[0] == "permissions"
    assert permissions[1].startswith("cannot be checked: Cloud Resource Manager API has not been used in project")
    assert permissions[2] == "gcloud services enable cloudresourcemanager.googleapis.com --project=my-project"


def test_missing_permissions_are_reported_with_the_role_that_has_them(served: HttpCloud) -> None:
    account = "runner@my-project.iam.gserviceaccount.com"
    call(served, "POST", "/iam/v1/projects/my-project/serviceAccounts", {"accountId": "runner"})
    creator = {"role": "roles/iam.serviceAccountTokenCreator", "members": ["user:administrator@example.com"]}
    path = f"/iam/v1/projects/my-project/serviceAccounts/{account}"
    call(served, "POST", f"{path}:setIamPolicy", {"policy": {"bindings": [creator]}})
    bindings = [
        {"role": role, "members": [f"serviceAccount:{account}"]}
        for role in ("roles/viewer", "roles/storage.admin", "roles/iam.serviceAccountAdmin")
    ]
    call(served, "POST", f"{PROJECT}:setIamPolicy", {"policy": {"bindings": bindings}})
    result = call(served, "POST", f"/iamcredentials/v1/projects/-/serviceAccounts/{account}:generateAccessToken", {})
    assert check(served, token=result["accessToken"]) == [
        (
            "permissions",
            "you lack resourcemanager.projects.setIamPolicy",
            "gcloud projects add-iam-policy-binding my-project --member=user:YOU --role=roles/resourcemanager.projectIamAdmin",
        ),
        (
            "permissions",
            "you lack serviceusage.services.enable",
            "gcloud projects add-iam-policy-binding my-project --member=user:YOU --role=roles/serviceusage.serviceUsageAdmin",
        ),
    ]


@pytest.mark.parametrize(
    ("old", "new", "name", "problem"),
    [
        ("n1-standard-4", "e2-standard-4", "machine-types", "us-central2-b does not offer e2-standard-4"),
        ("  pools:", "  cluster: {version: '1.27'}\n  pools:", "versions", "GKE does not offer version 1.27 in us-central2"),
        (
            "  pools:",
            f"  network: {{existing: {EXISTING}}}\n  pools:",
            "networks",
            "network absent not found in project my-project",
        ),
        (
            "  pools:",
            "  identities: {nodes: {existing: absent@my-project.iam.gserviceaccount.com}}\n  pools:",
            "accounts",
            "service account absent@my-project.iam.gserviceaccount.com not found",
        ),
        (
            "{type: v4-32}",
            "{type: v4-32, reservation: {name: mine}}",
            "reservations",
            "reservation mine not found in us-central2-b",
        ),
    ],
)
def test_missing_resource_is_reported(served: HttpCloud, old: str, new: str, name: str, problem: str) -> None:
    result = check(served, old, new)
    assert (name, problem) in [(check, text) for check, text, _ in result]
    assert {check for check, _, _ in result} == {name}
    assert all(remedy for _, _, remedy in result)


def test_agent_of_gke_needs_a_role_in_the_host_project(served: HttpCloud) -> None:
    for service in ("cloudresourcemanager", "compute"):
        call(served, "POST", f"/serviceusage/v1/projects/host-project/services/{service}.googleapis.com:enable", {})
    call(served, "POST", "/compute/v1/projects/host-project/global/networks", {"name": "net"})
    ranges = [{"rangeName": "pods", "ipCidrRange": "10.4.0.0/14"}, {"rangeName": "services", "ipCidrRange": "10.8.0.0/20"}]
    subnet = {"name": "sub", "network": "projects/host-project/global/networks/net", "ipCidrRange": "10.0.0.0/20"}
    path = "/compute/v1/projects/host-project/regions/us-central2/subnetworks"
    call(served, "POST", path, {**subnet, "secondaryIpRanges": ranges})
    existing = "  network: {existing: {hostProject: host-project, network: net, subnet: sub}}\n  pools:"
    [(name, problem, remedy)] = check(served, "  pools:", existing)
    assert (name, problem) == (
        "networks",
        "GKE's service agent lacks roles/container.hostServiceAgentUser in the host project host-project",
    )
    call(served, "POST", "/container/v1/projects/my-project/locations/us-central2-b/clusters", {"cluster": CLUSTER})
    member = remedy.partition("--member=")[2].partition(" ")[0]
    policy = {"bindings": [{"role": "roles/container.hostServiceAgentUser", "members": [member]}]}
    call(served, "POST", "/cloudresourcemanager/v1/projects/host-project:setIamPolicy", {"policy": policy})
    assert check(served, "  pools:", existing) == []


def test_reservation_is_for_the_machine_type_of_the_pool(served: HttpCloud) -> None:
    reservation = {"name": "mine", "zone": "us-central2-b", "machineType": "n1-standard-4", "nodes": 4}
    served.run(lambda cloud: cloud.services["container"].configure({"reservations": [reservation]}))
    result = check(served, "{type: v4-32}", "{type: v4-32, reservation: {name: mine}}")
    assert [problem for _, problem, _ in result] == ["reservation mine is for n1-standard-4, the pool needs ct4p-hightpu-4t"]


def test_nothing_is_written(served: HttpCloud) -> None:
    before = served.run(lambda cloud: cloud._store.revision)
    check(served)
    assert served.run(lambda cloud: cloud._store.revision) == before


def test_checks_have_distinct_names() -> None:
    assert list(LIVE_CHECKS) == ["services", "permissions", "machine-types", "versions", "networks", "accounts", "reservations"]
