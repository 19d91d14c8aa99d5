"""Projects, service accounts, networks and buckets; responses match Google's discovery documents."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.support import discovery
from tests.support.clouds import Cloud, run_on_cloud

from sliceworks.twin.cloud.core.authorization import ADMINISTRATOR
from sliceworks.twin.cloud.core.cloud_server import IMPERSONATION
from sliceworks.twin.cloud.core.iam_policy import default_account

PROJECT = "my-project"
NETWORKS = f"/compute/v1/projects/{PROJECT}/global/networks"
SUBNETS = f"/compute/v1/projects/{PROJECT}/regions/us-central2/subnetworks"
ACCOUNTS = f"/iam/v1/projects/{PROJECT}/serviceAccounts"


async def ask(cloud: Cloud, http: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    """HTTP status and body of a response."""
    headers = {"authorization": f"Bearer {cloud.twin.token}"}
    status, _, answer = await cloud.server.handle(http, path, headers, b"" if body is None else orjson.dumps(body))
    return status, orjson.loads(answer)


async def succeed(cloud: Cloud, http: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Body of a response that must succeed and match Google's discovery document."""
    status, result = await ask(cloud, http, path, body)
    assert status == 200, result
    service, version = path.split("/")[1:3]
    plain = path.partition("?")[0]
    # Paths in discovery documents include the version, except for older APIs.
    relative = plain.removeprefix(f"/{service}/")
    relative = relative.removeprefix(f"{version}/") if service in _BASED else relative
    message = discovery.messages(service, version, http, relative)[1]
    if message:
        assert discovery.problems(service, version, message, result) == []
    return result


_BASED = {"bigquery", "compute", "storage"}


def test_network_with_a_subnetwork_cannot_be_deleted() -> None:
    async def main(cloud: Cloud) -> None:
        await succeed(cloud, "POST", NETWORKS, {"name": "net", "autoCreateSubnetworks": False})
        subnet = {"name": "sub", "network": f"projects/{PROJECT}/global/networks/net", "ipCidrRange": "10.0.0.0/20"}
        operation = await succeed(cloud, "POST", SUBNETS, subnet)
        assert operation["status"] == "DONE"
        created = await succeed(cloud, "GET", f"{SUBNETS}/sub")
        assert (created["gatewayAddress"], created["stackType"]) == ("10.0.0.1", "IPV4_ONLY")
        status, result = await ask(cloud, "DELETE", f"{NETWORKS}/net")
        assert (status, result["error"]["errors"][0]["reason"]) == (400, "resourceInUseByAnotherResource")
        await succeed(cloud, "DELETE", f"{SUBNETS}/sub")
        await succeed(cloud, "DELETE", f"{NETWORKS}/net")
        assert (await ask(cloud, "GET", f"{NETWORKS}/net"))[0] == 404

    run_on_cloud(main, workloads=False)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"name": "b", "ipCidrRange": "10.0.8.0/24"}, "conflicts with existing subnetwork 'a'"),
        ({"name": "b", "ipCidrRange": "10.9.0.0/33"}, "Must be a CIDR address range"),
        (
            {"name": "b", "ipCidrRange": "10.8.0.0/20", "secondaryIpRanges": [{"rangeName": "p", "ipCidrRange": "10.8.0.0/24"}]},
            "It overlaps with ipCidrRange",
        ),
    ],
)
def test_overlapping_subnetwork_is_rejected(body: dict[str, Any], says: str) -> None:
    async def main(cloud: Cloud) -> None:
        network = {"network": f"projects/{PROJECT}/global/networks/net"}
        await succeed(cloud, "POST", NETWORKS, {"name": "net"})
        await succeed(cloud, "POST", SUBNETS, {"name": "a", "ipCidrRange": "10.0.0.0/20", **network})
        status, result = await ask(cloud, "POST", SUBNETS, {**body, **network})
        assert status == 400
        assert says in result["error"]["message"]

    run_on_cloud(main, workloads=False)


