"""Security contexts of pods and containers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.twin.apiserver.validation.error_list import MAX_INT32, ErrorList, list_items

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.apiserver.validation.defaults import Json

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_is_sysctl = re.compile(_SYSCTL).fullmatch
_MAX_SYSCTL_LENGTH = 253
_MAX_PROFILE_BYTES = 4095
_IPC_SYSCTLS = ("kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue.")
_NOT_ON_WINDOWS = "cannot be set for a windows pod"
_POD_LINUX_ONLY = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
]
_CONTAINER_LINUX_ONLY = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
]


def validate_pod_security_context(errors: ErrorList, context: Json, spec: Json, path: str) -> None:
    _validate_ids(errors, context, path, "fsGroup", "runAsUser", "runAsGroup")
    for group, group_path in list_items(context, path, "supplementalGroups"):
        errors.check_range(group, group_path, 0, MAX_INT32)
    if sysctls := context.get("sysctls"):
        _validate_sysctls(errors, sysctls, spec, f"{path}.sysctls")
    errors.check_optional_enum(context, path, "fsGroupChangePolicy", ("Always", "OnRootMismatch"))
    errors.check_optional_enum(context, path, "supplementalGroupsPolicy", ("Merge", "Strict"))
    errors.check_optional_enum(context, path, "seLinuxChangePolicy", ("MountOption", "Recursive"))
    _validate_profiles(errors, context, path)


def validate_security_context(errors: ErrorList, context: Json, path: str, host_users: bool) -> None:
    _validate_ids(errors, context, path, "runAsUser", "runAsGroup")
    errors.check_optional_enum(context, path, "procMount", ("Default", "Unmasked"))
    if host_users and context.get("procMount") == "Unmasked":
        errors.invalid(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            errors.invalid(path, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            errors.invalid(path, context, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
    _validate_profiles(errors, context, path)


def _validate_ids(errors: ErrorList, context: Json, path: str, *fields: str) -> None:
    """Validate user and group IDs."""
    for field in fields:
        if (number := context.get(field)) is not None:
            errors.check_range(number, f"{path}.{field}", 0, MAX_INT32)


def validate_os(errors: ErrorList, spec: Json, path: str) -> None:
    """Validate fields that the pod's `spec.os` does not support."""
    name = (spec.get("os") or {}).get("name") or ""
    (pod, pod_path), *containers = _contexts(spec, path)
    if not name:
        errors.required(f"{path}.os.name")
    elif name == "linux":
        for context, context_path in ((pod, pod_path), *containers):
            errors.check_unset(context, context_path, "windows options cannot be set for a linux pod", "windowsOptions")
    elif name == "windows":
        errors.check_unset(pod, pod_path, _NOT_ON_WINDOWS, *_POD_LINUX_ONLY)
        for field in ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"):
            if spec.get(field) or (spec.get(field) is False and field in ("hostUsers", "shareProcessNamespace")):
                errors.forbidden(f"{path}.{field}", _NOT_ON_WINDOWS)
        for context, context_path in containers:
            errors.check_unset(context, context_path, _NOT_ON_WINDOWS, *_CONTAINER_LINUX_ONLY)
    else:
        errors.not_supported(f"{path}.os", name, ("linux", "windows"))


def validate_host_process(errors: ErrorList, spec: Json, path: str) -> None:
    """HostProcess applies to all containers of a pod or to none, and requires hostNetwork."""
    (pod, _), *containers = _contexts(spec, path)
    own = (pod.get("windowsOptions") or {}).get("hostProcess")
    count = 0
    for context, child_path in containers:
        theirs = (context.get("windowsOptions") or {}).get("hostProcess")
        if own is not None and theirs is not None and own != theirs:
            detail = f"pod hostProcess value must be identical if both are specified, was {str(own).lower()}"
            errors.invalid(f"{child_path}.windowsOptions.hostProcess", theirs, detail)
        count += bool(own if theirs is None else theirs)
    if count and count != len(containers):
        errors.invalid(path, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
    if count and not spec.get("hostNetwork"):
        errors.invalid(f"{path}.hostNetwork", False, "hostNetwork must be true if pod contains any hostProcess containers")


def _contexts(spec: Json, path: str) -> Iterator[tuple[Json, str]]:
    yield spec.get("securityContext") or {}, f"{path}.securityContext"
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container, container_path in list_items(spec, path, field):
            yield container.get("securityContext") or {}, f"{container_path}.securityContext"


def _validate_profiles(errors: ErrorList, context: Json, path: str) -> None:
    if (seccomp := context.get("seccompProfile")) is not None:
        _validate_seccomp(errors, seccomp, f"{path}.seccompProfile")
    if (windows := context.get("windowsOptions")) is not None:
        _validate_windows(errors, windows, f"{path}.windowsOptions")
    if (armor := context.get("appArmorProfile")) is not None:
        _validate_app_armor(errors, armor, f"{path}.appArmorProfile")


def _validate_seccomp(errors: ErrorList, profile: Json, path: str) -> None:
    local = profile.get("localhostProfile")
    errors.check_enum(profile, path, "type", _PROFILES, absent="type is required when seccompProfile is set")
    if profile.get("type") == "Localhost":
        if local is None:
            errors.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
        else:
            errors.check_descending_path(local, f"{path}.localhostProfile")
    elif local is not None:
        errors.invalid(f"{path}.localhostProfile", profile, "can only be set when seccomp type is Localhost")


def _validate_app_armor(errors: ErrorList, profile: Json, path: str) -> None:
    kind, local = profile.get("type"), profile.get("localhostProfile")
    errors.check_enum(profile, path, "type", _PROFILES, absent="type is required when appArmorProfile is set")
    if kind not in _PROFILES:
        return
    if kind != "Localhost":
        if local is not None:
            errors.invalid(f"{path}.localhostProfile", local, "can only be set when AppArmor type is Localhost")
    elif not local:
        errors.required(f"{path}.localhostProfile", "must be set when AppArmor type is Localhost")
    else:
        if local != local.strip():
            errors.invalid(f"{path}.localhostProfile", local, "must not be padded with whitespace")
        if len(local.encode()) > _MAX_PROFILE_BYTES:
            errors.too_long(f"{path}.localhostProfile", _MAX_PROFILE_BYTES)


def _validate_windows(errors: ErrorList, options: Json, path: str) -> None:
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        errors.check_dns_subdomain(name, f"{path}.gmsaCredentialSpecName")
    for field in ("gmsaCredentialSpec", "runAsUserName"):
        if options.get(field) == "":
            errors.invalid(f"{path}.{field}", "", f"{field} cannot be an empty string")


def _validate_sysctls(errors: ErrorList, sysctls: list[Json], spec: Json, path: str) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, child_path = sysctl.get("name") or "", f"{path}[{index}].name"
        if not name:
            errors.required(child_path)
        elif len(name) > _MAX_SYSCTL_LENGTH or not _is_sysctl(name):
            errors.invalid(child_path, name, f"must have at most {_MAX_SYSCTL_LENGTH} characters and match regex ^{_SYSCTL}$")
        elif name in seen:
            errors.duplicate(child_path, name)
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            errors.invalid(child_path, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and dotted.startswith(_IPC_SYSCTLS):
            errors.invalid(child_path, name, "may not be specified when 'hostIPC' is true")
        seen.add(name)
