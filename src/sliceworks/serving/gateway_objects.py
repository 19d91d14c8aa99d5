"""The Gateway document of one or more model services, and the objects that run the gateway. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.kube.pod_placement import KONNECTIVITY_AGENTS, node_pool_scheduling
from sliceworks.serving import jetstream, objects, pod_spec, saxml, triton, vllm, workload
from sliceworks.serving.hardware import cpu_resources
from sliceworks.serving.objects import COLLECTORS, COMPONENT_LABEL, GATEWAY_LABEL, MANAGED_BY, disruption_budget_spec, service_ports
from sliceworks.specs.common import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from sliceworks.specs.model_service import Model, ModelService, ServiceGateway
    from sliceworks.specs.model_service.components import SecretKeyRef, ServiceGatewayKey

Object = dict[str, Any]
ENGINES: dict[str, ModuleType] = {"saxml": saxml, "triton": triton, "jetstream": jetstream, "vllm": vllm}
PORTS = {"http": 8080, "admin": 8081}
GRPC_PORT = 8001
CONFIG_PATH, TLS_PATH, SECRETS_PATH = "/etc/gateway", "/etc/gateway-tls", "/etc/gateway-secrets"
_TARGET_CPU_PERCENT = 70
_PRE_STOP_SECONDS = 5  # A terminating gateway still gets requests until all clients know that it terminates.
_EXIT_SECONDS = 5
_SHARED_SETTINGS = ("limits", "timeouts", "retries", "loadBalancing", "healthCheck", "tracing", "accessLog")


def secret_path(token: SecretKeyRef) -> str:
    """Path of a mounted key."""
    return f"{SECRETS_PATH}/{token.secret}/{token.key}"


class GatewayRequirements(NamedTuple):
    """What the services behind a gateway require of it."""

    sax_root: str = ""
    grpc: bool = False
    load_balanced: bool = False
    ingress_peers: tuple[Object, ...] = ()
    drain_timeout: int = 60


def render_objects(
    service: ModelService, gateway: ServiceGateway, document: str, requirements: GatewayRequirements
) -> list[Object]:
    """The objects of a gateway, in apply order."""
    builder, name = _ObjectBuilder(service, gateway), gateway.name
    ports = {**PORTS, **({"grpc": GRPC_PORT} if requirements.grpc else {})}
    return [
        *builder.service_account(),
        builder.object("v1", "ConfigMap", name, data={"gateway.yaml": document}),
        builder.object("v1", "Service", name, spec=builder.service(ports)),
        builder.object("networking.k8s.io/v1", "NetworkPolicy", name, spec=builder.network_policy(ports, requirements)),
        builder.object("apps/v1", "Deployment", name, spec=builder.deployment(ports, requirements)),
        builder.object("policy/v1", "PodDisruptionBudget", name, spec=disruption_budget_spec(builder.selector()["matchLabels"])),
        builder.object("autoscaling/v2", "HorizontalPodAutoscaler", name, spec=builder.autoscaler()),
        *builder.monitoring(),
    ]


class _ObjectBuilder:
    """Builds the objects of one gateway. `owner` is the service that configures it."""

    def __init__(self, owner: ModelService, gateway: ServiceGateway) -> None:
        self.owner, self.gateway = owner, gateway
        self.labels = {"app.kubernetes.io/name": gateway.name, **self.selector()["matchLabels"], **MANAGED_BY}
        self.identity = gateway.identity or (owner.spec.identity if owner.spec.saxml else None)
        self.account_name = self.identity.service_account if self.identity else gateway.name

    def object(self, api_version: str, kind: str, name: str, annotations: Object | None = None, **content: Any) -> Object:
        namespace = {"namespace": self.owner.metadata.namespace} if self.owner.metadata.namespace else {}
        metadata = {"name": name, **namespace, "labels": dict(self.labels), **({"annotations": annotations} if annotations else {})}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}

    def selector(self) -> Object:
        return {"matchLabels": {GATEWAY_LABEL: self.gateway.name, COMPONENT_LABEL: "gateway"}}

    def service_account(self) -> list[Object]:
        """The service account, and its permission to discover backends."""
        name, accounts = self.gateway.name, []
        google = self.identity.google_service_account if self.identity else ""
        if self.identity is None or (google and self.gateway.identity):
            annotations = {"iam.gke.io/gcp-service-account": google} if google else None
            accounts.append(self.object("v1", "ServiceAccount", self.account_name, annotations))
        rules = [{"apiGroups": [""], "resources": ["services", "pods"], "verbs": ["get", "list", "watch"]}]
        rbac = "rbac.authorization.k8s.io"
        subject = {"kind": "ServiceAccount", "name": self.account_name}
        if self.owner.metadata.namespace:
            subject["namespace"] = self.owner.metadata.namespace
        role = {"apiGroup": rbac, "kind": "Role", "name": name}
        return [
            *accounts,
            self.object(f"{rbac}/v1", "Role", name, rules=rules),
            self.object(f"{rbac}/v1", "RoleBinding", name, roleRef=role, subjects=[subject]),
        ]

    def service(self, ports: dict[str, int]) -> Object:
        return {"selector": self.selector()["matchLabels"], "ports": service_ports(ports)}

    def network_policy(self, ports: dict[str, int], requirements: GatewayRequirements) -> Object:
        """Admits its own and the allowed namespaces and Istio's gateway; with external load balancers, any source."""
        own: Object = {"podSelector": {}}
        allowed = [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}} for name in self.gateway.allow_from
        ]
        open_ports = [{"port": name, "protocol": "TCP"} for name in ports if name != "admin"]
        requests: Object = {"ports": open_ports}
        if not requirements.load_balanced:
            requests["from"] = [own, *allowed, *requirements.ingress_peers, KONNECTIVITY_AGENTS]
        admin = {"ports": [{"port": "admin", "protocol": "TCP"}], "from": [own, COLLECTORS, KONNECTIVITY_AGENTS]}
        return {"podSelector": self.selector(), "policyTypes": ["Ingress"], "ingress": [requests, admin]}

    def deployment(self, ports: dict[str, int], requirements: GatewayRequirements) -> Object:
        """A Deployment without replicas, which the autoscaler sets."""
        probe = {"periodSeconds": 5, "timeoutSeconds": 3}
        env: list[Object] = [{"name": "POD_IP", **pod_spec.field_ref("status.podIP")}]
        container = pod_spec.container(
            "gateway",
            self.gateway.image,
            cpu_resources(self.gateway.cpu, self.gateway.memory),
            command=["sliceworks", "gateway", "run", "-f", f"{CONFIG_PATH}/gateway.yaml", "--host", "0.0.0.0"],
            env=[*env, *([{"name": "SAX_ROOT", "value": requirements.sax_root}] if requirements.sax_root else [])],
            ports=ports,
            mounts=self._mounts(),
            readinessProbe={"httpGet": {"path": "/readyz", "port": "admin"}, **probe},
            livenessProbe={"httpGet": {"path": "/healthz", "port": "admin"}, **probe, "failureThreshold": 6},
            lifecycle={"preStop": {"sleep": {"seconds": _PRE_STOP_SECONDS}}},
        )
        spread = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": self.selector(),
        }
        pod = pod_spec.build(
            self.owner.spec,
            [container],
            node_pool_scheduling(self.gateway.pool),
            volumes=self._volumes(),
            account=self.account_name,
            terminationGracePeriodSeconds=_PRE_STOP_SECONDS + requirements.drain_timeout + _EXIT_SECONDS,
            topologySpreadConstraints=[spread],
        )
        return {
            "selector": self.selector(),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {"metadata": {"labels": dict(self.labels)}, "spec": pod},
        }

    def _secrets(self) -> list[str]:
        names = {key.secret.secret for key in self.gateway.keys if key.secret}
        return sorted(names | ({self.gateway.admin_key.secret} if self.gateway.admin_key else set()))

    def _volumes(self) -> list[Object]:
        volumes: list[Object] = [{"name": "configuration", "configMap": {"name": self.gateway.name}}]
        volumes += [{"name": f"secret-{name}", "secret": {"secretName": name}} for name in self._secrets()]
        return volumes + ([{"name": "certificate", "secret": {"secretName": self.gateway.tls}}] if self.gateway.tls else [])

    def _mounts(self) -> list[Object]:
        mounts: list[Object] = [{"name": "configuration", "mountPath": CONFIG_PATH, "readOnly": True}]
        mounts += [{"name": f"secret-{name}", "mountPath": f"{SECRETS_PATH}/{name}", "readOnly": True} for name in self._secrets()]
        return mounts + ([{"name": "certificate", "mountPath": TLS_PATH, "readOnly": True}] if self.gateway.tls else [])

    def autoscaler(self) -> Object:
        target = {"type": "Utilization", "averageUtilization": _TARGET_CPU_PERCENT}
        return {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.gateway.name},
            "minReplicas": self.gateway.replicas,
            "maxReplicas": self.gateway.max_replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        }

    def monitoring(self) -> list[Object]:
        monitoring = self.owner.spec.monitoring
        if monitoring is None:
            return []
        endpoints = [{"port": "admin", "path": "/metrics", "interval": monitoring.interval}]
        spec = {"selector": self.selector(), "endpoints": endpoints}
        return [self.object("monitoring.googleapis.com/v1", "PodMonitoring", self.gateway.name, spec=spec)]


