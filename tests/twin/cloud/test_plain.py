"""Projects, accounts, networks, buckets and the like on the twin; each answer is held against Google's own documents."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.support import discovery
from tests.support.clouds import Cloud, on_cloud

PROJECT = "my-project"
NETWORKS = f"/compute/v1/projects/{PROJECT}/global/networks"
SUBNETS = f"/compute/v1/projects/{PROJECT}/regions/us-central2/subnetworks"
ACCOUNTS = f"/iam/v1/projects/{PROJECT}/serviceAccounts"


async def ask(cloud: Cloud, http: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    """Status and body of an answer."""
    headers = {"authorization": f"Bearer {cloud.twin.token}"}
    status, _, answer = await cloud.server.handle(http, path, headers, b"" if body is None else orjson.dumps(body))
    return status, orjson.loads(answer)


async def fine(cloud: Cloud, http: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask; the answer must be a success, and what Google's own documents say it looks like."""
    status, found = await ask(cloud, http, path, body)
    assert status == 200, found
    service, version = path.split("/")[1:3]
    plain = path.partition("?")[0]
    # The paths of older APIs begin with their name and version in the documents too; those of newer ones with the version.
    relative = plain.removeprefix(f"/{service}/")
    relative = relative.removeprefix(f"{version}/") if service in _BASED else relative
    message = discovery.messages(service, version, http, relative)[1]
    if message:
        assert discovery.problems(service, version, message, found) == []
    return found


_BASED = {"bigquery", "compute", "storage"}


def test_a_network_is_made_and_kept_while_a_subnet_is_in_it() -> None:
    async def main(cloud: Cloud) -> None:
        await fine(cloud, "POST", NETWORKS, {"name": "net", "autoCreateSubnetworks": False})
        subnet = {"name": "sub", "network": f"projects/{PROJECT}/global/networks/net", "ipCidrRange": "10.0.0.0/20"}
        operation = await fine(cloud, "POST", SUBNETS, subnet)
        assert operation["status"] == "DONE"
        made = await fine(cloud, "GET", f"{SUBNETS}/sub")
        assert (made["gatewayAddress"], made["stackType"]) == ("10.0.0.1", "IPV4_ONLY")
        status, found = await ask(cloud, "DELETE", f"{NETWORKS}/net")
        assert (status, found["error"]["errors"][0]["reason"]) == (400, "resourceInUseByAnotherResource")
        await fine(cloud, "DELETE", f"{SUBNETS}/sub")
        await fine(cloud, "DELETE", f"{NETWORKS}/net")
        assert (await ask(cloud, "GET", f"{NETWORKS}/net"))[0] == 404

    on_cloud(main, workloads=False)


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
def test_addresses_belong_to_one_subnet(body: dict[str, Any], says: str) -> None:
    async def main(cloud: Cloud) -> None:
        network = {"network": f"projects/{PROJECT}/global/networks/net"}
        await fine(cloud, "POST", NETWORKS, {"name": "net"})
        await fine(cloud, "POST", SUBNETS, {"name": "a", "ipCidrRange": "10.0.0.0/20", **network})
        status, found = await ask(cloud, "POST", SUBNETS, {**body, **network})
        assert status == 400
        assert says in found["error"]["message"]

    on_cloud(main, workloads=False)


def test_a_stale_policy_is_refused() -> None:
    async def main(cloud: Cloud) -> None:
        at = f"/cloudresourcemanager/v1/projects/{PROJECT}"
        before = await fine(cloud, "POST", f"{at}:getIamPolicy", {})
        binding = {"role": "roles/viewer", "members": ["user:a@example.com"]}
        after = await fine(cloud, "POST", f"{at}:setIamPolicy", {"policy": {**before, "bindings": [binding]}})
        assert after["bindings"] == [binding]
        status, found = await ask(cloud, "POST", f"{at}:setIamPolicy", {"policy": {**before, "bindings": []}})
        assert (status, found["error"]["status"]) == (409, "ABORTED")
        wrong = {"role": "roles/viewer", "members": ["somebody"]}
        assert (await ask(cloud, "POST", f"{at}:setIamPolicy", {"policy": {"bindings": [wrong]}}))[0] == 400

    on_cloud(main, workloads=False)


def test_an_account_is_known_by_its_address() -> None:
    async def main(cloud: Cloud) -> None:
        made = await fine(cloud, "POST", ACCOUNTS, {"accountId": "trainer", "serviceAccount": {"displayName": "T"}})
        assert made["email"] == f"trainer@{PROJECT}.iam.gserviceaccount.com"
        assert (await ask(cloud, "POST", ACCOUNTS, {"accountId": "trainer"}))[0] == 409
        assert (await ask(cloud, "POST", ACCOUNTS, {"accountId": "no"}))[0] == 400
        found = await fine(cloud, "GET", f"{ACCOUNTS}/{made['uniqueId']}")
        assert found["displayName"] == "T"
        await fine(cloud, "DELETE", f"{ACCOUNTS}/{made['email']}")
        assert (await ask(cloud, "GET", f"{ACCOUNTS}/{made['email']}"))[0] == 404

    on_cloud(main, workloads=False)


