"""Containers: names, images, ports, mounts, probes, lifecycle hooks, restart rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import names
from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_found, not_supported, required, too_long
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.container_env import env_errors, env_from_errors
from sliceworks.twin.apiserver.validation.field_checks import (
    PROTOCOLS,
    Errors,
    check_descending_path,
    check_name,
    check_none_negative,
    check_port,
    check_port_or_name,
)
from sliceworks.twin.apiserver.validation.resource_requirements import requirement_errors
from sliceworks.twin.apiserver.validation.security_context import container_security_errors

if TYPE_CHECKING:
    from collections.abc import Collection

    from sliceworks.twin.apiserver.validation.defaults import Json

_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")


def probe_errors(errors: Errors, container: Json, path: str, grace: int | None) -> None:
    """Errors of the liveness, readiness and startup probes."""
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(kind)
        if probe is None:
            continue
        child_path = f"{path}.{kind}"
        _handler(errors, probe, child_path, _PROBE_HANDLERS, grace)
        check_none_negative(
            errors,
            probe,
            child_path,
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        )
        seconds = probe.get("terminationGracePeriodSeconds")
        if seconds is not None and seconds <= 0:
            errors.append(invalid(f"{child_path}.terminationGracePeriodSeconds", seconds, "must be greater than 0"))
        if kind == "readinessProbe":
            if seconds is not None:
                errors.append(
                    invalid(f"{child_path}.terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes")
                )
        elif probe.get("successThreshold", 1) != 1:
            errors.append(invalid(f"{child_path}.successThreshold", probe["successThreshold"], "must be 1"))


def lifecycle_errors(errors: Errors, lifecycle: Json, path: str, grace: int | None) -> None:
    for hook in ("postStart", "preStop"):
        if (handler := lifecycle.get(hook)) is not None:
            _handler(errors, handler, f"{path}.{hook}", _HOOK_HANDLERS, grace)


def _handler(errors: Errors, holder: Json, path: str, kinds: tuple[str, ...], grace: int | None) -> None:
    present = [kind for kind in kinds if holder.get(kind) is not None]
    if not present:
        errors.append(required(path, "must specify a handler type"))
        return
    first, *others = present
    _action(errors, first, holder[first], f"{path}.{first}", grace)
    for kind in others:
        errors.append(forbidden(f"{path}.{kind}", "may not specify more than 1 handler type"))


def _action(errors: Errors, kind: str, action: Json, path: str, grace: int | None) -> None:
    if kind == "exec":
        if not action.get("command"):
            errors.append(required(f"{path}.command"))
    elif kind == "sleep":
        seconds = action.get("seconds") or 0
        if grace is not None and not 0 <= seconds <= grace:
            errors.append(invalid(path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"))
    else:
        if kind == "httpGet":
            _http(errors, action, path)
        check_port_or_name(errors, action.get("port", 0), f"{path}.port")


def _http(errors: Errors, action: Json, path: str) -> None:
    if not action.get("path"):
        errors.append(required(f"{path}.path"))
    scheme = action.get("scheme") or ""
    if scheme not in ("HTTP", "HTTPS"):
        errors.append(not_supported(f"{path}.scheme", scheme, ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        check_name(errors, header.get("name") or "", f"{path}.httpHeaders", names.header_name_errors)


_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_BLOCK_SOURCES = ("persistentVolumeClaim", "ephemeral")


def mount_errors(errors: Errors, container: Json, volumes: dict[str, Json], path: str) -> None:
    devices = {device.get("name"): device.get("devicePath") for device in container.get("volumeDevices") or ()}
    seen: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        if name not in volumes:
            errors.append(not_found(f"{path}[{index}].name", name))
        if not target:
            errors.append(required(f"{path}[{index}].mountPath"))
        if target in seen:
            errors.append(invalid(f"{path}[{index}].mountPath", target, "must be unique"))
        seen.add(target)
        if name in devices:
            errors.append(invalid(f"{path}[{index}].name", name, "must not already exist in volumeDevices"))
        if target in devices.values():
            errors.append(invalid(f"{path}[{index}].mountPath", target, "must not already exist as a path in volumeDevices"))
        if len(mount) > 2:
            _options(errors, mount, container, path, index)


def device_errors(errors: Errors, container: Json, volumes: dict[str, Json], path: str) -> None:
    mounts = {mount.get("name"): mount.get("mountPath") for mount in container.get("volumeMounts") or ()}
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container["volumeDevices"]):
        name, target, child_path = device.get("name") or "", device.get("devicePath") or "", f"{path}[{index}]"
        if not name:
            errors.append(required(f"{child_path}.name"))
        if name in names:
            errors.append(invalid(f"{child_path}.name", name, "must be unique"))
        if name not in volumes:
            errors.append(not_found(f"{child_path}.name", name))
        elif all(volumes[name].get(source) is None for source in _BLOCK_SOURCES):
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{child_path}.name", name, detail))
        if not target:
            errors.append(required(f"{child_path}.devicePath"))
        if target in paths:
            errors.append(invalid(f"{child_path}.devicePath", target, "must be unique"))
        if ".." in target.split("/"):
            errors.append(invalid(f"{child_path}.devicePath", target, "can not contain backsteps ('..')"))
        else:
            paths.add(target)
        if name in mounts:
            errors.append(invalid(f"{child_path}.name", name, "must not already exist in volumeMounts"))
        if target in mounts.values():
            errors.append(invalid(f"{child_path}.devicePath", target, "must not already exist as a path in volumeMounts"))
        if name:
            names.add(name)


def _options(errors: Errors, mount: Json, container: Json, path: str, index: int) -> None:
    """Errors of a mount's optional fields. Kubernetes omits the index from most of their paths."""
    if sub := mount.get("subPath"):
        check_descending_path(errors, sub, f"{path}.subPath")
    if expression := mount.get("subPathExpr"):
        if sub:
            errors.append(invalid(f"{path}[{index}].subPathExpr", expression, "subPathExpr and subPath are mutually exclusive"))
        check_descending_path(errors, expression, f"{path}.subPathExpr")
    if (propagation := mount.get("mountPropagation")) is not None:
        if propagation not in _PROPAGATIONS:
            errors.append(not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS))
        if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            detail = "Bidirectional mount propagation is available only to privileged containers"
            errors.append(forbidden(f"{path}.mountPropagation", detail))
    if (recursive := mount.get("recursiveReadOnly")) in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.append(forbidden(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            errors.append(forbidden(f"{path}.recursiveReadOnly", detail))
    elif recursive not in (None, "Disabled"):
        errors.append(not_supported(f"{path}.recursiveReadOnly", recursive, _RECURSIVE))


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
    """The fields of a pod that the validation of its containers depends on."""

    volumes: dict[str, Json]
    claims: Collection[str]
    grace: int | None
    restart_policy: str
    host_users: bool


def container_errors(errors: Errors, containers: list[Json], path: str, pod: PodContext) -> None:
    """Errors of `spec.containers`, which needs at least one container."""
    if not containers:
        errors.append(required(path))
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        child_path = f"{path}[{index}]"
        _common(errors, container, child_path, pod)
        name = container.get("name") or ""
        if name in seen:
            errors.append(duplicate(f"{child_path}.name", name))
        seen.add(name)
        if (lifecycle := container.get("lifecycle")) is not None:
            lifecycle_errors(errors, lifecycle, f"{child_path}.lifecycle", pod.grace)
        probe_errors(errors, container, child_path, pod.grace)
        _restarts(errors, container, child_path)
    _host_ports(errors, containers, path)


def init_container_errors(errors: Errors, containers: list[Json], main: list[Json], path: str, pod: PodContext) -> None:
    seen = {container.get("name") for container in main}
    for index, container in enumerate(containers):
        child_path = f"{path}[{index}]"
        _common(errors, container, child_path, pod)
        _restarts(errors, container, child_path, sidecar_rules=False)
        name = container.get("name") or ""
        if name in seen:
            errors.append(duplicate(f"{child_path}.name", name))
        elif name:
            seen.add(name)
        _host_ports(errors, [container], path)
        if container.get("restartPolicy") == "Always":
            if (lifecycle := container.get("lifecycle")) is not None:
                lifecycle_errors(errors, lifecycle, f"{child_path}.lifecycle", pod.grace)
            probe_errors(errors, container, child_path, pod.grace)
        else:
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                if container.get(field) is not None:
                    errors.append(forbidden(f"{child_path}.{field}", _ONLY_SIDECARS))


def ephemeral_container_errors(errors: Errors, spec: Json, path: str, pod: PodContext) -> None:
    others = {container.get("name") for field in ("containers", "initContainers") for container in spec.get(field) or ()}
    seen = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers") or ()):
        child_path = f"{path}[{index}]"
        _common(errors, container, child_path, pod)
        name, target = container.get("name") or "", container.get("targetContainerName")
        if name in seen:
            errors.append(duplicate(f"{child_path}.name", name))
        seen.add(name)
        if target and target not in others:
            errors.append(not_found(f"{child_path}.targetContainerName", target))
        for field in _NOT_EPHEMERAL:
            if container.get(field):
                errors.append(forbidden(f"{child_path}.{field}", "cannot be set for an Ephemeral Container"))
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    errors.append(
                        forbidden(f"{child_path}.volumeMounts[{number}].{field}", "cannot be set for an Ephemeral Container")
                    )


def padded_image_errors(errors: Errors, containers: list[Json], path: str) -> None:
    """Images of pods must not be padded with whitespace; Kubernetes accepts it in templates."""
    for index, container in enumerate(containers):
        image = container.get("image") or ""
        if image != image.strip():
            errors.append(invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace"))


def _common(errors: Errors, container: Json, path: str, pod: PodContext) -> None:
    name = container.get("name")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        for message in field_checks.dns1123_label_errors(name):
            errors.append(invalid(f"{path}.name", name, message))
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    if (ending := container.get("terminationMessagePolicy") or "") not in _ENDINGS:
        errors.append(
            not_supported(f"{path}.terminationMessagePolicy", ending, _ENDINGS)
            if ending
            else required(f"{path}.terminationMessagePolicy")
        )
    if ports := container.get("ports"):
        _ports(errors, ports, f"{path}.ports")
    if env := container.get("env"):
        env_errors(errors, env, f"{path}.env")
    if sources := container.get("envFrom"):
        env_from_errors(errors, sources, f"{path}.envFrom")
    mounts, devices = container.get("volumeMounts"), container.get("volumeDevices")
    if mounts:
        mount_errors(errors, container, pod.volumes, f"{path}.volumeMounts")
    if devices:
        device_errors(errors, container, pod.volumes, f"{path}.volumeDevices")
    if (policy := container.get("imagePullPolicy") or "") not in _PULL_POLICIES:
        errors.append(
            not_supported(f"{path}.imagePullPolicy", policy, _PULL_POLICIES) if policy else required(f"{path}.imagePullPolicy")
        )
    if resources := container.get("resources"):
        requirement_errors(errors, resources, f"{path}.resources", pod.claims)
    if policies := container.get("resizePolicy"):
        _resize(errors, policies, f"{path}.resizePolicy", pod.restart_policy)
    if context := container.get("securityContext"):
        container_security_errors(errors, context, f"{path}.securityContext", pod.host_users)


def _ports(errors: Errors, ports: list[Json], path: str) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        if name := port.get("name"):
            before = len(errors)
            check_name(errors, name, f"{path}[{index}].name", names.port_name_errors)
            if len(errors) == before:
                if name in seen:
                    errors.append(duplicate(f"{path}[{index}].name", name))
                seen.add(name)
        if not port.get("containerPort"):
            errors.append(required(f"{path}[{index}].containerPort"))
        else:
            check_port(errors, port["containerPort"], f"{path}[{index}].containerPort")
        if port.get("hostPort"):
            check_port(errors, port["hostPort"], f"{path}[{index}].hostPort")
        if (protocol := port.get("protocol") or "") not in PROTOCOLS:
            errors.append(
                not_supported(f"{path}[{index}].protocol", protocol, PROTOCOLS)
                if protocol
                else required(f"{path}[{index}].protocol")
            )


def _host_ports(errors: Errors, containers: list[Json], path: str) -> None:
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                key = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{port['hostPort']}"
                if key in seen:
                    errors.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", key))
                seen.add(key)


def _resize(errors: Errors, policies: list[Json], path: str, restart_policy: str) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in seen:
            errors.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        for value, allowed in ((resource, ("cpu", "memory")), (restart, ("NotRequired", "RestartContainer"))):
            if value not in allowed:
                errors.append(not_supported(path, value, allowed) if value else required(path))
        if restart_policy == "Never" and restart != "NotRequired":
            errors.append(invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'"))


def _restarts(errors: Errors, container: Json, path: str, *, sidecar_rules: bool = True) -> None:
    """Errors of the container-level restart policy and its exit code rules."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None and not rules:
        return
    if policy is None:
        errors.append(required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    elif not sidecar_rules and policy == "Always":
        if rules:
            detail = "restartPolicyRules are not allowed for init containers with restart policy Always"
            errors.append(forbidden(f"{path}.restartPolicyRules", detail))
        return
    elif policy not in ("Always", "Never", "OnFailure"):
        errors.append(not_supported(f"{path}.restartPolicy", policy, ("Always", "Never", "OnFailure")))
    if policy is None and not sidecar_rules:
        return
    if len(rules) > _MOST_RULES:
        errors.append(too_long(f"{path}.restartPolicyRules", _MOST_RULES))
    for index, rule in enumerate(rules):
        _restart_rule(errors, rule, f"{path}.restartPolicyRules[{index}]")


def _restart_rule(errors: Errors, rule: Json, path: str) -> None:
    if rule.get("action") != "Restart":
        errors.append(not_supported(f"{path}.action", rule.get("action") or "", ("Restart",)))
    codes = rule.get("exitCodes")
    if codes is None:
        errors.append(required(f"{path}.exitCodes", "must be specified"))
        return
    if codes.get("operator") not in ("In", "NotIn"):
        errors.append(not_supported(f"{path}.exitCodes.operator", codes.get("operator") or "", ("In", "NotIn")))
    if len(codes.get("values") or ()) > 255:
        errors.append(too_long(f"{path}.exitCodes.values", 255))