def test_stale_policy_etag_is_rejected() -> None:
    async def main(cloud: Cloud) -> None:
        at = f"/cloudresourcemanager/v1/projects/{PROJECT}"
        before = await succeed(cloud, "POST", f"{at}:getIamPolicy", {})
        binding = {"role": "roles/viewer", "members": ["user:a@example.com"]}
        after = await succeed(cloud, "POST", f"{at}:setIamPolicy", {"policy": {**before, "bindings": [binding]}})
        assert after["bindings"] == [binding]
        status, result = await ask(cloud, "POST", f"{at}:setIamPolicy", {"policy": {**before, "bindings": []}})
        assert (status, result["error"]["status"]) == (409, "ABORTED")
        wrong = {"role": "roles/viewer", "members": ["unqualified"]}
        assert (await ask(cloud, "POST", f"{at}:setIamPolicy", {"policy": {"bindings": [wrong]}}))[0] == 400

    run_on_cloud(main, workloads=False)


def test_service_account_is_found_by_email_and_id() -> None:
    async def main(cloud: Cloud) -> None:
        created = await succeed(cloud, "POST", ACCOUNTS, {"accountId": "trainer", "serviceAccount": {"displayName": "T"}})
        assert created["email"] == f"trainer@{PROJECT}.iam.gserviceaccount.com"
        assert (await ask(cloud, "POST", ACCOUNTS, {"accountId": "trainer"}))[0] == 409
        assert (await ask(cloud, "POST", ACCOUNTS, {"accountId": "no"}))[0] == 400
        result = await succeed(cloud, "GET", f"{ACCOUNTS}/{created['uniqueId']}")
        assert result["displayName"] == "T"
        await succeed(cloud, "DELETE", f"{ACCOUNTS}/{created['email']}")
        assert (await ask(cloud, "GET", f"{ACCOUNTS}/{created['email']}"))[0] == 404

    run_on_cloud(main, workloads=False)


def test_tested_permissions_of_a_bucket_are_those_of_the_caller() -> None:
    async def main(cloud: Cloud) -> None:
        await succeed(cloud, "POST", f"/storage/v1/b?project={PROJECT}", {"name": "data"})
        account = (await succeed(cloud, "POST", ACCOUNTS, {"accountId": "reader"}))["email"]
        creator = {"role": "roles/iam.serviceAccountTokenCreator", "members": [f"user:{ADMINISTRATOR}"]}
        await succeed(cloud, "POST", f"{ACCOUNTS}/{account}:setIamPolicy", {"policy": {"bindings": [creator]}})
        test, token = "/storage/v1/b/data/iam/testPermissions?permissions=", f"{cloud.twin.token}{IMPERSONATION}{account}"
        query = f"{test}storage.objects.get&permissions=storage.objects.create"
        assert (await cloud.send("GET", query, token=token))[1].get("permissions") is None
        binding = {"role": "roles/storage.objectViewer", "members": [f"serviceAccount:{account}"]}
        await succeed(cloud, "PUT", "/storage/v1/b/data/iam", {"bindings": [binding]})
        assert (await cloud.send("GET", query, token=token))[1]["permissions"] == ["storage.objects.get"]

    run_on_cloud(main, workloads=False)


def test_bucket_with_objects_cannot_be_deleted() -> None:
    async def main(cloud: Cloud) -> None:
        created = await succeed(cloud, "POST", f"/storage/v1/b?project={PROJECT}", {"name": "data", "location": "us-central2"})
        assert (created["location"], created["locationType"]) == ("US-CENTRAL2", "region")
        assert (await ask(cloud, "POST", f"/storage/v1/b?project={PROJECT}", {"name": "data"}))[0] == 409
        sent = await cloud.server.handle(
            "POST",
            "/upload/storage/v1/b/data/o?uploadType=media&name=a%2Fb.txt",
            {"authorization": f"Bearer {cloud.twin.token}", "content-type": "text/plain"},
            b"hello",
        )
        assert sent[0] == 200
        result = await succeed(cloud, "GET", "/storage/v1/b/data/o/a%2Fb.txt")
        assert (result["size"], result["md5Hash"]) == ("5", "XUFAKrxLKna5cZ2REBfFkg==")
        assert (await ask(cloud, "DELETE", "/storage/v1/b/data"))[0] == 409
        await ask(cloud, "DELETE", "/storage/v1/b/data/o/a%2Fb.txt")
        assert (await ask(cloud, "DELETE", "/storage/v1/b/data"))[0] == 200

    run_on_cloud(main, workloads=False)


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_multipart_upload_accepts_quoted_boundaries(quote: str) -> None:
    """gcloud quotes the boundary as a Python string and ends lines with LF."""

    async def main(cloud: Cloud) -> None:
        await succeed(cloud, "POST", f"/storage/v1/b?project={PROJECT}", {"name": "data"})
        described = b'--==1==\nContent-Type: application/json\n\n{"name": "mark", "bucket": "data"}\n'
        content = b"--==1==\nContent-Type: text/plain\nContent-Transfer-Encoding: binary\n\nwhole\n--==1==--\n"
        headers = {
            "authorization": f"Bearer {cloud.twin.token}",
            "content-type": f"multipart/related; boundary={quote}==1=={quote}",
        }
        path = "/upload/storage/v1/b/data/o?uploadType=multipart"
        assert (await cloud.server.handle("POST", path, headers, described + content))[0] == 200
        assert (await succeed(cloud, "GET", "/storage/v1/b/data/o/mark"))["size"] == "5"

    run_on_cloud(main, workloads=False)


