"""Services: node ports, and what a change of the type releases. ServiceCIDRs and IPAddresses."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Answer, Api

CIDRS, ADDRESSES = "/apis/networking.k8s.io/v1/servicecidrs", "/apis/networking.k8s.io/v1/ipaddresses"
RANGE = "provided port is not in the valid range. The range of valid ports is 30000-32767"
HEADLESS: dict[str, Any] = {"clusterIP": "None"}
TWO = {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7", "fd00::1"]}
FAMILIES: dict[str, dict[str, Any]] = {
    "another family": {"ipFamilies": ["IPv6"]},
    "two families": {"ipFamilies": ["IPv4", "IPv6"]},
    "two preferred families": {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"},
    "two required families": {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"},
    "required": {"ipFamilyPolicy": "RequireDualStack"},
    "preferred": {"ipFamilyPolicy": "PreferDualStack"},
    "address of another family": {"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]},
    "address and its family": {"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"], "ipFamilies": ["IPv6"]},
    "family of another address": {"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7"], "ipFamilies": ["IPv6"]},
    "two addresses": TWO,
    "two required addresses": {**TWO, "ipFamilyPolicy": "RequireDualStack"},
    "two addresses and families": {**TWO, "ipFamilies": ["IPv4", "IPv6"]},
    "headless": HEADLESS,
    "headless with a policy": {**HEADLESS, "ipFamilyPolicy": "SingleStack"},
    "headless of another family": {**HEADLESS, "ipFamilies": ["IPv6"]},
    "headless with pods": {**HEADLESS, "selector": {"app": "a"}},
    "headless with pods, preferred": {**HEADLESS, "selector": {"app": "a"}, "ipFamilyPolicy": "PreferDualStack"},
    "headless with pods of another family": {**HEADLESS, "selector": {"app": "a"}, "ipFamilies": ["IPv6"]},
    "external": {"type": "ExternalName", "externalName": "a.example.com"},
}
CHANGES: list[dict[str, Any]] = [
    {"ipFamilyPolicy": "RequireDualStack"},
    {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]},
    {"ipFamilyPolicy": "PreferDualStack"},
]


def test_network_of_cluster_ips_is_a_service_cidr(api: Api) -> None:
    network = api.get(f"{CIDRS}/kubernetes").ok().json
    address = api.get("/api/v1/namespaces/default/services/kubernetes").ok().json["spec"]["clusterIP"]
    assert ip_address(address) in ip_network(network["spec"]["cidrs"][0])


def service(name: str = "s", **spec: Any) -> dict[str, Any]:
    """A Service with one port."""
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def node_ports(answer: dict[str, Any]) -> list[int]:
    """The node ports of a Service."""
    return [port["nodePort"] for port in answer["spec"]["ports"]]


@pytest.mark.parametrize("case", FAMILIES)
def test_families_of_a_cluster_with_one(cluster: Cluster, api: Api, core: str, case: str) -> None:
    def summary(answer: Answer) -> Any:
        if answer.status >= 400:
            return answer.refusal
        spec = answer.json["spec"]
        return [spec.get("ipFamilies"), spec.get("ipFamilyPolicy"), spec.get("clusterIPs")]

    answers = [created := api.post(f"{core}/services", service(**FAMILIES[case]))]
    if created.status == 201:
        answers += [api.patch(f"{core}/services/s", {"spec": change}) for change in CHANGES]
    goldens.check("test_services", case, list(map(summary, answers)), real=cluster.name == "real")


def test_node_port_of_another_service_is_rejected(api: Api, core: str) -> None:
    [number] = node_ports(api.post(f"{core}/services", service(type="NodePort")).ok(201).json)
    other = service("other", type="NodePort", ports=[{"port": 80, "nodePort": number}])
    answer = api.post(f"{core}/services", other).refused(422, "Invalid")
    message = f"Invalid value: {number}: provided port is already allocated"
    assert answer.causes == [("FieldValueInvalid", "spec.ports[0].nodePort", message)]
    api.delete(f"{core}/services/s").ok(200)
    assert node_ports(api.post(f"{core}/services", other).ok(201).json) == [number]


def test_node_port_of_another_port_is_rejected(api: Api, core: str) -> None:
    [number] = node_ports(api.post(f"{core}/services", service(type="NodePort")).ok(201).json)
    api.delete(f"{core}/services/s").ok(200)
    ports = [{"name": "a", "port": 80, "nodePort": number}, {"name": "b", "port": 81, "protocol": "UDP", "nodePort": number}]
    answer = api.post(f"{core}/services", service(type="NodePort", ports=ports)).refused(422, "Invalid")
    assert [field for _, field, _ in answer.causes] == ["spec.ports[1].nodePort"]
    ports[1]["port"] = 80
    api.post(f"{core}/services", service(type="NodePort", ports=ports)).ok(201)


def test_node_port_out_of_range_is_rejected(api: Api, core: str) -> None:
    answer = api.post(f"{core}/services", service(type="NodePort", ports=[{"port": 80, "nodePort": 80}])).refused(422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "spec.ports[0].nodePort", f"Invalid value: 80: {RANGE}")]
    api.post(f"{core}/services", service(type="NodePort")).ok(201)
    answer = api.patch(f"{core}/services/s", {"spec": {"ports": [{"port": 80, "nodePort": 29}]}}).refused(422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "spec.ports[0].nodePort", f"Invalid value: 29: {RANGE}")]


def test_ports_that_differ_in_protocol_share_a_node_port(api: Api, core: str) -> None:
    ports = [{"name": "tcp", "port": 80}, {"name": "udp", "port": 80, "protocol": "UDP"}]
    created = api.post(f"{core}/services", service(type="NodePort", ports=ports)).ok(201).json
    assert len(set(node_ports(created))) == 1


def test_node_port_is_kept_by_the_name_of_its_port(api: Api, core: str) -> None:
    created = api.post(f"{core}/services", service(type="NodePort")).ok(201).json
    changed = api.patch(f"{core}/services/s", {"spec": {"ports": [{"port": 81, "protocol": "TCP"}]}}).ok(200).json
    assert node_ports(changed) == node_ports(created)


def test_change_to_cluster_ip_releases_node_ports(api: Api, core: str) -> None:
    created = api.post(f"{core}/services", service(type="NodePort")).ok(201).json
    changed = api.patch(f"{core}/services/s", {"spec": {"type": "ClusterIP"}}).ok(200).json
    assert changed["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert "externalTrafficPolicy" not in changed["spec"]
    ports = [{"port": 80, "nodePort": node_ports(created)[0]}]
    api.post(f"{core}/services", service("other", type="NodePort", ports=ports)).ok(201)


def test_health_check_node_port_is_allocated_and_released(api: Api, core: str) -> None:
    balancer = service(type="LoadBalancer", externalTrafficPolicy="Local")
    created = api.post(f"{core}/services", balancer).ok(201).json["spec"]
    number = created["healthCheckNodePort"]
    assert 30000 <= number <= 32767
    other = service("other", type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=number)
    answer = api.post(f"{core}/services", other)
    assert answer.status == 500
    assert answer.message == (
        f"Internal error occurred: failed to allocate requested HealthCheck NodePort {number}: provided port is already allocated"
    )
    changed = api.patch(f"{core}/services/s", {"spec": {"type": "NodePort"}}).ok(200).json["spec"]
    assert changed["ports"] == created["ports"]
    assert not {"healthCheckNodePort", "allocateLoadBalancerNodePorts"} & changed.keys()


@pytest.mark.parametrize(
    ("cidrs", "message"),
    [
        ([], "spec.cidrs: Required value: at least one CIDR required"),
        (["10.99.0.0"], 'spec.cidrs[0]: Invalid value: "10.99.0.0": must be a valid CIDR value'),
        (["10.99.0.0/16", "10.98.0.0/16"], "may specify no more than one IP for each IP family"),
    ],
)
def test_invalid_service_cidr_is_rejected(api: Api, ns: str, cidrs: list[str], message: str) -> None:
    answer = api.post(CIDRS, {"metadata": {"name": ns}, "spec": {"cidrs": cidrs}}).refused(422, "Invalid")
    assert message in answer.message


def test_service_cidr_is_immutable_but_can_become_dual_stack(api: Api, ns: str) -> None:
    api.post(CIDRS, {"metadata": {"name": ns}, "spec": {"cidrs": ["10.99.0.0/24"]}}).ok(201)
    answer = api.patch(f"{CIDRS}/{ns}", {"spec": {"cidrs": ["10.98.0.0/24"]}}).refused(422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "spec.cidrs[0]", 'Invalid value: "10.98.0.0/24": field is immutable')]
    api.patch(f"{CIDRS}/{ns}", {"spec": {"cidrs": ["10.99.0.0/24", "fd00::/112"]}}).ok(200)
    api.delete(f"{CIDRS}/{ns}").ok(200)


def test_invalid_ip_address_is_rejected(api: Api) -> None:
    parent = {"resource": "a/b", "name": "", "namespace": ".."}
    answer = api.post(ADDRESSES, {"metadata": {"name": "10.96.77.1"}, "spec": {"parentRef": parent}}).refused(422, "Invalid")
    assert [(reason, field) for reason, field, _ in answer.causes] == [
        ("FieldValueInvalid", "spec.parentRef.resource"),
        ("FieldValueRequired", "spec.parentRef.name"),
        ("FieldValueInvalid", "spec.parentRef.namespace"),
    ]
    answer = api.post(ADDRESSES, {"metadata": {"name": "x"}, "spec": {"parentRef": {"resource": "services", "name": "s"}}})
    assert [field for _, field, _ in answer.refused(422, "Invalid").causes] == ["metadata.name"]


def test_invalid_storage_capacity_is_rejected(api: Api, ns: str) -> None:
    path = f"/apis/storage.k8s.io/v1/namespaces/{ns}/csistoragecapacities"
    answer = api.post(path, {"metadata": {"name": "c"}, "storageClassName": "A", "capacity": "-1"}).refused(422, "Invalid")
    assert [field for _, field, _ in answer.causes] == ["storageClassName", "capacity"]
    api.post(path, {"metadata": {"name": "c"}, "storageClassName": "a"}).ok(201)
    answer = api.patch(f"{path}/c", {"storageClassName": "b"}).refused(422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "storageClassName", 'Invalid value: "b": field is immutable')]
