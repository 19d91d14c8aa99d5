"""google-api-python-client with projects, service accounts, networks, registries, TensorBoards and clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from googleapiclient.errors import HttpError  # type: ignore[import-untyped]
from tests.support.google_clients import PROJECT

if TYPE_CHECKING:
    from tests.support.google_clients import Google

AT = f"projects/{PROJECT}"
OTHER = "projects/other-project"
REGION = "us-central2"
VIEWER = {"role": "roles/viewer", "members": ["user:a@example.com"]}


def refused(request: Any) -> tuple[int, str, str]:
    """HTTP code, status and message of a request that must fail."""
    with pytest.raises(HttpError) as caught:
        request.execute()
    error = caught.value
    details = {item["@type"].rpartition(".")[2] for item in error.error_details if isinstance(item, dict) and "@type" in item}
    assert "RequestInfo" in details
    return error.resp.status, error.resp.reason, error.reason


def pages(google: Google, collection: Any, key: str, **asked: Any) -> list[list[str]]:
    """The names of a list by page, as the client paginates."""
    result, request = [], collection.list(**asked)
    while request is not None:
        answer = google.do(request)
        result.append([item["name"].rpartition("/")[2] for item in answer.get(key, [])])
        request = collection.list_next(request, answer)
    return result


def test_project_policy_is_updated(google: Google) -> None:
    projects = google.api("cloudresourcemanager").projects()
    assert google.do(projects.get(projectId=PROJECT))["lifecycleState"] == "ACTIVE"
    before = google.do(projects.getIamPolicy(resource=PROJECT, body={}))
    expected = {"policy": {**before, "bindings": [VIEWER]}}
    after = google.do(projects.setIamPolicy(resource=PROJECT, body=expected))
    assert (after["bindings"], after["etag"] != before["etag"]) == ([VIEWER], True)
    status, _, output = refused(projects.setIamPolicy(resource=PROJECT, body=expected))
    assert (status, "concurrent policy changes" in output) == (409, True)
    wrong = {"policy": {"bindings": [{"role": "roles/viewer", "members": ["unqualified"]}]}}
    assert refused(projects.setIamPolicy(resource=PROJECT, body=wrong))[0] == 400


def test_services_are_enabled_and_paginated(google: Google) -> None:
    # From the first enabled service on, a project has only these and those that it starts with. Other tests have other projects.
    services = google.api("serviceusage").services()
    names = [f"{word}.googleapis.com" for word in ("compute", "container", "storage")]
    done = google.do(services.batchEnable(parent=OTHER, body={"serviceIds": names}))
    assert (done["done"], len(done["response"]["services"])) == (True, 3)
    google.do(services.disable(name=f"{OTHER}/services/{names[2]}", body={}))
    assert google.do(services.get(name=f"{OTHER}/services/{names[2]}"))["state"] == "DISABLED"
    listed = pages(google, services, "services", parent=OTHER, filter="state:ENABLED", pageSize=1)
    initial = [f"{word}.googleapis.com" for word in ("bigquery", "logging", "monitoring", "serviceusage")]
    assert listed == [[name] for name in sorted([*names[:2], *initial])]


def test_service_account_lifecycle(google: Google) -> None:
    accounts = google.api("iam").projects().serviceAccounts()
    for name in ("trainer-one", "trainer-two", "trainer-three"):
        created = google.do(accounts.create(name=AT, body={"accountId": name, "serviceAccount": {"displayName": name}}))
    assert refused(accounts.create(name=AT, body={"accountId": "trainer-one"}))[0] == 409
    path = created["name"]
    body = {"serviceAccount": {"description": "new"}, "updateMask": "description"}
    assert google.do(accounts.patch(name=path, body=body))["description"] == "new"
    google.do(accounts.disable(name=path, body={}))
    assert google.do(accounts.get(name=path))["disabled"] is True
    listed = pages(google, accounts, "accounts", name=AT, pageSize=2)
    assert [len(page) for page in listed] == [2, 2], "three accounts, and Compute Engine's"
    policy = google.do(accounts.getIamPolicy(resource=path))
    google.do(accounts.setIamPolicy(resource=path, body={"policy": {**policy, "bindings": [VIEWER]}}))
    assert refused(accounts.setIamPolicy(resource=path, body={"policy": policy}))[0] == 409
    google.do(accounts.delete(name=path))
    assert refused(accounts.get(name=path))[:1] == (404,)


def test_network_resources_lifecycle(google: Google) -> None:
    compute = google.api("compute")
    networks, subnets, routers = compute.networks(), compute.subnetworks(), compute.routers()
    place = {"project": PROJECT, "region": REGION}

    def done(operation: dict[str, Any]) -> None:
        if "region" in operation:
            google.wait(lambda one: compute.regionOperations().get(operation=one["name"], **place), operation)
        else:
            google.wait(lambda one: compute.globalOperations().get(project=PROJECT, operation=one["name"]), operation)

    for name in ("net", "other"):
        done(google.do(networks.insert(project=PROJECT, body={"name": name, "autoCreateSubnetworks": False})))
    assert refused(networks.insert(project=PROJECT, body={"name": "net"}))[0] == 409
    body = {"name": "sub", "network": f"{AT}/global/networks/net", "ipCidrRange": "10.0.0.0/20"}
    done(google.do(subnets.insert(body=body, **place)))
    done(google.do(subnets.expandIpCidrRange(subnetwork="sub", body={"ipCidrRange": "10.0.0.0/16"}, **place)))
    assert google.do(subnets.get(subnetwork="sub", **place))["ipCidrRange"] == "10.0.0.0/16"
    done(google.do(routers.insert(body={"name": "way", "network": f"{AT}/global/networks/net"}, **place)))
    nat = {"name": "out", "natIpAllocateOption": "AUTO_ONLY", "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"}
    done(google.do(routers.patch(router="way", body={"nats": [nat]}, **place)))
    assert google.do(routers.get(router="way", **place))["nats"][0]["name"] == "out"
    assert pages(google, networks, "items", project=PROJECT, maxResults=1) == [["net"], ["other"]]
    assert refused(networks.delete(project=PROJECT, network="net"))[0] == 400
    for request in (routers.delete(router="way", **place), subnets.delete(subnetwork="sub", **place)):
        done(google.do(request))
    done(google.do(networks.delete(project=PROJECT, network="net")))
    assert refused(networks.get(project=PROJECT, network="net"))[0] == 404


def test_image_needs_a_source(google: Google) -> None:
    compute = google.api("compute")
    images = compute.images()
    assert refused(images.insert(project=PROJECT, body={"name": "cache"}))[0] == 400
    body = {"name": "cache", "rawDisk": {"source": "https://storage.googleapis.com/bucket/cache.tar.gz"}}
    started = google.do(images.insert(project=PROJECT, body=body))
    google.wait(lambda one: compute.globalOperations().get(project=PROJECT, operation=one["name"]), started)
    assert google.do(images.get(project=PROJECT, image="cache"))["status"] == "READY"
    google.do(images.delete(project=PROJECT, image="cache"))
    assert refused(images.get(project=PROJECT, image="cache"))[0] == 404


def test_region_reports_quota_usage(google: Google) -> None:
    limit = {"region": REGION, "metric": "CPUS", "limit": 24}
    google.served.run(lambda cloud: cloud.services["container"].configure({"quotas": [limit]}))
    result = google.do(google.api("compute").regions().get(project=PROJECT, region=REGION))
    assert result["quotas"] == [{"metric": "CPUS", "limit": 24.0, "usage": 0.0}]
    assert refused(google.api("compute").zones().get(project=PROJECT, zone="us-central2-z"))[0] == 404


def test_repository_lifecycle_uses_operations(google: Google) -> None:
    repositories = google.api("artifactregistry").projects().locations().repositories()
    parent = f"{AT}/locations/{REGION}"
    done = google.do(repositories.create(parent=parent, repositoryId="images", body={"format": "DOCKER"}))
    assert done["response"]["registryUri"] == f"{REGION}-docker.pkg.dev/{PROJECT}/images"
    name = f"{parent}/repositories/images"
    changed = google.do(repositories.patch(name=name, updateMask="description", body={"description": "ours"}))
    assert changed["description"] == "ours"
    policy = google.do(repositories.getIamPolicy(resource=name))
    google.do(repositories.setIamPolicy(resource=name, body={"policy": {**policy, "bindings": [VIEWER]}}))
    assert refused(repositories.create(parent=parent, repositoryId="images", body={"format": "DOCKER"}))[0] == 409
    assert google.do(repositories.delete(name=name))["done"] is True
    assert refused(repositories.get(name=name))[0] == 404


REGISTRY = f"{REGION}-docker.pkg.dev/{PROJECT}/built"
BUILD: dict[str, Any] = {
    "steps": [{"name": "gcr.io/cloud-builders/docker", "args": ["build", "--tag=${_REGISTRY}/one:1", "."]}],
    "images": ["${_REGISTRY}/one:1"],
    "substitutions": {"_REGISTRY": REGISTRY},
    "tags": ["ours"],
}


def set_build_seconds(google: Google, seconds: float) -> None:
    """Set the duration of new builds."""
    google.served.run(lambda cloud: cloud.services["cloudbuild"].configure({"seconds": seconds}))


def test_build_pushes_images_when_done(google: Google) -> None:
    locations, parent = google.api("cloudbuild").projects().locations(), f"{AT}/locations/{REGION}"
    builds, repositories = locations.builds(), google.api("artifactregistry").projects().locations().repositories()
    tag = f"{parent}/repositories/built/packages/one/tags/1"
    google.do(repositories.create(parent=parent, repositoryId="built", body={"format": "DOCKER"}))
    set_build_seconds(google, 86_400)
    slow = google.do(builds.create(parent=parent, body=BUILD))
    build = slow["metadata"]["build"]
    assert (build["status"], build["images"], "done" in slow) == ("WORKING", [f"{REGISTRY}/one:1"], False)
    assert refused(repositories.packages().tags().get(name=tag))[0] == 404
    assert google.do(builds.cancel(name=build["name"], body={}))["status"] == "CANCELLED"
    assert refused(builds.cancel(name=build["name"], body={}))[0] == 400
    set_build_seconds(google, 1)
    started = google.do(builds.create(parent=parent, body=BUILD))
    done = google.wait(lambda one: locations.operations().get(name=one["name"]), started)
    assert (done["response"]["status"], done["response"]["results"]["images"][0]["name"]) == ("SUCCESS", f"{REGISTRY}/one:1")
    digest = google.do(repositories.packages().tags().get(name=tag))["version"].rpartition("/")[2]
    listed = google.do(repositories.dockerImages().list(parent=f"{parent}/repositories/built"))["dockerImages"]
    assert [(item["tags"], item["uri"]) for item in listed] == [(["1"], f"{REGISTRY}/one@{digest}")]
    both = {build["id"], started["metadata"]["build"]["id"]}
    assert {item["id"] for item in google.do(builds.list(parent=parent, filter='tags="ours"'))["builds"]} == both
    assert google.do(builds.list(parent=parent, filter='tags="theirs"')) == {}
    google.do(repositories.delete(name=f"{parent}/repositories/built"))
    assert refused(repositories.packages().tags().get(name=tag))[0] == 404


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"source": {"storageSource": {"bucket": "nobodys", "object": "sources.tgz"}}}, "FETCH_SOURCE_FAILED"),
        ({"images": [f"{REGION}-docker.pkg.dev/{PROJECT}/nowhere/one:1"]}, "PUSH_FAILED"),
    ],
)
def test_build_without_source_or_repository_fails(google: Google, change: dict[str, Any], why: str) -> None:
    locations, parent = google.api("cloudbuild").projects().locations(), f"{AT}/locations/{REGION}"
    set_build_seconds(google, 1)
    started = google.do(locations.builds().create(parent=parent, body={**BUILD, **change}))
    failed = google.wait(lambda one: locations.operations().get(name=one["name"]), started)
    result = google.do(locations.builds().get(name=started["metadata"]["build"]["name"]))
    assert (result["status"], result["failureInfo"]["type"], failed["error"]["code"]) == ("FAILURE", why, 9)


def test_invalid_build_is_rejected(google: Google) -> None:
    builds, parent = google.api("cloudbuild").projects().locations().builds(), f"{AT}/locations/{REGION}"
    account = f"{AT}/serviceAccounts/missing@{PROJECT}.iam.gserviceaccount.com"
    for change, status, words in (
        ({"steps": []}, 400, "no build steps"),
        ({"substitutions": {}}, 400, 'key in the template "_REGISTRY" is not a valid built-in substitution'),
        ({"substitutions": {**BUILD["substitutions"], "_MORE": "x"}}, 400, 'key "_MORE" in the substitution data is not matched'),
        ({"serviceAccount": account}, 400, "CLOUD_LOGGING_ONLY"),
        ({"serviceAccount": account, "options": {"logging": "CLOUD_LOGGING_ONLY"}}, 403, "iam.serviceAccounts.actAs"),
    ):
        result = refused(builds.create(parent=parent, body={**BUILD, **change}))
        assert (result[0], words in result[2]) == (status, True), result


def test_tensorboard_gets_a_generated_name(google: Google) -> None:
    boards = google.api("aiplatform").projects().locations().tensorboards()
    parent = f"{AT}/locations/{REGION}"
    created = google.do(boards.create(parent=parent, body={"displayName": "runs"}))["response"]["name"]
    assert google.do(boards.get(name=created))["displayName"] == "runs"
    google.do(boards.patch(name=created, updateMask="displayName", body={"displayName": "all runs"}))
    assert google.do(boards.list(parent=parent))["tensorboards"][0]["displayName"] == "all runs"
    google.do(boards.delete(name=created))
    assert refused(boards.get(name=created))[0] == 404


def test_fleet_memberships_and_features(google: Google) -> None:
    locations = google.api("gkehub").projects().locations()
    parent = f"{AT}/locations/global"
    google.do(locations.memberships().create(parent=parent, membershipId="one", body={}))
    google.do(locations.features().create(parent=parent, featureId="servicemesh", body={}))
    assert google.do(locations.features().get(name=f"{parent}/features/servicemesh"))["resourceState"] == {"state": "ACTIVE"}
    assert pages(google, locations.memberships(), "resources", parent=parent) == [["one"]]
    google.do(locations.memberships().delete(name=f"{parent}/memberships/one"))


def test_cluster_lifecycle_and_node_pool_failures(google: Google) -> None:
    locations = google.api("container").projects().locations()
    parent, clusters = f"{AT}/locations/{REGION}-b", locations.clusters()
    path = f"{parent}/clusters/c"

    def done(operation: dict[str, Any]) -> dict[str, Any]:
        return google.wait(lambda one: locations.operations().get(name=f"{parent}/operations/{one['name']}"), operation)

    started = google.do(clusters.create(parent=parent, body={"cluster": {"name": "c", "initialNodeCount": 1}}))
    assert started["status"] in ("PENDING", "RUNNING")
    assert "error" not in done(started)
    pool = {"name": "slice", "initialNodeCount": 2, "config": {"machineType": "ct4p-hightpu-4t"}}
    pool["placementPolicy"] = {"type": "COMPACT", "tpuTopology": "2x2x2"}
    google.inject("Stockout", match={"nodePool": "slice"}, count=1)
    failed = done(google.do(clusters.nodePools().create(parent=path, body={"nodePool": pool})))
    assert failed["error"]["code"] == 8
    assert google.do(clusters.nodePools().get(name=f"{path}/nodePools/slice"))["status"] == "ERROR"
    google.inject("QuotaExceeded", match={"method": "nodePools.create"}, count=1)
    other = {"name": "more", "initialNodeCount": 1}
    status, _, output = refused(clusters.nodePools().create(parent=path, body={"nodePool": other}))
    assert (status, "Insufficient regional quota" in output) == (403, True)
    google.inject("TooManyOperations", match={"method": "nodePools.create"}, count=1)
    assert refused(clusters.nodePools().create(parent=path, body={"nodePool": other}))[0] == 429
    done(google.do(clusters.delete(name=path)))
    assert refused(clusters.get(name=path))[0] == 404


def test_unimplemented_method_and_unknown_field_are_rejected(google: Google) -> None:
    compute = google.api("compute")
    status, _, output = refused(compute.sslPolicies().list(project=PROJECT))
    assert (status, "the twin does not implement this method" in output) == (501, True)
    assert refused(compute.networks().insert(project=PROJECT, body={"name": "n", "colour": "red"}))[0] == 400