def manifests(services: Sequence[ModelService]) -> list[Object]:
    """The objects of the gateway that these services share. The last service configures it."""
    if not services or services[-1].spec.gateway is None:
        return []
    routes = [service.spec.route for service in services if service.spec.route]
    peers = [peer for route in routes for peer in workload.ingress_peers(route)]
    requirements = GatewayRequirements(
        sax_root=_find_sax_root(services),
        grpc=_needs_grpc(services),
        load_balanced=any(workload.is_load_balanced(route) for route in routes),
        ingress_peers=tuple(peer for number, peer in enumerate(peers) if peer not in peers[:number]),
        drain_timeout=_drain_timeout(services),
    )
    return render_objects(services[-1], merge_gateways(services), yaml_documents.dump(gateway_document(services)), requirements)


def check_model_names(service: ModelService, peers: Sequence[ModelService]) -> None:
    """Raises InvalidDocument if a model has the name of another model behind the same gateway."""
    own = {model.name for model in service.spec.models}
    for peer in peers:
        duplicates = sorted(own & {model.name for model in peer.spec.models})
        if duplicates and service.spec.gateway:
            raise InvalidDocument(
                f"model {duplicates[0]} is also served by {peer.metadata.name} behind the same gateway {service.spec.gateway.name}",
                hint="rename the model, or use another gateway for one of the services",
            )


