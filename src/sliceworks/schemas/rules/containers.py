"""Containers of a pod: names, images, ports, environment, mounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import names
from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_found, not_supported, required, too_long
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.environment import env_errors, env_from_errors
from sliceworks.schemas.rules.mounts import device_errors, mount_errors
from sliceworks.schemas.rules.probes import lifecycle_errors, probe_errors
from sliceworks.schemas.rules.resources import requirement_errors
from sliceworks.schemas.rules.security import container_security_errors
from sliceworks.schemas.rules.texts import PROTOCOLS, Errors, named, port_number

if TYPE_CHECKING:
    from collections.abc import Collection

    from sliceworks.schemas.rules.shape import Json

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_ENDINGS = ("File", "FallbackToLogsOnError")
_ONLY_SIDECARS = "may not be set for init containers without restartPolicy=Always"
_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resizePolicy",
    "restartPolicy",
)
_MOST_RULES = 20


class PodContext(NamedTuple):
    """What containers need to know of their pod."""

    volumes: dict[str, Json]
    claims: Collection[str]
    grace: int | None
    restart_policy: str
    host_users: bool


def container_errors(out: Errors, containers: list[Json], path: str, pod: PodContext) -> None:
    """The main containers: at least one."""
    if not containers:
        out.append(required(path))
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        _common(out, container, place, pod)
        name = container.get("name") or ""
        if name in seen:
            out.append(duplicate(f"{place}.name", name))
        seen.add(name)
        if (lifecycle := container.get("lifecycle")) is not None:
            lifecycle_errors(out, lifecycle, f"{place}.lifecycle", pod.grace)
        probe_errors(out, container, place, pod.grace)
        _restarts(out, container, place)
    _host_ports(out, containers, path)


def init_container_errors(out: Errors, containers: list[Json], main: list[Json], path: str, pod: PodContext) -> None:
    seen = {container.get("name") for container in main}
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        _common(out, container, place, pod)
        _restarts(out, container, place, sidecar_rules=False)
        name = container.get("name") or ""
        if name in seen:
            out.append(duplicate(f"{place}.name", name))
        elif name:
            seen.add(name)
        _host_ports(out, [container], path)
        if container.get("restartPolicy") == "Always":
            if (lifecycle := container.get("lifecycle")) is not None:
                lifecycle_errors(out, lifecycle, f"{place}.lifecycle", pod.grace)
            probe_errors(out, container, place, pod.grace)
        else:
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                if container.get(field) is not None:
                    out.append(forbidden(f"{place}.{field}", _ONLY_SIDECARS))


def ephemeral_container_errors(out: Errors, spec: Json, path: str, pod: PodContext) -> None:
    others = {container.get("name") for field in ("containers", "initContainers") for container in spec.get(field) or ()}
    seen = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        place = f"{path}[{index}]"
        _common(out, container, place, pod)
        name, target = container.get("name") or "", container.get("targetContainerName")
        if name in seen:
            out.append(duplicate(f"{place}.name", name))
        seen.add(name)
        if target and target not in others:
            out.append(not_found(f"{place}.targetContainerName", target))
        for field in _NOT_EPHEMERAL:
            if container.get(field):
                out.append(forbidden(f"{place}.{field}", "cannot be set for an Ephemeral Container"))
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    out.append(forbidden(f"{place}.volumeMounts[{number}].{field}", "cannot be set for an Ephemeral Container"))


def padded_image_errors(out: Errors, containers: list[Json], path: str) -> None:
    """Templates may have blanks around an image; pods may not."""
    for index, container in enumerate(containers):
        image = container.get("image") or ""
        if image != image.strip():
            out.append(invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace"))


def _common(out: Errors, container: Json, path: str, pod: PodContext) -> None:
    name = container.get("name")
    if not name:
        out.append(required(f"{path}.name"))
    else:
        for message in name_rules.dns1123_label_errors(name):
            out.append(invalid(f"{path}.name", name, message))
    if not container.get("image"):
        out.append(required(f"{path}.image"))
    if (ending := container.get("terminationMessagePolicy") or "") not in _ENDINGS:
        out.append(
            not_supported(f"{path}.terminationMessagePolicy", ending, _ENDINGS)
            if ending
            else required(f"{path}.terminationMessagePolicy")
        )
    if ports := container.get("ports"):
        _ports(out, ports, f"{path}.ports")
    if env := container.get("env"):
        env_errors(out, env, f"{path}.env")
    if sources := container.get("envFrom"):
        env_from_errors(out, sources, f"{path}.envFrom")
    mounts, devices = container.get("volumeMounts"), container.get("volumeDevices")
    if mounts:
        mount_errors(out, container, pod.volumes, f"{path}.volumeMounts")
    if devices:
        device_errors(out, container, pod.volumes, f"{path}.volumeDevices")
    if (policy := container.get("imagePullPolicy") or "") not in _PULL_POLICIES:
        out.append(
            not_supported(f"{path}.imagePullPolicy", policy, _PULL_POLICIES) if policy else required(f"{path}.imagePullPolicy")
        )
    if resources := container.get("resources"):
        requirement_errors(out, resources, f"{path}.resources", pod.claims)
    if policies := container.get("resizePolicy"):
        _resize(out, policies, f"{path}.resizePolicy", pod.restart_policy)
    if context := container.get("securityContext"):
        container_security_errors(out, context, f"{path}.securityContext", pod.host_users)


def _ports(out: Errors, ports: list[Json], path: str) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        if name := port.get("name"):
            before = len(out)
            named(out, name, f"{path}[{index}].name", names.port_name_errors)
            if len(out) == before:
                if name in seen:
                    out.append(duplicate(f"{path}[{index}].name", name))
                seen.add(name)
        if not port.get("containerPort"):
            out.append(required(f"{path}[{index}].containerPort"))
        else:
            port_number(out, port["containerPort"], f"{path}[{index}].containerPort")
        if port.get("hostPort"):
            port_number(out, port["hostPort"], f"{path}[{index}].hostPort")
        if (protocol := port.get("protocol") or "") not in PROTOCOLS:
            out.append(
                not_supported(f"{path}[{index}].protocol", protocol, PROTOCOLS)
                if protocol
                else required(f"{path}[{index}].protocol")
            )


def _host_ports(out: Errors, containers: list[Json], path: str) -> None:
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                key = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{port['hostPort']}"
                if key in seen:
                    out.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", key))
                seen.add(key)


def _resize(out: Errors, policies: list[Json], path: str, restart_policy: str) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in seen:
            out.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        for value, allowed in ((resource, ("cpu", "memory")), (restart, ("NotRequired", "RestartContainer"))):
            if value not in allowed:
                out.append(not_supported(path, value, allowed) if value else required(path))
        if restart_policy == "Never" and restart != "NotRequired":
            out.append(invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'"))


def _restarts(out: Errors, container: Json, path: str, *, sidecar_rules: bool = True) -> None:
    """A container's own restart policy and its rules by exit code."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None and not rules:
        return
    if policy is None:
        out.append(required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    elif not sidecar_rules and policy == "Always":
        if rules:
            detail = "restartPolicyRules are not allowed for init containers with restart policy Always"
            out.append(forbidden(f"{path}.restartPolicyRules", detail))
        return
    elif policy not in ("Always", "Never", "OnFailure"):
        out.append(not_supported(f"{path}.restartPolicy", policy, ("Always", "Never", "OnFailure")))
    if policy is None and not sidecar_rules:
        return
    if len(rules) > _MOST_RULES:
        out.append(too_long(f"{path}.restartPolicyRules", _MOST_RULES))
    for index, rule in enumerate(rules):
        _restart_rule(out, rule, f"{path}.restartPolicyRules[{index}]")


def _restart_rule(out: Errors, rule: Json, path: str) -> None:
    if rule.get("action") != "Restart":
        out.append(not_supported(f"{path}.action", rule.get("action") or "", ("Restart",)))
    codes = rule.get("exitCodes")
    if codes is None:
        out.append(required(f"{path}.exitCodes", "must be specified"))
        return
    if codes.get("operator") not in ("In", "NotIn"):
        out.append(not_supported(f"{path}.exitCodes.operator", codes.get("operator") or "", ("In", "NotIn")))
    if len(codes.get("values") or ()) > 255:
        out.append(too_long(f"{path}.exitCodes.values", 255))
