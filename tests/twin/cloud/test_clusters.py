"""Clusters: fields that Terraform's provider reads, initial node pools, updates and deletion."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.support.clouds import Cloud, run_on_cloud

from sliceworks.base import clock
from sliceworks.kube.resources import SERVICE

PLACE = "projects/p/locations/us-central1"
TRAIN = f"{PLACE}/clusters/train"
ASKED: dict[str, Any] = {
    "name": "train",
    "initialNodeCount": 1,
    "network": "projects/p/global/networks/net",
    "subnetwork": "projects/p/regions/us-central1/subnetworks/sub",
    "ipAllocationPolicy": {"clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services"},
    "workloadIdentityConfig": {"workloadPool": "p.svc.id.goog"},
    "releaseChannel": {"channel": "REGULAR"},
    "resourceLabels": {"team": "ml"},
}


async def done(cloud: Cloud, operation: dict[str, Any]) -> dict[str, Any]:
    while operation["status"] != "DONE":
        await clock.sleep(5)
        operation = await cloud.do("GET", f"{PLACE}/operations/{operation['name']}")
    return operation


async def made(cloud: Cloud, **fields: Any) -> dict[str, Any]:
    operation = await cloud.do("POST", f"{PLACE}/clusters", {"cluster": {**ASKED, **fields}})
    assert "error" not in await done(cloud, operation)
    return await cloud.do("GET", TRAIN)


def without_clusters(main: Any, **options: Any) -> None:
    """A cloud without clusters."""

    async def whole(cloud: Cloud) -> None:
        for cluster in list(cloud.container._state.clusters.all()):
            cloud.container._state.clusters.delete(cluster)
        await cloud.network("us-central1")
        await main(cloud)

    run_on_cloud(whole, **options)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_cluster_has_the_fields_that_the_provider_reads(version: str) -> None:
    async def main(cloud: Cloud) -> None:
        assert (await cloud.refused("GET", TRAIN))[0] == 404
        operation = await cloud.do("POST", f"{PLACE}/clusters", {"cluster": ASKED})
        assert operation["operationType"] == "CREATE_CLUSTER"
        assert (await cloud.do("GET", TRAIN))["status"] == "PROVISIONING"
        await done(cloud, operation)
        cluster = await cloud.do("GET", TRAIN)
        assert cluster["status"] == "RUNNING"
        assert cluster["location"] == "us-central1"
        assert cluster["locations"] == ["us-central1-a", "us-central1-b", "us-central1-c"]
        assert cluster["networkConfig"] == {
            "network": "projects/p/global/networks/net",
            "subnetwork": "projects/p/regions/us-central1/subnetworks/sub",
        }
        assert (cluster["network"], cluster["subnetwork"]) == ("net", "sub")
        assert cluster["legacyAbac"] == {}
        assert cluster["ipAllocationPolicy"] == {**ASKED["ipAllocationPolicy"], "useIpAliases": True, "stackType": "IPV4"}
        assert base64.b64decode(cluster["masterAuth"]["clusterCaCertificate"]) == b"the authority"
        assert cluster["currentMasterVersion"].count("-gke.") == 1
        for field in ("initialNodeCount", "workloadIdentityConfig", "releaseChannel", "resourceLabels"):
            assert cluster[field] == ASKED[field]
        for field in ("endpoint", "selfLink", "labelFingerprint", "id", "createTime"):
            assert cluster[field]
        (pool,) = cluster["nodePools"]
        assert (pool["name"], pool["status"], pool["initialNodeCount"]) == ("default-pool", "RUNNING", 1)
        assert len(await cloud.nodes("default-pool")) == 3
        assert cluster["currentNodeCount"] == 3
        assert len(cluster["instanceGroupUrls"]) == 3
        for field in ("addonsConfig", "autopilot", "masterAuthorizedNetworksConfig", "privateClusterConfig"):
            assert field not in cluster, "what was not sent would be a change in the next plan"

    without_clusters(main, version=version)


def test_default_pool_and_cluster_can_be_deleted() -> None:
    async def main(cloud: Cloud) -> None:
        await made(cloud)
        await done(cloud, await cloud.do("DELETE", f"{TRAIN}/nodePools/default-pool"))
        assert "nodePools" not in await cloud.do("GET", TRAIN)
        pool = {"name": "cpu", "initialNodeCount": 2, "locations": ["us-central1-a"], "config": {"machineType": "e2-standard-8"}}
        await done(cloud, await cloud.do("POST", f"{TRAIN}/nodePools", {"nodePool": pool}))
        assert len(await cloud.nodes()) == 2
        operation = await cloud.do("DELETE", TRAIN)
        assert (await cloud.do("GET", TRAIN))["status"] == "STOPPING"
        await done(cloud, operation)
        assert (await cloud.refused("GET", TRAIN))[0] == 404
        assert await cloud.nodes() == []
        assert await cloud.do("GET", "projects/p/locations/-/clusters") == {}
        await made(cloud)
        assert len(await cloud.nodes()) == 3, "the next one has the twin's nodes again"

    without_clusters(main)


def test_update_sets_desired_fields() -> None:
    async def main(cloud: Cloud) -> None:
        before = await made(cloud, nodePools=[{"name": "cpu", "initialNodeCount": 1}], initialNodeCount=0)
        request = {
            "desiredLoggingConfig": {"componentConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]}},
            "desiredDnsConfig": {"clusterDns": "CLOUD_DNS"},
            "desiredReleaseChannel": {"channel": "RAPID"},
        }
        operation = await cloud.do("PUT", TRAIN, {"update": request})
        assert operation["operationType"] == "UPDATE_CLUSTER"
        assert (await cloud.do("GET", TRAIN))["status"] == "RECONCILING"
        await done(cloud, operation)
        after = await cloud.do("GET", TRAIN)
        assert after["loggingConfig"] == request["desiredLoggingConfig"]
        assert after["networkConfig"] == {**before["networkConfig"], "dnsConfig": {"clusterDns": "CLOUD_DNS"}}
        assert (after["releaseChannel"], after["status"]) == ({"channel": "RAPID"}, "RUNNING")

        scaling = {"enabled": True, "minNodeCount": 0, "maxNodeCount": 3}
        update = {"desiredNodePoolId": "cpu", "desiredNodePoolAutoscaling": scaling}
        await done(cloud, await cloud.do("PUT", TRAIN, {"update": update}))
        assert (await cloud.do("GET", f"{TRAIN}/nodePools/cpu"))["autoscaling"] == scaling

        await done(cloud, await cloud.do("POST", f"{TRAIN}:setResourceLabels", {"resourceLabels": {"team": "other"}}))
        labelled = await cloud.do("GET", TRAIN)
        assert labelled["resourceLabels"] == {"team": "other"}
        assert labelled["labelFingerprint"] != before["labelFingerprint"]
        policy = {"window": {"dailyMaintenanceWindow": {"startTime": "03:00"}}}
        await done(cloud, await cloud.do("POST", f"{TRAIN}:setMaintenancePolicy", {"maintenancePolicy": policy}))
        assert (await cloud.do("GET", TRAIN))["maintenancePolicy"] == policy
        await done(cloud, await cloud.do("POST", f"{TRAIN}:setLegacyAbac", {"enabled": True}))
        assert (await cloud.do("GET", TRAIN))["legacyAbac"] == {"enabled": True}

    without_clusters(main)


def test_autopilot_cluster_rejects_node_pools() -> None:
    async def main(cloud: Cloud) -> None:
        cluster = await made(cloud, autopilot={"enabled": True}, initialNodeCount=0)
        assert cluster["autopilot"] == {"enabled": True}
        assert [pool["name"] for pool in cluster["nodePools"]] == ["default-pool"]
        assert await cloud.nodes() == []
        pool = f"{TRAIN}/nodePools/default-pool"
        for method, path, body in (
            ("POST", f"{TRAIN}/nodePools", {"nodePool": {"name": "cpu"}}),
            ("DELETE", pool, None),
            ("POST", f"{pool}:setSize", {"nodeCount": 1}),
            ("PUT", pool, {"labels": {"labels": {"a": "b"}}}),
        ):
            refused = await cloud.refused(method, path, body)
            assert refused == (400, "INVALID_ARGUMENT", "Autopilot node pools cannot be accessed or modified.")

    without_clusters(main)


def test_only_the_first_cluster_has_nodes() -> None:
    async def main(cloud: Cloud) -> None:
        await made(cloud)
        other = f"{PLACE}/clusters/other"
        operation = await cloud.do("POST", f"{PLACE}/clusters", {"cluster": {"name": "other", "initialNodeCount": 2}})
        await done(cloud, operation)
        assert (await cloud.do("GET", other))["currentNodeCount"] == 6
        assert len(await cloud.nodes()) == 3
        listed = await cloud.do("GET", "projects/p/locations/-/clusters")
        assert [cluster["name"] for cluster in listed["clusters"]] == ["other", "train"]
        assert await cloud.do("GET", "projects/q/locations/-/clusters") == {}
        await done(cloud, await cloud.do("DELETE", other))
        assert len(await cloud.nodes()) == 3

    without_clusters(main)


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ({"name": "X", "initialNodeCount": 1}, "cluster.name"),
        ({"name": "x"}, "initial_node_count must be greater than zero"),
        ({"name": "x", "initialNodeCount": 1, "nodePools": [{"name": "a"}]}, "unset when node pools are specified"),
        ({"name": "x", "initialNodeCount": 1, "locations": ["us-east1-b"]}, "us-east1-b"),
        ({"name": "x", "initialNodeCount": 1, "nodeConfig": {"machineType": "z"}}, 'Machine type with name "z" does not exist.'),
    ],
)
def test_invalid_cluster_is_rejected(cluster: dict[str, Any], words: str) -> None:
    async def main(cloud: Cloud) -> None:
        code, _, message = await cloud.refused("POST", f"{PLACE}/clusters", {"cluster": cluster})
        assert code == 400
        assert words in message
        assert await cloud.do("GET", f"{PLACE}/clusters") == {}

    without_clusters(main, workloads=False)


def test_stockout_sets_the_cluster_to_error() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.fault("Stockout")
        operation = await cloud.do("POST", f"{PLACE}/clusters", {"cluster": ASKED})
        ended = await done(cloud, operation)
        assert ended["clusterConditions"][0]["code"] == "GCE_STOCKOUT"
        assert (await cloud.do("GET", TRAIN))["status"] == "ERROR"
        await done(cloud, await cloud.do("DELETE", TRAIN))
        assert (await cloud.refused("GET", TRAIN))[0] == 404

    without_clusters(main)


def test_server_config_lists_versions() -> None:
    async def main(cloud: Cloud) -> None:
        result = await cloud.do("GET", f"{PLACE}/serverConfig")
        assert result["defaultClusterVersion"] in result["validMasterVersions"]
        assert {channel["channel"] for channel in result["channels"]} == {"RAPID", "REGULAR", "STABLE", "EXTENDED"}

    without_clusters(main, workloads=False)


def served_groups(cloud: Cloud) -> set[str]:
    names = (entry.name for entry in cloud.twin.store.scan("apiextensions.k8s.io/customresourcedefinitions"))
    return {name.partition(".")[2] for name in names}


def test_cluster_serves_the_kinds_that_its_settings_enable() -> None:
    async def main(cloud: Cloud) -> None:
        await made(cloud, networkConfig={"gatewayApiConfig": {"channel": "CHANNEL_STANDARD"}})
        await clock.sleep(1)
        groups = served_groups(cloud)
        assert {"gateway.networking.k8s.io", "networking.gke.io"} <= groups
        assert not {"monitoring.googleapis.com", "networking.istio.io"} & groups
        change = {"update": {"desiredMonitoringConfig": {"managedPrometheusConfig": {"enabled": True}}}}
        await done(cloud, await cloud.do("PUT", TRAIN, change))
        await clock.sleep(1)
        assert "monitoring.googleapis.com" in served_groups(cloud)
        features = "/gkehub/v1/projects/p/locations/global/features"
        await cloud.call("POST", f"{features}?featureId=servicemesh", {})
        specs = {"membershipSpecs": {"m": {"mesh": {"management": "MANAGEMENT_AUTOMATIC"}}}}
        await clock.sleep(10)
        assert "networking.istio.io" not in served_groups(cloud)
        await cloud.call("PATCH", f"{features}/servicemesh?updateMask=membershipSpecs", specs)
        await clock.sleep(10)
        assert "networking.istio.io" in served_groups(cloud)

    without_clusters(main)


def test_load_balancers_get_an_address() -> None:
    async def main(cloud: Cloud) -> None:
        await made(cloud)
        ports = [{"port": 80}]
        annotations = {"networking.gke.io/load-balancer-type": "Internal"}
        for name, metadata in (("inside", {"annotations": annotations}), ("outside", {})):
            body = {
                "metadata": {"name": name, "namespace": "default", **metadata},
                "spec": {"type": "LoadBalancer", "ports": ports},
            }
            await cloud.client.create({"apiVersion": "v1", "kind": "Service", **body})
        await clock.sleep(1)
        addresses = {}
        for name in ("inside", "outside"):
            service = await cloud.client.get(SERVICE, name, "default")
            addresses[name] = service["status"]["loadBalancer"]["ingress"][0]["ip"].rpartition(".")[0]
        assert addresses == {"inside": "10.128.0", "outside": "203.0.113"}

    without_clusters(main)