def merge_gateways(services: Sequence[ModelService]) -> ServiceGateway:
    """The last service's gateway with the keys and allowed namespaces of all. Of keys with the same name, the last one wins."""
    gateways = [service.spec.gateway for service in services if service.spec.gateway]
    keys = {key.name: key for gateway in gateways for key in gateway.keys}
    allowed = list(dict.fromkeys(name for gateway in gateways for name in gateway.allow_from))
    admin = next((gateway.admin_key for gateway in reversed(gateways) if gateway.admin_key), None)
    return gateways[-1].model_copy(update={"keys": list(keys.values()), "allow_from": allowed, "admin_key": admin})


def gateway_document(services: Sequence[ModelService]) -> Object:
    """The Gateway document."""
    last, gateway = services[-1], merge_gateways(services)
    keys = gateway.keys
    listen: Object = {"host": "0.0.0.0", "port": PORTS["http"]}
    if _needs_grpc(services):
        listen["grpcPort"] = GRPC_PORT
    if gateway.tls:
        listen["tls"] = {"certFile": f"{TLS_PATH}/tls.crt", "keyFile": f"{TLS_PATH}/tls.key"}
    admin: Object = {"host": "0.0.0.0", "port": PORTS["admin"], "publicMetrics": True}
    if gateway.admin_key:
        admin["key"] = {"file": secret_path(gateway.admin_key)}
    spec: Object = {"listen": listen, "admin": admin, **({} if keys else {"anonymous": True})}
    if keys:
        spec["keys"] = [_render_key(key) for key in keys]
    spec["models"] = [_render_model(service, model) for service in services for model in service.spec.models]
    settings = gateway.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    spec |= {name: settings[name] for name in _SHARED_SETTINGS if name in settings}
    spec["drainTimeout"] = f"{_drain_timeout(services)}s"
    namespace = {"namespace": last.metadata.namespace} if last.metadata.namespace else {}
    return {"apiVersion": API_VERSION, "kind": "Gateway", "metadata": {"name": gateway.name, **namespace}, "spec": spec}


def _render_key(key: ServiceGatewayKey) -> Object:
    rendered: Object = key.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    if key.secret:
        rendered["secret"] = {"file": secret_path(key.secret)}
    return rendered


def _render_model(service: ModelService, model: Model) -> Object:
    """A model with its backends: discovered by labels, or weighted versions with a canary."""
    spec, engine = service.spec, ENGINES[service.spec.engine]
    if spec.saxml:
        return {"name": model.name, "backends": [{"kind": engine.KIND, "url": f"{spec.saxml.cell}/{model.name}"}]}
    if spec.canary:
        weights = ((workload.STABLE, 100 - spec.canary.weight), (workload.CANARY, spec.canary.weight))
        backends = [_render_backend(service, engine, track, weight) for track, weight in weights if weight]
        return {"name": model.name, "backends": backends}
    discovery: Object = {"kind": engine.KIND, "labels": objects.selector(service, objects.SERVER_COMPONENT), "port": engine.PORT}
    if engine.GRPC_PORT:
        discovery["grpcPort"] = engine.GRPC_PORT
    return {"name": model.name, "discovery": discovery}


def _render_backend(service: ModelService, engine: ModuleType, track: str, weight: int) -> Object:
    host = ".".join(filter(None, (f"{service.metadata.name}-{track}", service.metadata.namespace)))
    backend: Object = {"kind": engine.KIND, "url": f"http://{host}:{engine.PORTS[engine.PORT]}", "weight": float(weight)}
    if engine.GRPC_PORT:
        backend["grpc"] = f"{host}:{engine.PORTS[engine.GRPC_PORT]}"
    return backend


def _drain_timeout(services: Sequence[ModelService]) -> int:
    """The longest drain timeout of the servers behind the gateway, so that it does not cut off their responses."""
    return max(int(service.spec.drain_timeout) for service in services)


def _needs_grpc(services: Sequence[ModelService]) -> bool:
    return any(service.spec.engine == "triton" for service in services)


def _find_sax_root(services: Sequence[ModelService]) -> str:
    """The Sax root of all services; a gateway's Sax client supports only one."""
    roots = {saxml.root(service.spec.saxml): service.metadata.name for service in services if service.spec.saxml}
    if len(roots) > 1:
        names = " and ".join(sorted(roots.values()))
        hint = "use another gateway for one of them"
        raise InvalidDocument(f"{names} share a gateway but have different Sax roots", hint=hint)
    return next(iter(roots), "")
