"""EndpointSlices: which pods of a Service they list, and with which conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.polling import eventually
from tests.support.workloads import WorkloadHarness, template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

pytestmark = pytest.mark.controllers
CLUSTER = "controllers"
Object = dict[str, Any]
LABELS = {"app": "web"}


@pytest.fixture
def workloads(cluster: Cluster, ns: str) -> WorkloadHarness:
    return WorkloadHarness(cluster, ns)


@pytest.fixture
def node(workloads: WorkloadHarness, unique_name: str) -> Iterator[str]:
    labels = {"topology.kubernetes.io/zone": "zone-a"}
    path = f"/api/v1/nodes/{unique_name}"
    workloads.api.post("/api/v1/nodes", {"metadata": {"name": unique_name, "labels": labels}}).ok(201)
    workloads.words[unique_name] = "NODE"
    # Once a controller removes the taint of new nodes, all know the node. Endpoints that are created earlier have no zone.
    eventually(lambda: not workloads.api.get(path).ok(200).json["spec"].get("taints"), what="a node that controllers know")
    yield unique_name
    workloads.api.delete(path)


def service(workloads: WorkloadHarness, **spec: Any) -> Object:
    body = {"selector": LABELS, "ports": [{"name": "http", "port": 80, "targetPort": 8080}], **spec}
    return workloads.create("Service", "web", body, labels={"tier": "front"})


def pod(workloads: WorkloadHarness, name: str, node: str, ip: str = "", *, ready: bool = True, **spec: Any) -> None:
    body = {"metadata": {"name": name, "labels": LABELS}, "spec": {**template(**spec)["spec"], "nodeName": node}}
    workloads.api.post(workloads.path("Pod"), body).ok(201)
    if ip:
        workloads.phase(name, "Running", ready=ready, podIP=ip, podIPs=[{"ip": ip}])


def slices(workloads: WorkloadHarness, endpoints: int | None = None) -> list[Object]:
    """Wait until the slices of the Service have this many endpoints."""

    def find() -> list[Object] | None:
        result = workloads.items("EndpointSlice", "kubernetes.io/service-name=web")
        total = sum(len(item["endpoints"] or ()) for item in result)
        return result if result and endpoints in (None, total) else None

    # A controller with a stale cache of its slices retries with backoff.
    return eventually(find, what=f"{endpoints} endpoints")


def picture(objects: list[Object]) -> list[Object]:
    reported = []
    for item in objects:
        metadata = {key: item["metadata"].get(key) for key in ("generateName", "labels")}
        owners = [{key: ref[key] for key in ("kind", "name", "controller")} for ref in item["metadata"]["ownerReferences"]]
        endpoints = sorted(item["endpoints"] or [], key=lambda one: str(one["addresses"]))
        rest = {key: item.get(key) for key in ("addressType", "ports")}
        reported.append({"metadata": metadata, "owners": owners, "endpoints": endpoints, **rest})
    return reported


def test_service_without_pods(workloads: WorkloadHarness) -> None:
    service(workloads)
    workloads.check("endpoints", "no pods", picture(slices(workloads, 0)))


def test_ready_and_unready_endpoints(workloads: WorkloadHarness, node: str) -> None:
    service(workloads)
    pod(workloads, "a", node, "10.0.0.1")
    pod(workloads, "b", node, "10.0.0.2", ready=False)
    pod(workloads, "c", node)
    slices(workloads, 2)
    workloads.check("endpoints", "ready and not", picture(slices(workloads, 2)))


def test_endpoint_becomes_ready(workloads: WorkloadHarness, node: str) -> None:
    service(workloads)
    pod(workloads, "a", node, "10.0.0.1", ready=False)
    (result,) = slices(workloads, 1)
    assert result["endpoints"][0]["conditions"] == {"ready": False, "serving": False, "terminating": False}
    workloads.phase("a", "Running", ready=True)
    eventually(lambda: slices(workloads, 1)[0]["endpoints"][0]["conditions"]["ready"], what="ready")


def test_terminating_endpoint(workloads: WorkloadHarness, node: str) -> None:
    service(workloads)
    pod(workloads, "a", node, "10.0.0.1")
    slices(workloads, 1)
    workloads.delete("Pod", "a", gracePeriodSeconds=30)
    expected = {"ready": False, "serving": True, "terminating": True}
    eventually(lambda: slices(workloads, 1)[0]["endpoints"][0]["conditions"] == expected, what="terminating")
    workloads.remove("a")
    workloads.check("endpoints", "all gone", picture(slices(workloads, 0)))


def test_finished_pods_are_excluded(workloads: WorkloadHarness, node: str) -> None:
    service(workloads)
    pod(workloads, "a", node, "10.0.0.1")
    pod(workloads, "b", node, "10.0.0.2")
    slices(workloads, 2)
    workloads.phase("b", "Succeeded", 0)
    (result,) = slices(workloads, 1)
    assert result["endpoints"][0]["addresses"] == ["10.0.0.1"]


def test_headless_with_hostnames(workloads: WorkloadHarness, node: str) -> None:
    service(workloads, clusterIP="None", publishNotReadyAddresses=True, ports=[])
    pod(workloads, "a", node, "10.0.0.1", ready=False, hostname="first", subdomain="web")
    pod(workloads, "b", node, "10.0.0.2", ready=False, hostname="second", subdomain="other")
    slices(workloads, 2)
    workloads.check("endpoints", "headless", picture(slices(workloads, 2)))


def test_named_ports_with_different_numbers(workloads: WorkloadHarness, node: str) -> None:
    """Pods with different port numbers for one port name are in different slices."""
    service(workloads, ports=[{"port": 80, "targetPort": "http"}])
    for number, port in enumerate((8080, 9090)):
        ports = [{"name": "http", "containerPort": port}]
        containers = [{"name": "main", "image": "example.com/app:1", "ports": ports}]
        pod(workloads, f"p{number}", node, f"10.0.0.{number + 1}", containers=containers)
    eventually(lambda: len(slices(workloads, 2)) == 2, what="two slices")
    workloads.check("endpoints", "ports by name", sorted(picture(slices(workloads, 2)), key=lambda each: str(each["ports"])))


def test_slice_holds_100_endpoints(workloads: WorkloadHarness, node: str) -> None:
    for number in range(105):
        pod(workloads, f"p{number}", node, f"10.0.1.{number + 1}")
    # All at once: a controller that adds them one by one conflicts with its own writes and backs off.
    workloads.wait_synced()
    service(workloads)
    result = slices(workloads, 105)
    assert all(len(item["endpoints"]) <= 100 for item in result)
    assert len(result) == 2


def test_changed_selector(workloads: WorkloadHarness, node: str) -> None:
    service(workloads)
    pod(workloads, "a", node, "10.0.0.1")
    slices(workloads, 1)
    workloads.patch("Service", "web", {"spec": {"selector": {"app": "other"}}})
    slices(workloads, 0)


def test_changed_pod_labels(workloads: WorkloadHarness, node: str) -> None:
    service(workloads)
    pod(workloads, "a", node, "10.0.0.1")
    slices(workloads, 1)
    workloads.patch("Pod", "a", {"metadata": {"labels": {"app": "other"}}})
    slices(workloads, 0)
    workloads.patch("Pod", "a", {"metadata": {"labels": {"app": "web"}}})
    slices(workloads, 1)


def test_service_without_selector(workloads: WorkloadHarness, node: str) -> None:
    service(workloads, selector=None)
    pod(workloads, "a", node, "10.0.0.1")
    workloads.create("Service", "other", {"selector": LABELS, "ports": [{"port": 80}]})
    eventually(lambda: workloads.items("EndpointSlice", "kubernetes.io/service-name=other"), what="slices of the other Service")
    assert workloads.items("EndpointSlice", "kubernetes.io/service-name=web") == []


def test_slices_are_deleted_with_their_service(workloads: WorkloadHarness) -> None:
    service(workloads)
    slices(workloads, 0)
    workloads.delete("Service", "web")
    eventually(lambda: not workloads.items("EndpointSlice"), what="slices are deleted")


def endpoints(workloads: WorkloadHarness, addresses: int, name: str = "web") -> Object:
    """Wait until the Endpoints object of the Service has this many addresses."""

    def find() -> Object | None:
        answer = workloads.api.get(workloads.path("Endpoints", name))
        if answer.status != 200:
            return None
        subsets = answer.json.get("subsets") or ()
        total = sum(len(subset.get(field) or ()) for subset in subsets for field in ("addresses", "notReadyAddresses"))
        return answer.json if total == addresses else None

    return eventually(find, what=f"{addresses} addresses")


def endpoints_picture(obj: Object) -> Object:
    annotations = dict(obj["metadata"].get("annotations") or {})
    annotations.pop("endpoints.kubernetes.io/last-change-trigger-time", None)
    return {"labels": obj["metadata"].get("labels"), "annotations": annotations, "subsets": obj.get("subsets")}


def test_endpoints_object(workloads: WorkloadHarness, node: str) -> None:
    ports = [
        {"name": "http", "port": 80, "targetPort": 8080},
        {"name": "grpc", "port": 90, "targetPort": 9090, "appProtocol": "kubernetes.io/h2c"},
        {"name": "dns", "port": 53, "protocol": "UDP"},
    ]
    service(workloads, ports=ports)
    workloads.check("endpoints", "object without pods", endpoints_picture(endpoints(workloads, 0)))
    pod(workloads, "b", node, "10.0.0.2", ready=False)
    pod(workloads, "a", node, "10.0.0.1")
    pod(workloads, "c", node, "10.0.0.3", ready=False)
    pod(workloads, "d", node)
    workloads.check("endpoints", "object", endpoints_picture(endpoints(workloads, 3)))
    workloads.phase("b", "Running", ready=True)
    eventually(lambda: len(endpoints(workloads, 3)["subsets"][0]["addresses"]) == 2, what="two ready addresses")
    # A pod that was not ready and fails does not enqueue the Service; the next change does.
    workloads.phase("c", "Failed", 1)
    workloads.delete("Pod", "a", gracePeriodSeconds=30)
    workloads.check("endpoints", "object after changes", endpoints_picture(endpoints(workloads, 1)))


def test_endpoints_of_headless_service(workloads: WorkloadHarness, node: str) -> None:
    service(workloads, clusterIP="None", publishNotReadyAddresses=True, ports=[])
    pod(workloads, "a", node, "10.0.0.1", ready=False, hostname="first", subdomain="web")
    pod(workloads, "b", node, "10.0.0.2", ready=False, hostname="second", subdomain="other")
    workloads.check("endpoints", "headless object", endpoints_picture(endpoints(workloads, 2)))


def test_endpoints_with_different_ports(workloads: WorkloadHarness, node: str) -> None:
    """Pods with different port numbers for one port name are in different subsets."""
    service(workloads, ports=[{"port": 80, "targetPort": "http"}])
    for number, port in enumerate((8080, 9090)):
        containers = [{"name": "main", "image": "example.com/app:1", "ports": [{"name": "http", "containerPort": port}]}]
        pod(workloads, f"p{number}", node, f"10.0.0.{number + 1}", containers=containers)
    seen = endpoints_picture(endpoints(workloads, 2))
    seen["subsets"].sort(key=str)
    workloads.check("endpoints", "object with two subsets", seen)


def test_endpoints_follow_their_service(workloads: WorkloadHarness, node: str) -> None:
    """Labels of the Service are copied; a deleted object is created again; it is deleted with its Service."""
    service(workloads)
    pod(workloads, "a", node, "10.0.0.1")
    created = endpoints(workloads, 1)
    workloads.patch("Service", "web", {"metadata": {"labels": {"tier": None, "release": "1"}}})
    eventually(lambda: "release" in endpoints(workloads, 1)["metadata"]["labels"], what="the labels of the Service")
    assert "tier" not in endpoints(workloads, 1)["metadata"]["labels"]
    workloads.delete("Endpoints", "web")
    assert endpoints(workloads, 1)["metadata"]["uid"] != created["metadata"]["uid"]
    workloads.delete("Service", "web")
    eventually(lambda: workloads.gone("Endpoints", "web"), what="Endpoints are deleted")


def test_endpoints_without_selector_are_kept(workloads: WorkloadHarness, node: str) -> None:
    service(workloads)
    pod(workloads, "a", node, "10.0.0.1")
    endpoints(workloads, 1)
    workloads.patch("Service", "web", {"spec": {"selector": None}})
    eventually(lambda: slices(workloads, 2), what="a mirrored slice beside the old one")
    endpoints(workloads, 1)


def write_endpoints(workloads: WorkloadHarness, subsets: list[Object], **metadata: Any) -> Object:
    body = {"metadata": {"name": "web", **metadata}, "subsets": subsets}
    result: Object = workloads.api.post(workloads.path("Endpoints"), body).ok(201).json
    return result


def test_mirrored_slices(workloads: WorkloadHarness) -> None:
    service(workloads, selector=None)
    subsets: list[Object] = [
        {
            "addresses": [{"ip": "192.0.2.1", "hostname": "db"}, {"ip": "2001:db8::1"}],
            "notReadyAddresses": [{"ip": "192.0.2.2", "nodeName": "n1"}],
            "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
        }
    ]
    last_applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept"}
    write_endpoints(workloads, subsets, labels={"tier": "back"}, annotations=last_applied)
    result = slices(workloads, 3)
    seen = sorted(picture(result), key=lambda item: item["addressType"])
    annotations = [item["metadata"].get("annotations") for item in result]
    workloads.check("endpoints", "mirrored", {"slices": seen, "annotations": annotations})
    subsets[0]["addresses"].pop()
    subsets[0]["notReadyAddresses"] = [{"ip": "192.0.2.3"}]
    workloads.patch("Endpoints", "web", {"metadata": {"labels": {"tier": "front"}}, "subsets": subsets})
    eventually(lambda: len(slices(workloads, 2)) == 1, what="one mirrored slice")
    workloads.check("endpoints", "mirrored after a change", picture(slices(workloads, 2)))


def test_mirroring_ends(workloads: WorkloadHarness) -> None:
    """Slices are deleted when a label excludes the Endpoints, when the Service gets a selector, and with the Endpoints."""
    service(workloads, selector=None)
    write_endpoints(workloads, [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}])
    slices(workloads, 1)
    skip = "endpointslice.kubernetes.io/skip-mirror"
    mirrored = "endpointslice.kubernetes.io/managed-by=endpointslicemirroring-controller.k8s.io"
    workloads.patch("Endpoints", "web", {"metadata": {"labels": {skip: "true"}}})
    eventually(lambda: not workloads.items("EndpointSlice", mirrored), what="no slices with the label")
    workloads.patch("Endpoints", "web", {"metadata": {"labels": {skip: None}}})
    slices(workloads, 1)
    workloads.patch("Service", "web", {"spec": {"selector": LABELS}})
    eventually(lambda: not workloads.items("EndpointSlice", mirrored), what="no mirrored slices beside a selector")
    workloads.patch("Service", "web", {"spec": {"selector": None}})
    workloads.patch("Endpoints", "web", {"subsets": [{"addresses": [{"ip": "192.0.2.9"}]}]})
    eventually(lambda: workloads.items("EndpointSlice", mirrored), what="a mirrored slice again")
    workloads.delete("Endpoints", "web")
    eventually(lambda: not workloads.items("EndpointSlice", mirrored), what="no slices without Endpoints")


def test_endpoints_are_deprecated(workloads: WorkloadHarness) -> None:
    (warning,) = workloads.api.get(workloads.path("Endpoints")).ok(200).warnings
    assert warning == '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
