"""EndpointSlices: which pods of a Service are listed, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.waiting import eventually
from tests.support.workloads import Lab, template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

CLUSTER = "hands"
Object = dict[str, Any]
LABELS = {"app": "web"}


@pytest.fixture
def lab(cluster: Cluster, ns: str) -> Lab:
    return Lab(cluster, ns)


@pytest.fixture
def node(lab: Lab, unique_name: str) -> Iterator[str]:
    labels = {"topology.kubernetes.io/zone": "zone-a"}
    path = f"/api/v1/nodes/{unique_name}"
    lab.api.post("/api/v1/nodes", {"metadata": {"name": unique_name, "labels": labels}}).ok(201)
    lab.words[unique_name] = "NODE"
    # The controllers know it when one of them takes the taint of new nodes away. Endpoints that come before have no zone.
    eventually(lambda: not lab.api.get(path).ok(200).json["spec"].get("taints"), what="a node that controllers know")
    yield unique_name
    lab.api.delete(path)


def service(lab: Lab, **spec: Any) -> Object:
    body = {"selector": LABELS, "ports": [{"name": "http", "port": 80, "targetPort": 8080}], **spec}
    return lab.create("Service", "web", body, labels={"tier": "front"})


def pod(lab: Lab, name: str, node: str, ip: str = "", *, ready: bool = True, **spec: Any) -> None:
    body = {"metadata": {"name": name, "labels": LABELS}, "spec": {**template(**spec)["spec"], "nodeName": node}}
    lab.api.post(lab.path("Pod"), body).ok(201)
    if ip:
        lab.phase(name, "Running", ready=ready, podIP=ip, podIPs=[{"ip": ip}])


def slices(lab: Lab, endpoints: int | None = None) -> list[Object]:
    """The slices of the Service, once they hold so many endpoints."""

    def look() -> list[Object] | None:
        found = lab.items("EndpointSlice", "kubernetes.io/service-name=web")
        total = sum(len(each["endpoints"] or ()) for each in found)
        return found if found and endpoints in (None, total) else None

    # A controller whose view of its own slices is old tries again later and later.
    return eventually(look, what=f"{endpoints} endpoints")


def picture(found: list[Object]) -> list[Object]:
    told = []
    for each in found:
        metadata = {key: each["metadata"].get(key) for key in ("generateName", "labels")}
        owners = [{key: ref[key] for key in ("kind", "name", "controller")} for ref in each["metadata"]["ownerReferences"]]
        endpoints = sorted(each["endpoints"] or [], key=lambda one: str(one["addresses"]))
        rest = {key: each.get(key) for key in ("addressType", "ports")}
        told.append({"metadata": metadata, "owners": owners, "endpoints": endpoints, **rest})
    return told


def test_no_pods(lab: Lab) -> None:
    service(lab)
    lab.check("endpoints", "no pods", picture(slices(lab, 0)))


def test_ready_and_not(lab: Lab, node: str) -> None:
    service(lab)
    pod(lab, "a", node, "10.0.0.1")
    pod(lab, "b", node, "10.0.0.2", ready=False)
    pod(lab, "c", node)
    slices(lab, 2)
    lab.check("endpoints", "ready and not", picture(slices(lab, 2)))


def test_becomes_ready(lab: Lab, node: str) -> None:
    service(lab)
    pod(lab, "a", node, "10.0.0.1", ready=False)
    (found,) = slices(lab, 1)
    assert found["endpoints"][0]["conditions"] == {"ready": False, "serving": False, "terminating": False}
    lab.phase("a", "Running", ready=True)
    eventually(lambda: slices(lab, 1)[0]["endpoints"][0]["conditions"]["ready"], what="ready")


def test_terminating(lab: Lab, node: str) -> None:
    service(lab)
    pod(lab, "a", node, "10.0.0.1")
    slices(lab, 1)
    lab.delete("Pod", "a", gracePeriodSeconds=30)
    wanted = {"ready": False, "serving": True, "terminating": True}
    eventually(lambda: slices(lab, 1)[0]["endpoints"][0]["conditions"] == wanted, what="terminating")
    lab.remove("a")
    lab.check("endpoints", "all gone", picture(slices(lab, 0)))


def test_ended_pods_are_left_out(lab: Lab, node: str) -> None:
    service(lab)
    pod(lab, "a", node, "10.0.0.1")
    pod(lab, "b", node, "10.0.0.2")
    slices(lab, 2)
    lab.phase("b", "Succeeded", 0)
    (found,) = slices(lab, 1)
    assert found["endpoints"][0]["addresses"] == ["10.0.0.1"]


def test_headless_with_hostnames(lab: Lab, node: str) -> None:
    service(lab, clusterIP="None", publishNotReadyAddresses=True, ports=[])
    pod(lab, "a", node, "10.0.0.1", ready=False, hostname="first", subdomain="web")
    pod(lab, "b", node, "10.0.0.2", ready=False, hostname="second", subdomain="other")
    slices(lab, 2)
    lab.check("endpoints", "headless", picture(slices(lab, 2)))


def test_ports_by_name(lab: Lab, node: str) -> None:
    """Pods that call different ports by one name are in different slices."""
    service(lab, ports=[{"port": 80, "targetPort": "http"}])
    for number, port in enumerate((8080, 9090)):
        ports = [{"name": "http", "containerPort": port}]
        containers = [{"name": "main", "image": "example.com/app:1", "ports": ports}]
        pod(lab, f"p{number}", node, f"10.0.0.{number + 1}", containers=containers)
    eventually(lambda: len(slices(lab, 2)) == 2, what="two slices")
    lab.check("endpoints", "ports by name", sorted(picture(slices(lab, 2)), key=lambda each: str(each["ports"])))


def test_a_hundred_to_a_slice(lab: Lab, node: str) -> None:
    for number in range(105):
        pod(lab, f"p{number}", node, f"10.0.1.{number + 1}")
    # All at once: a controller that adds them one by one trips over slices of its own that it has not heard of, and rests longer.
    lab.caught_up()
    service(lab)
    found = slices(lab, 105)
    assert all(len(each["endpoints"]) <= 100 for each in found)
    assert len(found) == 2


def test_other_selector(lab: Lab, node: str) -> None:
    service(lab)
    pod(lab, "a", node, "10.0.0.1")
    slices(lab, 1)
    lab.patch("Service", "web", {"spec": {"selector": {"app": "other"}}})
    slices(lab, 0)


def test_labels_of_the_pod_change(lab: Lab, node: str) -> None:
    service(lab)
    pod(lab, "a", node, "10.0.0.1")
    slices(lab, 1)
    lab.patch("Pod", "a", {"metadata": {"labels": {"app": "other"}}})
    slices(lab, 0)
    lab.patch("Pod", "a", {"metadata": {"labels": {"app": "web"}}})
    slices(lab, 1)


def test_without_a_selector(lab: Lab, node: str) -> None:
    service(lab, selector=None)
    pod(lab, "a", node, "10.0.0.1")
    lab.create("Service", "other", {"selector": LABELS, "ports": [{"port": 80}]})
    eventually(lambda: lab.items("EndpointSlice", "kubernetes.io/service-name=other"), what="slices of the other Service")
    assert lab.items("EndpointSlice", "kubernetes.io/service-name=web") == []


def test_slices_go_with_their_service(lab: Lab) -> None:
    service(lab)
    slices(lab, 0)
    lab.delete("Service", "web")
    eventually(lambda: not lab.items("EndpointSlice"), what="slices are gone")
