"""Pod specs of model servers: unprivileged containers, probes, volumes and termination. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import READS, WRITES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sliceworks.specs.model_service import ModelServiceSpec

Object = dict[str, Any]
SCRATCH = "/tmp"
SIMULATED = {"sliceworks.dev/runtime": "simulated"}
"""A twin that runs processes simulates these pods: it has no images, so it cannot run their programs."""
_BUCKET_SCHEME = "gs://"
_PROBE_PERIOD, _STARTUP_PERIOD = 10, 5
_PRE_STOP_SECONDS = 10  # A terminating server still gets requests until all clients know that it terminates.


def build(
    spec: ModelServiceSpec,
    containers: list[Object],
    nodes: Object,
    *,
    volumes: Iterable[Object] = (),
    account: str = "",
    **more: Any,
) -> Object:
    """A pod spec. `nodes` is the part that selects nodes."""
    account = account or (spec.identity.service_account if spec.identity else "")
    user = {"runAsUser": spec.user, "runAsGroup": spec.user, "fsGroup": spec.user}
    return {
        **({"serviceAccountName": account} if account else {}),
        **more,
        **nodes,
        "securityContext": {"runAsNonRoot": True, **user, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": containers,
        "volumes": [{"name": "scratch", "emptyDir": {}}, *volumes],
    }


def storage_access(reads: Iterable[str] = (), writes: Iterable[str] = ()) -> dict[str, str]:
    """Annotations that say what a pod reads and writes in Cloud Storage, for twins; ignored elsewhere."""
    urls = {
        name: [url for url in urls_of_mode if url.startswith(_BUCKET_SCHEME)]
        for name, urls_of_mode in ((READS, reads), (WRITES, writes))
    }
    return {name: ",".join(addresses) for name, addresses in urls.items() if addresses}


def container(
    name: str,
    image: str,
    resources: Object,
    *,
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    env: Iterable[Object] = (),
    ports: Mapping[str, int] | None = None,
    mounts: Iterable[Object] = (),
    read_only: bool = True,
    **more: Any,
) -> Object:
    """An unprivileged container."""
    result: Object = {"name": name, "image": image}
    if command:
        result["command"] = list(command)
    if args:
        result["args"] = list(args)
    result["env"] = [{"name": "HOME", "value": SCRATCH}, *env]
    if ports:
        result["ports"] = [{"name": port, "containerPort": number} for port, number in ports.items()]
    return {
        **result,
        "resources": resources,
        **more,
        "volumeMounts": [{"name": "scratch", "mountPath": SCRATCH}, *mounts],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": read_only,
            "capabilities": {"drop": ["ALL"]},
        },
        # The end of a failed container's log becomes its termination message, which `models show` prints.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def env_vars(spec: ModelServiceSpec, defaults: Mapping[str, str | Object] | None = None) -> list[Object]:
    """The environment of a server: defaults, overridden by the document's variables and secrets."""
    variables: dict[str, Object] = {
        name: value if isinstance(value, dict) else {"value": value} for name, value in (defaults or {}).items()
    }
    variables |= {name: {"value": value} for name, value in spec.env.items()}
    for secret in spec.secrets:
        if secret.env:
            variables[secret.env] = {"valueFrom": {"secretKeyRef": {"name": secret.secret, "key": secret.key}}}
    return [{"name": name, **value} for name, value in variables.items()]


def secret_volumes(spec: ModelServiceSpec) -> list[Object]:
    """Volumes of secrets that are mounted as files."""
    mounted = [secret.secret for secret in spec.secrets if secret.mount_path]
    return [{"name": f"secret-{name}", "secret": {"secretName": name}} for name in mounted]


def secret_mounts(spec: ModelServiceSpec) -> list[Object]:
    return [
        {"name": f"secret-{secret.secret}", "mountPath": secret.mount_path, "readOnly": True}
        for secret in spec.secrets
        if secret.mount_path
    ]


def field_ref(path: str) -> Object:
    """A variable's value that is a field of the pod."""
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def http_probes(spec: ModelServiceSpec, ready: str, live: str) -> Object:
    """HTTP probes of a server on its port `http`."""
    return probes(spec, {"httpGet": {"path": ready, "port": "http"}}, {"httpGet": {"path": live, "port": "http"}})


def probes(spec: ModelServiceSpec, ready: Object, live: Object) -> Object:
    """Probes of a server. The startup probe fails after the startup timeout."""
    threshold = max(int(spec.startup_timeout) // _STARTUP_PERIOD, 1)
    return {
        "startupProbe": {**ready, "periodSeconds": _STARTUP_PERIOD, "failureThreshold": threshold, "timeoutSeconds": 5},
        "readinessProbe": {**ready, "periodSeconds": _PROBE_PERIOD, "timeoutSeconds": 5},
        "livenessProbe": {**live, "periodSeconds": _PROBE_PERIOD, "failureThreshold": 6, "timeoutSeconds": 5},
    }


def pre_stop(spec: ModelServiceSpec) -> Object:
    """A preStop hook that delays SIGTERM until clients know that the server terminates."""
    return {"lifecycle": {"preStop": {"sleep": {"seconds": min(_PRE_STOP_SECONDS, max(int(spec.drain_timeout), 1))}}}}


def termination_grace_period(spec: ModelServiceSpec, cleanup: int = 0) -> Object:
    """The grace period: preStop hook, drain timeout, and seconds of cleanup after the last request."""
    return {"terminationGracePeriodSeconds": int(spec.drain_timeout) + _PRE_STOP_SECONDS + cleanup}