def test_subscription_needs_its_topic_and_table_its_dataset() -> None:
    async def main(cloud: Cloud) -> None:
        subscription = f"/pubsub/v1/projects/{PROJECT}/subscriptions/s"
        body = {"topic": f"projects/{PROJECT}/topics/t", "bigqueryConfig": {"table": f"{PROJECT}.d.t"}}
        assert (await ask(cloud, "PUT", subscription, body))[0] == 404
        await succeed(cloud, "PUT", f"/pubsub/v1/projects/{PROJECT}/topics/t", {})
        assert (await succeed(cloud, "PUT", subscription, body))["bigqueryConfig"]["state"] == "ACTIVE"
        tables = f"/bigquery/v2/projects/{PROJECT}/datasets/d/tables"
        assert (await ask(cloud, "POST", tables, {"tableReference": {"tableId": "t"}}))[0] == 404
        dataset = {"datasetReference": {"datasetId": "d", "projectId": PROJECT}}
        await succeed(cloud, "POST", f"/bigquery/v2/projects/{PROJECT}/datasets", dataset)
        await succeed(cloud, "POST", tables, {"tableReference": {"tableId": "t"}})
        assert (await ask(cloud, "DELETE", f"/bigquery/v2/projects/{PROJECT}/datasets/d"))[0] == 400
        assert (await ask(cloud, "DELETE", f"/bigquery/v2/projects/{PROJECT}/datasets/d?deleteContents=true"))[0] == 200

    run_on_cloud(main, workloads=False)


def test_unknown_fields_and_routes_are_rejected() -> None:
    async def main(cloud: Cloud) -> None:
        status, result = await ask(cloud, "POST", NETWORKS, {"name": "net", "colour": "red"})
        assert status == 400
        assert 'Unknown name "colour": Cannot find field.' in result["error"]["message"]
        assert (await ask(cloud, "GET", f"/compute/v1/projects/{PROJECT}/global/sslPolicies"))[0] == 501

    run_on_cloud(main, workloads=False)


def test_empty_spec_removes_a_membership_from_a_feature() -> None:
    """The google provider deletes a feature membership so, and fails on an empty spec that remains."""

    async def main(cloud: Cloud) -> None:
        fleet = "/gkehub/v1/projects/p/locations/global/features"
        members = [f"projects/p/locations/global/memberships/{name}" for name in "ab"]
        await succeed(cloud, "POST", f"{fleet}?featureId=servicemesh", {})
        mesh = {"mesh": {"management": "MANAGEMENT_AUTOMATIC"}}
        at = f"{fleet}/servicemesh?updateMask=membershipSpecs"
        await succeed(cloud, "PATCH", at, {"membershipSpecs": dict.fromkeys(members, mesh)})
        await succeed(cloud, "PATCH", at, {"membershipSpecs": {members[0]: {}, members[1]: mesh}})
        assert (await succeed(cloud, "GET", f"{fleet}/servicemesh"))["membershipSpecs"] == {members[1]: mesh}

    run_on_cloud(main)


def test_disabled_service_has_the_reason_by_which_the_google_provider_knows_it() -> None:
    async def main(cloud: Cloud) -> None:
        await succeed(cloud, "POST", f"/serviceusage/v1/projects/{PROJECT}/services/pubsub.googleapis.com:enable", {})
        status, answer = await ask(cloud, "GET", f"/cloudbilling/v1/projects/{PROJECT}/billingInfo")
        assert (status, answer["error"]["errors"][0]["reason"]) == (403, "accessNotConfigured")

    run_on_cloud(main)


