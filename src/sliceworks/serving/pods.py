"""Pods of model services: unprivileged, with a folder to write to, probes, and time to finish their answers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sliceworks.specs.serving import ModelServiceSpec

Object = dict[str, Any]
SCRATCH = "/tmp"
SIMULATED = {"sliceworks.dev/runtime": "simulated"}
"""On a twin that runs processes these pods are played: their programs come with images, which a twin does not have."""
_PERIOD, _SOON = 10, 5
_LAST_REQUESTS = 10  # seconds in which others learn that a server goes; it answers them meanwhile


def pod(
    spec: ModelServiceSpec,
    containers: list[Object],
    nodes: Object,
    *,
    volumes: Iterable[Object] = (),
    account: str = "",
    **more: Any,
) -> Object:
    """A pod's spec on these nodes."""
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
    """A container that may do nothing but its work."""
    found: Object = {"name": name, "image": image}
    if command:
        found["command"] = list(command)
    if args:
        found["args"] = list(args)
    found["env"] = [{"name": "HOME", "value": SCRATCH}, *env]
    if ports:
        found["ports"] = [{"name": port, "containerPort": number} for port, number in ports.items()]
    return {
        **found,
        "resources": resources,
        **more,
        "volumeMounts": [{"name": "scratch", "mountPath": SCRATCH}, *mounts],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": read_only,
            "capabilities": {"drop": ["ALL"]},
        },
        # Where it fails, its last words are in the pod's status, for whoever asks why.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def variables(spec: ModelServiceSpec, told: Mapping[str, str | Object] | None = None) -> list[Object]:
    """What a server finds in its environment; what the document says comes last and wins."""
    found: dict[str, Object] = {
        name: value if isinstance(value, dict) else {"value": value} for name, value in (told or {}).items()
    }
    found |= {name: {"value": value} for name, value in spec.env.items()}
    for secret in spec.secrets:
        if secret.env:
            found[secret.env] = {"valueFrom": {"secretKeyRef": {"name": secret.secret, "key": secret.key}}}
    return [{"name": name, **value} for name, value in found.items()]


def secret_volumes(spec: ModelServiceSpec) -> list[Object]:
    """Secrets that are seen as files."""
    return [{"name": f"secret-{each.secret}", "secret": {"secretName": each.secret}} for each in spec.secrets if each.mount_path]


def secret_mounts(spec: ModelServiceSpec) -> list[Object]:
    return [
        {"name": f"secret-{each.secret}", "mountPath": each.mount_path, "readOnly": True}
        for each in spec.secrets
        if each.mount_path
    ]


def from_field(path: str) -> Object:
    """A variable's value that is a field of the pod."""
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def http_probes(spec: ModelServiceSpec, port: str, ready: str, live: str) -> Object:
    """A server has as long as the document says to load its model; then it is asked every ten seconds."""
    return probes(spec, {"httpGet": {"path": ready, "port": port}}, {"httpGet": {"path": live, "port": port}})


def probes(spec: ModelServiceSpec, ready: Object, live: Object) -> Object:
    """The same for any way of asking."""
    tries = max(int(spec.start_within) // _SOON, 1)
    return {
        "startupProbe": {**ready, "periodSeconds": _SOON, "failureThreshold": tries, "timeoutSeconds": 5},
        "readinessProbe": {**ready, "periodSeconds": _PERIOD, "timeoutSeconds": 5},
        "livenessProbe": {**live, "periodSeconds": _PERIOD, "failureThreshold": 6, "timeoutSeconds": 5},
    }


def drain(spec: ModelServiceSpec) -> Object:
    """A container answers a little longer before it is told to end."""
    return {"lifecycle": {"preStop": {"sleep": {"seconds": min(_LAST_REQUESTS, max(int(spec.drain), 1))}}}}


def grace(spec: ModelServiceSpec, ending: int = 0) -> Object:
    """And has the document's time to finish, and so many seconds more where it takes long to put all away."""
    return {"terminationGracePeriodSeconds": int(spec.drain) + _LAST_REQUESTS + ending}
