"""Containers: names, images, ports, mounts, probes, lifecycle hooks, restart rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import names
from sliceworks.schemas import field_errors
from sliceworks.twin.apiserver.validation import error_list
from sliceworks.twin.apiserver.validation.container_env import validate_env, validate_env_from
from sliceworks.twin.apiserver.validation.error_list import PROTOCOLS, ErrorList, list_items
from sliceworks.twin.apiserver.validation.resource_requirements import validate_resource_requirements
from sliceworks.twin.apiserver.validation.security_context import validate_security_context

if TYPE_CHECKING:
    from collections.abc import Collection

    from sliceworks.twin.apiserver.validation.defaults import Json

_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_BLOCK_SOURCES = ("persistentVolumeClaim", "ephemeral")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NOT_EPHEMERAL = ("ports", "resources", *_PROBES, "lifecycle", "resizePolicy", "restartPolicy")
_MAX_RESTART_RULES, _MAX_EXIT_CODES = 20, 255


class PodContext(NamedTuple):
    """The fields of a pod that the validation of its containers depends on."""

    volumes: dict[str, Json]
    claims: Collection[str]
    grace: int | None
    restart_policy: str
    host_users: bool


def validate_probes(errors: ErrorList, container: Json, path: str, grace: int | None) -> None:
    """Validate the liveness, readiness and startup probes."""
    for kind in _PROBES:
        probe = container.get(kind)
        if probe is None:
            continue
        child_path = f"{path}.{kind}"
        _validate_handler(errors, probe, child_path, _PROBE_HANDLERS, grace)
        errors.check_not_negative(probe, child_path, *_PROBE_NUMBERS)
        seconds = probe.get("terminationGracePeriodSeconds")
        if seconds is not None and seconds <= 0:
            errors.invalid(f"{child_path}.terminationGracePeriodSeconds", seconds, "must be greater than 0")
        if kind == "readinessProbe":
            if seconds is not None:
                errors.invalid(f"{child_path}.terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes")
        elif probe.get("successThreshold", 1) != 1:
            errors.invalid(f"{child_path}.successThreshold", probe["successThreshold"], "must be 1")


def validate_lifecycle(errors: ErrorList, lifecycle: Json, path: str, grace: int | None) -> None:
    for hook in ("postStart", "preStop"):
        if (handler := lifecycle.get(hook)) is not None:
            _validate_handler(errors, handler, f"{path}.{hook}", _HOOK_HANDLERS, grace)


def _validate_handler(errors: ErrorList, holder: Json, path: str, kinds: tuple[str, ...], grace: int | None) -> None:
    present = [kind for kind in kinds if holder.get(kind) is not None]
    if not present:
        errors.required(path, "must specify a handler type")
        return
    first, *others = present
    _validate_action(errors, first, holder[first], f"{path}.{first}", grace)
    for kind in others:
        errors.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")


def _validate_action(errors: ErrorList, kind: str, action: Json, path: str, grace: int | None) -> None:
    if kind == "exec":
        errors.check_required(action, path, "command")
    elif kind == "sleep":
        seconds = action.get("seconds") or 0
        if grace is not None and not 0 <= seconds <= grace:
            errors.invalid(path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace})")
    else:
        if kind == "httpGet":
            _validate_http_get(errors, action, path)
        errors.check_port_or_name(action.get("port", 0), f"{path}.port")


def _validate_http_get(errors: ErrorList, action: Json, path: str) -> None:
    errors.check_required(action, path, "path")
    errors.check_supported(action, path, "scheme", ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        errors.check_name(header.get("name") or "", f"{path}.httpHeaders", names.header_name_errors)


def validate_volume_mounts(errors: ErrorList, container: Json, volumes: dict[str, Json], path: str) -> None:
    devices = container.get("volumeDevices") or ()
    device_names, device_paths = ({device.get(field) for device in devices} for field in ("name", "devicePath"))
    seen: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.required(f"{path}[{index}].name")
        if name not in volumes:
            errors.not_found(f"{path}[{index}].name", name)
        if not target:
            errors.required(f"{path}[{index}].mountPath")
        if target in seen:
            errors.invalid(f"{path}[{index}].mountPath", target, "must be unique")
        seen.add(target)
        if name in device_names:
            errors.invalid(f"{path}[{index}].name", name, "must not already exist in volumeDevices")
        if target in device_paths:
            errors.invalid(f"{path}[{index}].mountPath", target, "must not already exist as a path in volumeDevices")
        if len(mount) > 2:
            _validate_mount_options(errors, mount, container, path, index)


def validate_volume_devices(errors: ErrorList, container: Json, volumes: dict[str, Json], path: str) -> None:
    mounts = container.get("volumeMounts") or ()
    mount_names, mount_paths = ({mount.get(field) for mount in mounts} for field in ("name", "mountPath"))
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container["volumeDevices"]):
        name, target, child_path = device.get("name") or "", device.get("devicePath") or "", f"{path}[{index}]"
        errors.check_required(device, child_path, "name")
        if name in names:
            errors.invalid(f"{child_path}.name", name, "must be unique")
        if name not in volumes:
            errors.not_found(f"{child_path}.name", name)
        elif all(volumes[name].get(source) is None for source in _BLOCK_SOURCES):
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.invalid(f"{child_path}.name", name, detail)
        errors.check_required(device, child_path, "devicePath")
        if target in paths:
            errors.invalid(f"{child_path}.devicePath", target, "must be unique")
        if ".." in target.split("/"):
            errors.invalid(f"{child_path}.devicePath", target, "can not contain backsteps ('..')")
        else:
            paths.add(target)
        if name in mount_names:
            errors.invalid(f"{child_path}.name", name, "must not already exist in volumeMounts")
        if target in mount_paths:
            errors.invalid(f"{child_path}.devicePath", target, "must not already exist as a path in volumeMounts")
        if name:
            names.add(name)


def _validate_mount_options(errors: ErrorList, mount: Json, container: Json, path: str, index: int) -> None:
    """Validate a mount's optional fields. Kubernetes omits the index from most of their paths."""
    if sub := mount.get("subPath"):
        errors.check_descending_path(sub, f"{path}.subPath")
    if expression := mount.get("subPathExpr"):
        if sub:
            errors.invalid(f"{path}[{index}].subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
        errors.check_descending_path(expression, f"{path}.subPathExpr")
    errors.check_optional_enum(mount, path, "mountPropagation", ("Bidirectional", "HostToContainer", "None"))
    propagation = mount.get("mountPropagation")
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        detail = "Bidirectional mount propagation is available only to privileged containers"
        errors.forbidden(f"{path}.mountPropagation", detail)
    if mount.get("recursiveReadOnly") in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.forbidden(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true")
        if propagation not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            errors.forbidden(f"{path}.recursiveReadOnly", detail)
    else:
        errors.check_optional_enum(mount, path, "recursiveReadOnly", ("Disabled", "Enabled", "IfPossible"))


def validate_containers(errors: ErrorList, containers: list[Json], path: str, pod: PodContext) -> None:
    """Validate `spec.containers`, which needs at least one container."""
    if not containers:
        errors.required(path)
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        child_path = f"{path}[{index}]"
        _validate_container(errors, container, child_path, pod)
        errors.check_unique(seen, container.get("name") or "", f"{child_path}.name")
        if (lifecycle := container.get("lifecycle")) is not None:
            validate_lifecycle(errors, lifecycle, f"{child_path}.lifecycle", pod.grace)
        validate_probes(errors, container, child_path, pod.grace)
        _validate_restart_policy(errors, container, child_path)
    _validate_host_ports(errors, containers, path)


def validate_init_containers(errors: ErrorList, containers: list[Json], main: list[Json], path: str, pod: PodContext) -> None:
    seen = {container.get("name") for container in main}
    for index, container in enumerate(containers):
        child_path = f"{path}[{index}]"
        _validate_container(errors, container, child_path, pod)
        _validate_restart_policy(errors, container, child_path, sidecar_rules=False)
        name = container.get("name") or ""
        if name in seen:
            errors.duplicate(f"{child_path}.name", name)
        elif name:
            seen.add(name)
        _validate_host_ports(errors, [container], path)
        if container.get("restartPolicy") == "Always":
            if (lifecycle := container.get("lifecycle")) is not None:
                validate_lifecycle(errors, lifecycle, f"{child_path}.lifecycle", pod.grace)
            validate_probes(errors, container, child_path, pod.grace)
        else:
            detail = "may not be set for init containers without restartPolicy=Always"
            errors.check_unset(container, child_path, detail, "lifecycle", *_PROBES)


def validate_ephemeral_containers(errors: ErrorList, spec: Json, path: str, pod: PodContext) -> None:
    """Validate `ephemeralContainers` of the spec at a path."""
    others = {container.get("name") for field in ("containers", "initContainers") for container in spec.get(field) or ()}
    seen = set(others)
    for container, child_path in list_items(spec, path, "ephemeralContainers"):
        _validate_container(errors, container, child_path, pod)
        target = container.get("targetContainerName")
        errors.check_unique(seen, container.get("name") or "", f"{child_path}.name")
        if target and target not in others:
            errors.not_found(f"{child_path}.targetContainerName", target)
        for field in _NOT_EPHEMERAL:
            if container.get(field):
                errors.forbidden(f"{child_path}.{field}", "cannot be set for an Ephemeral Container")
        for mount, mount_path in list_items(container, child_path, "volumeMounts"):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    errors.forbidden(f"{mount_path}.{field}", "cannot be set for an Ephemeral Container")


def validate_image_padding(errors: ErrorList, containers: list[Json], path: str) -> None:
    """Images of pods must not be padded with whitespace; Kubernetes accepts it in templates."""
    for index, container in enumerate(containers):
        image = container.get("image") or ""
        if image != image.strip():
            errors.invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace")


def _validate_container(errors: ErrorList, container: Json, path: str, pod: PodContext) -> None:
    errors.check_required_name(container, path, "name", error_list.dns1123_label_errors)
    errors.check_required(container, path, "image")
    errors.check_enum(container, path, "terminationMessagePolicy", ("File", "FallbackToLogsOnError"))
    if ports := container.get("ports"):
        _validate_ports(errors, ports, f"{path}.ports")
    if env := container.get("env"):
        validate_env(errors, env, f"{path}.env")
    if sources := container.get("envFrom"):
        validate_env_from(errors, sources, f"{path}.envFrom")
    if container.get("volumeMounts"):
        validate_volume_mounts(errors, container, pod.volumes, f"{path}.volumeMounts")
    if container.get("volumeDevices"):
        validate_volume_devices(errors, container, pod.volumes, f"{path}.volumeDevices")
    errors.check_enum(container, path, "imagePullPolicy", _PULL_POLICIES)
    if resources := container.get("resources"):
        validate_resource_requirements(errors, resources, f"{path}.resources", pod.claims)
    if policies := container.get("resizePolicy"):
        _validate_resize_policies(errors, policies, f"{path}.resizePolicy", pod.restart_policy)
    if context := container.get("securityContext"):
        validate_security_context(errors, context, f"{path}.securityContext", pod.host_users)


def _validate_ports(errors: ErrorList, ports: list[Json], path: str) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        child_path = f"{path}[{index}]"
        if name := port.get("name"):
            before = len(errors)
            errors.check_name(name, f"{child_path}.name", names.port_name_errors)
            if len(errors) == before:
                errors.check_unique(seen, name, f"{child_path}.name")
        errors.check_required(port, child_path, "containerPort")
        for field in ("containerPort", "hostPort"):
            if port.get(field):
                errors.check_port(port[field], f"{child_path}.{field}")
        errors.check_enum(port, child_path, "protocol", PROTOCOLS)


def _validate_host_ports(errors: ErrorList, containers: list[Json], path: str) -> None:
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for port, port_path in list_items(container, f"{path}[{index}]", "ports"):
            if port.get("hostPort"):
                key = f"{port.get('protocol') or ''}/{port.get('hostIP') or ''}/{port['hostPort']}"
                errors.check_unique(seen, key, f"{port_path}.hostPort")


def _validate_resize_policies(errors: ErrorList, policies: list[Json], path: str, restart_policy: str) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        errors.check_unique(seen, resource, f"{path}[{index}]")
        for value, allowed in ((resource, ("cpu", "memory")), (restart, ("NotRequired", "RestartContainer"))):
            if value not in allowed:
                errors.append(field_errors.not_supported(path, value, allowed) if value else field_errors.required(path))
        if restart_policy == "Never" and restart != "NotRequired":
            errors.invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'")


def _validate_restart_policy(errors: ErrorList, container: Json, path: str, *, sidecar_rules: bool = True) -> None:
    """Validate the container-level restart policy and its exit code rules."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None and not rules:
        return
    if policy is None:
        errors.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif not sidecar_rules and policy == "Always":
        if rules:
            detail = "restartPolicyRules are not allowed for init containers with restart policy Always"
            errors.forbidden(f"{path}.restartPolicyRules", detail)
        return
    else:
        errors.check_optional_enum(container, path, "restartPolicy", ("Always", "Never", "OnFailure"))
    if policy is None and not sidecar_rules:
        return
    if len(rules) > _MAX_RESTART_RULES:
        errors.too_long(f"{path}.restartPolicyRules", _MAX_RESTART_RULES)
    for rule, rule_path in list_items(container, path, "restartPolicyRules"):
        _validate_restart_rule(errors, rule, rule_path)


def _validate_restart_rule(errors: ErrorList, rule: Json, path: str) -> None:
    errors.check_supported(rule, path, "action", ("Restart",))
    codes = rule.get("exitCodes")
    if codes is None:
        errors.required(f"{path}.exitCodes", "must be specified")
        return
    errors.check_supported(codes, f"{path}.exitCodes", "operator", ("In", "NotIn"))
    if len(codes.get("values") or ()) > _MAX_EXIT_CODES:
        errors.too_long(f"{path}.exitCodes.values", _MAX_EXIT_CODES)
