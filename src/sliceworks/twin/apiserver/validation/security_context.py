"""Security contexts of pods and containers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_supported, required, too_long
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.field_checks import MAX_INT32, Errors, check_descending_path, check_name, check_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.apiserver.validation.defaults import Json

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_is_sysctl = re.compile(_SYSCTL).fullmatch
_LONGEST_SYSCTL = 253
_LONGEST_PROFILE = 4095
_IPC_SYSCTLS = ("kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue.")
_NOT_ON_WINDOWS = "cannot be set for a windows pod"
_NOT_ON_LINUX = "windows options cannot be set for a linux pod"
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


def pod_security_errors(errors: Errors, context: Json, spec: Json, path: str) -> None:
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        if (number := context.get(field)) is not None:
            check_range(errors, number, f"{path}.{field}", 0, MAX_INT32)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        check_range(errors, group, f"{path}.supplementalGroups[{index}]", 0, MAX_INT32)
    if sysctls := context.get("sysctls"):
        _sysctls(errors, sysctls, spec, f"{path}.sysctls")
    for field, allowed in (
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
        ("seLinuxChangePolicy", ("MountOption", "Recursive")),
    ):
        if (policy := context.get(field)) is not None and policy not in allowed:
            errors.append(not_supported(f"{path}.{field}", policy, allowed))
    _profiles(errors, context, path)


def container_security_errors(errors: Errors, context: Json, path: str, host_users: bool) -> None:
    for field in ("runAsUser", "runAsGroup"):
        if (number := context.get(field)) is not None:
            check_range(errors, number, f"{path}.{field}", 0, MAX_INT32)
    if (mount := context.get("procMount")) is not None:
        if mount not in ("Default", "Unmasked"):
            errors.append(not_supported(f"{path}.procMount", mount, ("Default", "Unmasked")))
        if host_users and mount == "Unmasked":
            errors.append(invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            errors.append(invalid(path, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            errors.append(
                invalid(path, context, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
            )
    _profiles(errors, context, path)


def os_errors(errors: Errors, spec: Json, path: str) -> None:
    """Errors of fields that the pod's `spec.os` does not support."""
    name = (spec.get("os") or {}).get("name") or ""
    context = spec.get("securityContext") or {}
    if not name:
        errors.append(required(f"{path}.os.name"))
    elif name == "linux":
        for security, child_path in _contexts(spec, path):
            if security.get("windowsOptions") is not None:
                errors.append(forbidden(f"{child_path}.windowsOptions", _NOT_ON_LINUX))
    elif name == "windows":
        for field in _POD_LINUX_ONLY:
            if context.get(field) is not None:
                errors.append(forbidden(f"{path}.securityContext.{field}", _NOT_ON_WINDOWS))
        for field in ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"):
            if spec.get(field) or (spec.get(field) is False and field in ("hostUsers", "shareProcessNamespace")):
                errors.append(forbidden(f"{path}.{field}", _NOT_ON_WINDOWS))
        for security, child_path in list(_contexts(spec, path))[1:]:
            for field in _CONTAINER_LINUX_ONLY:
                if security.get(field) is not None:
                    errors.append(forbidden(f"{child_path}.{field}", _NOT_ON_WINDOWS))
    else:
        errors.append(not_supported(f"{path}.os", name, ("linux", "windows")))


def host_process_errors(errors: Errors, spec: Json, path: str) -> None:
    """HostProcess applies to all containers of a pod or to none, and requires hostNetwork."""
    (pod, _), *containers = _contexts(spec, path)
    own = (pod.get("windowsOptions") or {}).get("hostProcess")
    count = 0
    for context, child_path in containers:
        theirs = (context.get("windowsOptions") or {}).get("hostProcess")
        if own is not None and theirs is not None and own != theirs:
            detail = f"pod hostProcess value must be identical if both are specified, was {str(own).lower()}"
            errors.append(invalid(f"{child_path}.windowsOptions.hostProcess", theirs, detail))
        count += bool(own if theirs is None else theirs)
    if count and count != len(containers):
        errors.append(
            invalid(path, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
        )
    if count and not spec.get("hostNetwork"):
        errors.append(invalid(f"{path}.hostNetwork", False, "hostNetwork must be true if pod contains any hostProcess containers"))


def _contexts(spec: Json, path: str) -> Iterator[tuple[Json, str]]:
    yield spec.get("securityContext") or {}, f"{path}.securityContext"
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield container.get("securityContext") or {}, f"{path}.{field}[{index}].securityContext"


def _profiles(errors: Errors, context: Json, path: str) -> None:
    if (seccomp := context.get("seccompProfile")) is not None:
        _seccomp(errors, seccomp, f"{path}.seccompProfile")
    if (windows := context.get("windowsOptions")) is not None:
        _windows(errors, windows, f"{path}.windowsOptions")
    if (armor := context.get("appArmorProfile")) is not None:
        _app_armor(errors, armor, f"{path}.appArmorProfile")


def _seccomp(errors: Errors, profile: Json, path: str) -> None:
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(not_supported(f"{path}.type", kind, _PROFILES))
    if kind == "Localhost":
        if local is None:
            errors.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
        else:
            check_descending_path(errors, local, f"{path}.localhostProfile")
    elif local is not None:
        errors.append(invalid(f"{path}.localhostProfile", profile, "can only be set when seccomp type is Localhost"))


def _app_armor(errors: Errors, profile: Json, path: str) -> None:
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if not kind:
        errors.append(required(f"{path}.type", "type is required when appArmorProfile is set"))
    elif kind not in _PROFILES:
        errors.append(not_supported(f"{path}.type", kind, _PROFILES))
    elif kind != "Localhost":
        if local is not None:
            errors.append(invalid(f"{path}.localhostProfile", local, "can only be set when AppArmor type is Localhost"))
    elif not local:
        errors.append(required(f"{path}.localhostProfile", "must be set when AppArmor type is Localhost"))
    else:
        if local != local.strip():
            errors.append(invalid(f"{path}.localhostProfile", local, "must not be padded with whitespace"))
        if len(local.encode()) > _LONGEST_PROFILE:
            errors.append(too_long(f"{path}.localhostProfile", _LONGEST_PROFILE))


def _windows(errors: Errors, options: Json, path: str) -> None:
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        check_name(errors, name, f"{path}.gmsaCredentialSpecName", field_checks.dns1123_subdomain_errors)
    for field in ("gmsaCredentialSpec", "runAsUserName"):
        if options.get(field) == "":
            errors.append(invalid(f"{path}.{field}", "", f"{field} cannot be an empty string"))


def _sysctls(errors: Errors, sysctls: list[Json], spec: Json, path: str) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, child_path = sysctl.get("name") or "", f"{path}[{index}].name"
        if not name:
            errors.append(required(child_path))
        elif len(name) > _LONGEST_SYSCTL or not _is_sysctl(name):
            errors.append(invalid(child_path, name, f"must have at most {_LONGEST_SYSCTL} characters and match regex ^{_SYSCTL}$"))
        elif name in seen:
            errors.append(duplicate(child_path, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            errors.append(invalid(child_path, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and dotted.startswith(_IPC_SYSCTLS):
            errors.append(invalid(child_path, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)