@pytest.mark.parametrize(("query", "body"), [("?updateMask=labels", {}), ("", {"updateMask": "labels"})])
def test_topic_update_takes_its_mask_from_query_or_body(query: str, body: dict[str, Any]) -> None:
    """The google provider sends it in the query, client libraries in the body."""

    async def main(cloud: Cloud) -> None:
        topic = f"/pubsub/v1/projects/{PROJECT}/topics/records"
        await succeed(cloud, "PUT", topic, {})
        changed = await succeed(cloud, "PATCH", f"{topic}{query}", {"topic": {"labels": {"team": "ml"}}, **body})
        assert changed["labels"] == {"team": "ml"}

    run_on_cloud(main)


def test_projects_with_resources_are_listed_for_callers_that_may_get_them() -> None:
    async def main(cloud: Cloud) -> None:
        async def names(query: str = "", account: str = "") -> set[str]:
            token = f"{cloud.twin.token}{IMPERSONATION}{account}" if account else None
            listed = await cloud.call("GET", f"/cloudresourcemanager/v1/projects{query}", token=token)
            return {project["projectId"] for project in listed.get("projects", ())}

        before = await names()
        for project in ("train-project", "serve-project"):
            await succeed(cloud, "POST", f"/iam/v1/projects/{project}/serviceAccounts", {"accountId": "runner"})
        assert await names() - before == {"train-project", "serve-project"}
        assert await names("?filter=lifecycleState:ACTIVE%20id:train*") == {"train-project"}
        assert await names("?filter=lifecycleState:DELETE_REQUESTED") == set()
        assert len(await names("?pageSize=1")) == 1
        runner = "runner@train-project.iam.gserviceaccount.com"
        creator = {"role": "roles/iam.serviceAccountTokenCreator", "members": [f"user:{ADMINISTRATOR}"]}
        account = f"/iam/v1/projects/train-project/serviceAccounts/{runner}"
        await succeed(cloud, "POST", f"{account}:setIamPolicy", {"policy": {"bindings": [creator]}})
        viewer = {"role": "roles/viewer", "members": [f"serviceAccount:{runner}"]}
        policy = {"policy": {"bindings": [viewer]}}
        await succeed(cloud, "POST", "/cloudresourcemanager/v1/projects/serve-project:setIamPolicy", policy)
        assert await names(account=runner) == {"serve-project"}

    run_on_cloud(main)


def test_every_project_with_compute_engine_has_a_default_service_account() -> None:
    email = default_account(PROJECT)
    user = {"role": "roles/iam.serviceAccountUser", "members": ["user:me@example.com"]}

    async def main(cloud: Cloud) -> None:
        async def emails() -> list[str]:
            return [account["email"] for account in (await succeed(cloud, "GET", ACCOUNTS)).get("accounts", ())]

        assert await emails() == [email]
        assert (await succeed(cloud, "GET", f"{ACCOUNTS}/{email}"))["displayName"] == "Compute Engine default service account"
        await succeed(cloud, "POST", f"{ACCOUNTS}/{email}:setIamPolicy", {"policy": {"bindings": [user]}})
        assert (await succeed(cloud, "POST", f"{ACCOUNTS}/{email}:getIamPolicy"))["bindings"] == [user]
        await succeed(cloud, "POST", ACCOUNTS, {"accountId": "runner"})  # the twin knows projects by what they contain
        assert (await succeed(cloud, "GET", f"/iam/v1/projects/-/serviceAccounts/{email}"))["projectId"] == PROJECT
        await succeed(cloud, "POST", f"{ACCOUNTS}/{email}:disable")
        assert (await succeed(cloud, "GET", f"{ACCOUNTS}/{email}"))["disabled"] is True
        await succeed(cloud, "DELETE", f"{ACCOUNTS}/{email}")
        assert await emails() == [f"runner@{PROJECT}.iam.gserviceaccount.com"]
        await succeed(cloud, "POST", "/serviceusage/v1/projects/new-project/services/iam.googleapis.com:enable", {})
        assert await succeed(cloud, "GET", "/iam/v1/projects/new-project/serviceAccounts") == {}

    run_on_cloud(main)