def test_a_bucket_that_holds_something_stays() -> None:
    async def main(cloud: Cloud) -> None:
        made = await fine(cloud, "POST", f"/storage/v1/b?project={PROJECT}", {"name": "data", "location": "us-central2"})
        assert (made["location"], made["locationType"]) == ("US-CENTRAL2", "region")
        assert (await ask(cloud, "POST", f"/storage/v1/b?project={PROJECT}", {"name": "data"}))[0] == 409
        sent = await cloud.server.handle(
            "POST",
            "/upload/storage/v1/b/data/o?uploadType=media&name=a%2Fb.txt",
            {"authorization": f"Bearer {cloud.twin.token}", "content-type": "text/plain"},
            b"hello",
        )
        assert sent[0] == 200
        found = await fine(cloud, "GET", "/storage/v1/b/data/o/a%2Fb.txt")
        assert (found["size"], found["md5Hash"]) == ("5", "XUFAKrxLKna5cZ2REBfFkg==")
        assert (await ask(cloud, "DELETE", "/storage/v1/b/data"))[0] == 409
        await ask(cloud, "DELETE", "/storage/v1/b/data/o/a%2Fb.txt")
        assert (await ask(cloud, "DELETE", "/storage/v1/b/data"))[0] == 200

    on_cloud(main, workloads=False)


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_an_upload_in_two_parts_quotes_its_boundary_as_it_likes(quote: str) -> None:
    """gcloud writes it as Python writes a string, and ends lines without a return."""

    async def main(cloud: Cloud) -> None:
        await fine(cloud, "POST", f"/storage/v1/b?project={PROJECT}", {"name": "data"})
        described = b'--==1==\nContent-Type: application/json\n\n{"name": "mark", "bucket": "data"}\n'
        content = b"--==1==\nContent-Type: text/plain\nContent-Transfer-Encoding: binary\n\nwhole\n--==1==--\n"
        headers = {
            "authorization": f"Bearer {cloud.twin.token}",
            "content-type": f"multipart/related; boundary={quote}==1=={quote}",
        }
        path = "/upload/storage/v1/b/data/o?uploadType=multipart"
        assert (await cloud.server.handle("POST", path, headers, described + content))[0] == 200
        assert (await fine(cloud, "GET", "/storage/v1/b/data/o/mark"))["size"] == "5"

    on_cloud(main, workloads=False)


def test_a_subscription_needs_its_topic_and_a_table_its_dataset() -> None:
    async def main(cloud: Cloud) -> None:
        subscription = f"/pubsub/v1/projects/{PROJECT}/subscriptions/s"
        body = {"topic": f"projects/{PROJECT}/topics/t", "bigqueryConfig": {"table": f"{PROJECT}.d.t"}}
        assert (await ask(cloud, "PUT", subscription, body))[0] == 404
        await fine(cloud, "PUT", f"/pubsub/v1/projects/{PROJECT}/topics/t", {})
        assert (await fine(cloud, "PUT", subscription, body))["bigqueryConfig"]["state"] == "ACTIVE"
        tables = f"/bigquery/v2/projects/{PROJECT}/datasets/d/tables"
        assert (await ask(cloud, "POST", tables, {"tableReference": {"tableId": "t"}}))[0] == 404
        dataset = {"datasetReference": {"datasetId": "d", "projectId": PROJECT}}
        await fine(cloud, "POST", f"/bigquery/v2/projects/{PROJECT}/datasets", dataset)
        await fine(cloud, "POST", tables, {"tableReference": {"tableId": "t"}})
        assert (await ask(cloud, "DELETE", f"/bigquery/v2/projects/{PROJECT}/datasets/d"))[0] == 400
        assert (await ask(cloud, "DELETE", f"/bigquery/v2/projects/{PROJECT}/datasets/d?deleteContents=true"))[0] == 200

    on_cloud(main, workloads=False)


def test_unknown_fields_and_routes_are_refused_as_google_does() -> None:
    async def main(cloud: Cloud) -> None:
        status, found = await ask(cloud, "POST", NETWORKS, {"name": "net", "colour": "red"})
        assert status == 400
        assert 'Unknown name "colour": Cannot find field.' in found["error"]["message"]
        assert (await ask(cloud, "GET", f"/compute/v1/projects/{PROJECT}/global/sslPolicies"))[0] == 501

    on_cloud(main, workloads=False)
