"""The objects that run a gateway: account and rights, configuration, Deployment, Service, scaling, budget, network policy. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.kube.gke import API_AGENTS, pool
from sliceworks.serving import pods
from sliceworks.serving.machines import small
from sliceworks.serving.naming import COMPONENT, GATEWAY, MANAGED_BY
from sliceworks.serving.objects import COLLECTORS, budget_spec, service_ports

if TYPE_CHECKING:
    from sliceworks.specs.serving import Front, ModelService
    from sliceworks.specs.serving.parts import Token

Object = dict[str, Any]
PORTS = {"http": 8080, "admin": 8081}
GRPC_PORT = 8001
FOLDER, TLS, SECRETS = "/etc/gateway", "/etc/gateway-tls", "/etc/gateway-secrets"
_BUSY = 70  # percent of the CPU that it asked for
_LAST_REQUESTS = 5  # seconds in which others learn that it goes; it takes requests meanwhile
_ENDING = 5


def secret_file(token: Token) -> str:
    """Where the gateway finds a key."""
    return f"{SECRETS}/{token.secret}/{token.key}"


class Needs(NamedTuple):
    """What the models behind it ask of a gateway."""

    sax_root: str = ""
    grpc: bool = False
    balanced: bool = False
    ingress: tuple[Object, ...] = ()
    drain: int = 60
    """Seconds in which answers under way are finished: as long as the servers behind it have for that."""


def manifests(service: ModelService, front: Front, document: str, needs: Needs) -> list[Object]:
    """In the order in which they are applied."""
    made = _Objects(service, front)
    ports = {**PORTS, **({"grpc": GRPC_PORT} if needs.grpc else {})}
    return [
        *made.account(),
        made.object("v1", "ConfigMap", front.name, data={"gateway.yaml": document}),
        made.object("v1", "Service", front.name, spec=made.service(ports)),
        made.object("networking.k8s.io/v1", "NetworkPolicy", front.name, spec=made.network_policy(ports, needs)),
        made.object("apps/v1", "Deployment", front.name, spec=made.deployment(ports, needs)),
        made.object("policy/v1", "PodDisruptionBudget", front.name, spec=budget_spec(made.selector()["matchLabels"])),
        made.object("autoscaling/v2", "HorizontalPodAutoscaler", front.name, spec=made.scaling()),
        *made.monitoring(),
    ]


class _Objects:
    """One gateway of a namespace."""

    def __init__(self, service: ModelService, front: Front) -> None:
        self.of, self.front = service, front
        self.labels = {"app.kubernetes.io/name": front.name, GATEWAY: front.name, COMPONENT: "gateway", **MANAGED_BY}
        self.identity = front.identity or (service.spec.identity if service.spec.saxml else None)
        self.account_name = self.identity.service_account if self.identity else front.name

    def object(self, api_version: str, kind: str, name: str, annotations: Object | None = None, **content: Any) -> Object:
        place = {"namespace": self.of.metadata.namespace} if self.of.metadata.namespace else {}
        metadata = {"name": name, **place, "labels": dict(self.labels), **({"annotations": annotations} if annotations else {})}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}

    def selector(self) -> Object:
        return {"matchLabels": {GATEWAY: self.front.name, COMPONENT: "gateway"}}

    def account(self) -> list[Object]:
        """Whom it acts as, and the right to see which servers there are."""
        name, found = self.front.name, []
        google = self.identity.google_service_account if self.identity else ""
        if self.identity is None or (google and self.front.identity):
            found.append(
                self.object(
                    "v1", "ServiceAccount", self.account_name, {"iam.gke.io/gcp-service-account": google} if google else None
                )
            )
        rules = [
            {"apiGroups": [""], "resources": ["services", "pods"], "verbs": ["get", "list", "watch"]},
        ]
        rbac = "rbac.authorization.k8s.io"
        whom = {"kind": "ServiceAccount", "name": self.account_name}
        if self.of.metadata.namespace:
            whom["namespace"] = self.of.metadata.namespace
        role = {"apiGroup": rbac, "kind": "Role", "name": name}
        return [
            *found,
            self.object(f"{rbac}/v1", "Role", name, rules=rules),
            self.object(f"{rbac}/v1", "RoleBinding", name, roleRef=role, subjects=[whom]),
        ]

    def service(self, ports: dict[str, int]) -> Object:
        return {"selector": self.selector()["matchLabels"], "ports": service_ports(ports)}

    def network_policy(self, ports: dict[str, int], needs: Needs) -> Object:
        """Callers come from its own namespace, those that are named, and Istio's gateway; from load balancers, from anywhere."""
        own: Object = {"podSelector": {}}
        others = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}} for name in self.front.allow_from]
        open_ports = [{"port": name, "protocol": "TCP"} for name in ports if name != "admin"]
        calls: Object = {"ports": open_ports, **({} if needs.balanced else {"from": [own, *others, *needs.ingress, API_AGENTS]})}
        admin = {"ports": [{"port": "admin", "protocol": "TCP"}], "from": [own, COLLECTORS, API_AGENTS]}
        return {"podSelector": self.selector(), "policyTypes": ["Ingress"], "ingress": [calls, admin]}

    def deployment(self, ports: dict[str, int], needs: Needs) -> Object:
        """How many there are is left to the autoscaler."""
        asked = {"periodSeconds": 5, "timeoutSeconds": 3}
        env: list[Object] = [{"name": "POD_IP", **pods.from_field("status.podIP")}]
        container = pods.container(
            "gateway",
            self.front.image,
            small(self.front.cpu, self.front.memory),
            command=["sliceworks", "gateway", "run", "-f", f"{FOLDER}/gateway.yaml", "--host", "0.0.0.0"],
            env=[*env, *([{"name": "SAX_ROOT", "value": needs.sax_root}] if needs.sax_root else [])],
            ports=ports,
            mounts=self._mounts(),
            readinessProbe={"httpGet": {"path": "/readyz", "port": "admin"}, **asked},
            livenessProbe={"httpGet": {"path": "/healthz", "port": "admin"}, **asked, "failureThreshold": 6},
            lifecycle={"preStop": {"sleep": {"seconds": _LAST_REQUESTS}}},
        )
        spread = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": self.selector(),
        }
        pod = pods.pod(
            self.of.spec,
            [container],
            pool(self.front.pool),
            volumes=self._volumes(),
            account=self.account_name,
            terminationGracePeriodSeconds=_LAST_REQUESTS + needs.drain + _ENDING,
            topologySpreadConstraints=[spread],
        )
        return {
            "selector": self.selector(),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {"metadata": {"labels": dict(self.labels)}, "spec": pod},
        }

    def _secrets(self) -> list[str]:
        found = [each.secret.secret for each in self.front.keys if each.secret]
        return sorted({*found, *([self.front.admin_key.secret] if self.front.admin_key else [])})

    def _volumes(self) -> list[Object]:
        found: list[Object] = [{"name": "configuration", "configMap": {"name": self.front.name}}]
        found += [{"name": f"secret-{each}", "secret": {"secretName": each}} for each in self._secrets()]
        return found + ([{"name": "certificate", "secret": {"secretName": self.front.tls}}] if self.front.tls else [])

    def _mounts(self) -> list[Object]:
        found: list[Object] = [{"name": "configuration", "mountPath": FOLDER, "readOnly": True}]
        found += [{"name": f"secret-{each}", "mountPath": f"{SECRETS}/{each}", "readOnly": True} for each in self._secrets()]
        return found + ([{"name": "certificate", "mountPath": TLS, "readOnly": True}] if self.front.tls else [])

    def scaling(self) -> Object:
        target = {"type": "Utilization", "averageUtilization": _BUSY}
        return {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.front.name},
            "minReplicas": self.front.replicas,
            "maxReplicas": self.front.max_replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        }

    def monitoring(self) -> list[Object]:
        wanted = self.of.spec.monitoring
        if wanted is None:
            return []
        endpoints = [{"port": "admin", "path": "/metrics", "interval": wanted.interval}]
        spec = {"selector": self.selector(), "endpoints": endpoints}
        return [self.object("monitoring.googleapis.com/v1", "PodMonitoring", self.front.name, spec=spec)]
