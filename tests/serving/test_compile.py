"""ModelServices compiled to objects: golden files, and invariants.

`SLICEWORKS_RECORD=1` rewrites the golden files and fails the run once, so that a person reviews the diff.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.model_services import EXAMPLES, changed, example, service

from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.serving import gateway_objects, validation
from sliceworks.serving.compiler import manifests, plan
from sliceworks.specs.gateway import Gateway

GOLDENS = Path(__file__).parent / "goldens"
Object = dict[str, Any]


def pods(objects: list[Object]) -> list[Object]:
    return [obj["spec"]["template"]["spec"] for obj in objects if obj["kind"] in ("Deployment", "StatefulSet", "Job")]


def one(objects: list[Object], kind: str, name: str) -> Object:
    [result] = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == (kind, name)]
    return result


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden(name: str) -> None:
    path, created = GOLDENS / f"{name}.yaml", yaml_documents.dump_all(manifests(example(name)))
    if os.environ.get("SLICEWORKS_RECORD"):
        before = path.read_text() if path.exists() else ""
        path.write_text(created)
        assert before == created, f"{path.name} was rewritten: read the difference"
    assert path.read_text() == created


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_valid(name: str) -> None:
    assert validation.validate(example(name)) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_pods_are_restricted(name: str) -> None:
    for pod in pods(manifests(example(name))):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] >= 1000
        assert "hostNetwork" not in pod
        for container in pod["containers"]:
            secured = container["securityContext"]
            assert secured["allowPrivilegeEscalation"] is False
            assert secured["capabilities"] == {"drop": ["ALL"]}
            assert secured["readOnlyRootFilesystem"] is True or container["name"] == "load"
            resources = container["resources"]
            assert {"cpu", "memory"} <= set(resources["requests"])
            assert resources["limits"]["memory"] == resources["requests"]["memory"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_servers_have_budgets_and_drain(name: str) -> None:
    created = manifests(example(name))
    guarded = [item["spec"]["podSelector"]["matchLabels"] for item in created if item["kind"] == "NetworkPolicy"]
    kept = [item["spec"]["selector"]["matchLabels"] for item in created if item["kind"] == "PodDisruptionBudget"]
    servers = [item for item in created if item["metadata"]["labels"].get("app.kubernetes.io/component") == "server"]
    workloads = [server for server in servers if server["kind"] in ("Deployment", "StatefulSet")]
    assert workloads
    for workload in workloads:
        template = workload["spec"]["template"]
        labels = template["metadata"]["labels"].items()
        assert any(result.items() <= labels for result in guarded)
        assert any(result.items() <= labels for result in kept)
        container = template["spec"]["containers"][0]
        assert container["lifecycle"]["preStop"]["sleep"]["seconds"] < template["spec"]["terminationGracePeriodSeconds"]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_load_balancer_with_routes(name: str) -> None:
    for obj in manifests(example(name)):
        assert obj["kind"] != "Ingress"
        assert obj["kind"] != "Service" or "type" not in obj["spec"]


@pytest.mark.parametrize("name", [item for item in EXAMPLES if example(item).spec.gateway])
def test_gateway_document_is_valid(name: str) -> None:
    configuration = one(manifests(example(name)), "ConfigMap", example(name).spec.gateway.name)  # type: ignore[union-attr]
    [document] = yaml_documents.load_all(configuration["data"]["gateway.yaml"], "gateway.yaml")
    read = Gateway.model_validate(document.data)
    assert [model.name for model in read.spec.models] == [model.name for model in example(name).spec.models]


def test_chips_and_topology_match_the_catalog() -> None:
    server = one(manifests(example("llama2-7b-saxml")), "Deployment", "llama2-7b")["spec"]["template"]["spec"]
    [container] = server["containers"]
    assert {"--platform_chip=tpuv5e", "--platform_topology=2x2", "--sax_cell=/sax/test"} <= set(container["args"])
    assert container["resources"]["limits"]["google.com/tpu"] == "4"
    assert server["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == "2x2"
    assert [toleration["key"] for toleration in server["tolerations"]] == ["google.com/tpu"]


def test_multi_host_slice_is_an_exclusive_stateful_set() -> None:
    created = manifests(example("llama2-70b-saxml"))
    for number in range(2):
        result = one(created, "StatefulSet", f"llama2-70b-{number}")["spec"]
        assert (result["replicas"], result["podManagementPolicy"]) == (4, "Parallel")
        pod = result["template"]["spec"]
        env = {variable["name"]: variable.get("value") for variable in pod["containers"][0]["env"]}
        assert env["TPU_WORKER_HOSTNAMES"] == ",".join(f"$(SLICE_NAME)-{host}.llama2-70b-hosts" for host in range(4))
        [near] = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert near["topologyKey"] == "cloud.google.com/gke-nodepool"
        assert near["labelSelector"]["matchExpressions"][0]["values"] == [f"llama2-70b-{number}"]
    assert one(created, "Service", "llama2-70b")["spec"]["selector"]["apps.kubernetes.io/pod-index"] == "0"


def test_converter_fails_with_any_step() -> None:
    created = manifests(example("llama2-7b-saxml"))
    [job] = [item for item in created if item["metadata"]["labels"].get("app.kubernetes.io/component") == "converter"]
    script = job["spec"]["template"]["spec"]["containers"][0]["command"][2]
    assert script.startswith("set -euo pipefail\n")
    assert "||" not in script.replace('|| { echo "the converter wrote nothing" >&2; exit 1; }', "")
    assert script.index("rsync --recursive .") < script.index("commit_success.txt")


def test_changed_job_has_a_new_name() -> None:
    def jobs(text: str) -> set[str]:
        changes = changed("gemma-jetstream", "7b-it/2", text)
        return {obj["metadata"]["name"] for obj in manifests(changes) if obj["kind"] == "Job"}

    assert jobs("7b-it/2") == jobs("7b-it/2")
    assert jobs("7b-it/2") != jobs("7b-it/3")


def test_autoscaled_workload_has_no_replicas() -> None:
    created = manifests(example("densenet-triton"))
    assert "replicas" not in one(created, "Deployment", "densenet")["spec"]
    [metric] = one(created, "HorizontalPodAutoscaler", "densenet")["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == "prometheus.googleapis.com|nv_inference_pending_request_count|gauge"
    plain = manifests(changed("densenet-triton", "{min: 1, max: 3}", "{min: 1, max: 3, source: prometheus}"))
    [metric] = one(plain, "HorizontalPodAutoscaler", "densenet")["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == "nv_inference_pending_request_count"
    rate = "prometheus.googleapis.com|nv_inference_count|counter"
    whole = manifests(changed("densenet-triton", "{min: 1, max: 3}", f"{{min: 1, max: 3, metric: '{rate}'}}"))
    [metric] = one(whole, "HorizontalPodAutoscaler", "densenet")["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == rate


def test_network_policy_allows_the_route() -> None:
    mesh, *_ = one(manifests(example("densenet-triton-mesh")), "NetworkPolicy", "densenet-mesh")["spec"]["ingress"]
    assert {"namespaceSelector": {}, "podSelector": {"matchLabels": {"istio": "internal-ingressgateway"}}} in mesh["from"]
    balanced = manifests(changed("densenet-triton-mesh", "via: istio", "via: gateway-api"))
    _, anybody, _ = one(balanced, "NetworkPolicy", "densenet-mesh")["spec"]["ingress"]
    assert anybody == {"ports": [{"port": "http", "protocol": "TCP"}, {"port": "grpc", "protocol": "TCP"}]}


def test_rolling_update_surges_only_with_spare_machines() -> None:
    for name, document in (
        ("none", example("qwen-vllm-gpu")),
        ("one", changed("qwen-vllm-gpu", "spec:\n", "spec:\n  surge: true\n")),
    ):
        result = one(manifests(document), "Deployment", "qwen")["spec"]
        expected = {"none": {"maxUnavailable": 1, "maxSurge": 0}, "one": {"maxUnavailable": 0, "maxSurge": 1}}[name]
        assert result["strategy"]["rollingUpdate"] == expected
        assert result["progressDeadlineSeconds"] > document.spec.startup_timeout


def test_canary_weight() -> None:
    created = manifests(example("densenet-triton-mesh"))
    *_, rule = one(created, "VirtualService", "densenet-mesh")["spec"]["http"]
    assert {item["destination"]["host"]: item["weight"] for item in rule["route"]} == {
        "densenet-mesh-stable": 90,
        "densenet-mesh-canary": 10,
    }
    front_text = "canary: {weight: 25}\n  gateway: {image: 'g:1'}\n  route:"
    behind = changed(
        "densenet-triton-mesh", "canary:\n    weight: 10\n    image: nvcr.io/nvidia/tritonserver:25.09-py3\n  route:", front_text
    )
    [model] = gateway_objects.gateway_document([behind])["spec"]["models"]
    assert [item["weight"] for item in model["backends"]] == [75.0, 25.0]
    assert (
        one(manifests(behind), "VirtualService", "densenet-mesh")["spec"]["http"][0]["route"][0]["destination"]["host"] == "gateway"
    )


def test_services_of_a_namespace_share_a_gateway() -> None:
    names = ("llama2-7b-saxml", "llama2-13b-saxml", "llama2-70b-saxml")
    services = [example(name) for name in names]
    result = gateway_objects.gateway_document(services)["spec"]["models"]
    assert [item["name"] for item in result] == ["llama2-7b", "llama2-13b", "llama2-70b"]
    assert result[2]["backends"] == [{"kind": "sax", "url": "/sax/llama70b/llama2-70b"}]
    elsewhere = changed("llama2-13b-saxml", "adminBucket: my-project-saxml-admin", "adminBucket: other-bucket")
    with pytest.raises(InvalidDocument, match="different Sax roots"):
        gateway_objects.manifests([services[0], elsewhere])


def test_gateway_drain_covers_the_longest_timeout() -> None:
    services = [changed("qwen-vllm-gpu", "spec:\n", "spec:\n  drainTimeout: 300s\n"), example("llama3-vllm-tpu")]
    created = gateway_objects.manifests(services)
    assert (
        yaml_documents.load_all(one(created, "ConfigMap", "gateway")["data"]["gateway.yaml"], "gateway.yaml")[0].data["spec"][
            "drainTimeout"
        ]
        == "300s"
    )
    assert one(created, "Deployment", "gateway")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > 300 + 5


def test_shared_gateway_merges_keys_callers_and_routes() -> None:
    first = changed("qwen-vllm-gpu", "name: public-gateway", "allowFrom: [web]")
    last = example("llama3-vllm-tpu")
    created = gateway_objects.manifests([first, last])
    document = gateway_objects.gateway_document([first, last])["spec"]
    assert [item["name"] for item in document["keys"]] == ["website", "team-a"]
    volumes = one(created, "Deployment", "gateway")["spec"]["template"]["spec"]["volumes"]
    assert {"secret-gateway-keys", "secret-gateway-admin"} <= {volume["name"] for volume in volumes}
    assert "from" not in one(created, "NetworkPolicy", "gateway")["spec"]["ingress"][0]  # the route of the first one leads to it
    alone = one(gateway_objects.manifests([last]), "NetworkPolicy", "gateway")["spec"]["ingress"][0]
    assert alone["from"][0] == {"podSelector": {}}


def test_grpc_route() -> None:
    mesh, by_api = example("densenet-triton-mesh"), changed("densenet-triton-mesh", "via: istio", "via: gateway-api")
    grpc, http = one(manifests(mesh), "VirtualService", "densenet-mesh")["spec"]["http"]
    assert {"uri": {"exact": "/inference.GRPCInferenceService/ModelInfer"}} in grpc["match"]
    ports = [[item["destination"]["port"]["number"] for item in rule["route"]] for rule in (grpc, http)]
    assert ports == [[8001, 8001], [8000, 8000]]
    first, second = one(manifests(by_api), "HTTPRoute", "densenet-mesh")["spec"]["rules"]
    assert {"path": {"type": "Exact", "value": "/inference.GRPCInferenceService/ModelInfer"}} in first["matches"]
    assert [[item["port"] for item in rule["backendRefs"]] for rule in (first, second)] == [[8001, 8001], [8000, 8000]]


def test_triton_route_excludes_management_paths() -> None:
    created = manifests(example("densenet-triton-mesh"))
    rules = one(created, "VirtualService", "densenet-mesh")["spec"]["http"]
    let_in = [next(iter(match["uri"].values())) for rule in rules for match in rule["match"]]
    changing = ("/v2/repository/models/a/unload", "/v2/logging", "/inference.GRPCInferenceService/RepositoryModelUnload")
    assert not [path for path in changing if any(path.startswith(item) for item in let_in if item != "/v2")]
    behind = changed("densenet-triton-mesh", "  route:", "  gateway: {image: 'g:1'}\n  route:")
    _, all_else = one(manifests(behind), "VirtualService", "densenet-mesh")["spec"]["http"]
    assert "match" not in all_else  # the gateway authenticates itself


def test_outlier_detection_never_ejects_the_only_backend() -> None:
    created = manifests(example("densenet-triton-mesh"))
    policy = one(created, "DestinationRule", "densenet-mesh-stable")["spec"]["trafficPolicy"]["outlierDetection"]
    assert (policy["consecutive5xxErrors"], policy["maxEjectionPercent"], policy["minHealthPercent"]) == (5, 50, 50)
    behind = changed("densenet-triton-mesh", "  route:", "  gateway: {image: 'g:1'}\n  route:")
    gateway = one(manifests(behind), "DestinationRule", "gateway")["spec"]["trafficPolicy"]["outlierDetection"]
    assert (gateway["consecutive5xxErrors"], gateway["consecutiveLocalOriginFailures"]) == (0, 5)


def test_load_balancer_timeouts_and_visibility() -> None:
    created = manifests(changed("qwen-vllm-gpu", "    keys:", "    timeouts: {total: 900}\n    keys:"))
    patience = one(created, "GCPBackendPolicy", "public-gateway")["spec"]["default"]
    assert patience == {"timeoutSec": 910, "connectionDraining": {"drainingTimeoutSec": 60}}
    of_istio = manifests(changed("densenet-triton-mesh", "via: istio", "via: gateway-api\n    class: istio"))
    annotations = one(of_istio, "Gateway", "densenet-mesh")["spec"]["infrastructure"]["annotations"]
    assert annotations == {"networking.gke.io/load-balancer-type": "Internal"}
    assert not [item for item in of_istio if item["apiVersion"].startswith("networking.gke.io")]


def test_document_takes_precedence_over_defaults() -> None:
    text = "vllm: {model: {name: a, source: a/b}}, accelerator: {type: l4-1}, env: {HF_HOME: /data}, args: [--port=9000]"
    [container] = one(manifests(service("vllm", text)), "Deployment", "served")["spec"]["template"]["spec"]["containers"]
    assert [variable["value"] for variable in container["env"] if variable["name"] == "HF_HOME"] == ["/data"]
    assert container["args"][-1] == "--port=9000"


def test_a_plan_has_a_price() -> None:
    result = plan(example("llama2-70b-saxml"))
    assert (result.summary, str(result.price)) == ("2 × v5litepod-16", "38.40")
    assert plan(example("densenet-triton")).summary == "1–3 × t4-1"
    cpu = plan(service("triton", "triton: {repository: /models, models: [{name: a}]}"))
    assert (cpu.summary, cpu.price) == ("1 × CPU", None)


def test_cell_with_an_address_has_no_admin_server_and_publishes_with_its_own_tool() -> None:
    models = "models: [{name: llama, class: LLaMA7BFP16TPUv5e, checkpoint: None}]"
    cell = f"saxml: {{adminBucket: unused, root: 'grpc://served:10001', utilCommand: [my, saxutil], shell: false, {models}}}"
    objects = manifests(service("saxml", f"accelerator: {{type: v5litepod-4}}, command: [cell], {cell}"))
    assert not [obj for obj in objects if obj["metadata"]["name"] == "served-admin"]
    [job] = [obj for obj in objects if obj["kind"] == "Job"]
    assert "my saxutil publish /sax/test/llama" in job["spec"]["template"]["spec"]["containers"][0]["command"][-1]
    assert "sliceworks.dev/runtime" not in job["spec"]["template"]["metadata"]["annotations"], "runs as a process on a twin"
    with pytest.raises(InvalidDocument, match="or the address grpc://HOST:PORT of an admin server, got 'file:///x'"):
        service("saxml", f"accelerator: {{type: v5litepod-4}}, {cell.replace('grpc://served:10001', 'file:///x')}")
