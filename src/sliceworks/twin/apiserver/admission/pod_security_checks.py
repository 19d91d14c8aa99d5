"""The checks of the Pod Security Standards `baseline` and `restricted` (latest). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas.field_errors import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Pod = Mapping[str, Any]
    Part = Mapping[str, Any]
    Result = tuple[str, str] | None
    Check = Callable[[Pod], Result]
_PROFILES = {"RuntimeDefault", "Localhost"}


def _spec(pod: Pod) -> Part:
    spec: Part = pod.get("spec") or {}
    return spec


def _containers(pod: Pod) -> list[Part]:
    spec = _spec(pod)
    return [part for key in ("initContainers", "containers", "ephemeralContainers") for part in spec.get(key) or ()]


def _security_context(part: Part) -> Part:
    context: Part = part.get("securityContext") or {}
    return context


def _find_violators(pod: Pod, bad: Callable[[Part], Iterable[str]]) -> tuple[list[str], list[str]]:
    """The pod and containers with bad values, as message parts; and the bad values in order."""
    values = set(bad(_spec(pod)))
    violators = ["pod"] if values else []
    containers = []
    for part in _containers(pod):
        bad_values = set(bad(part))
        if bad_values:
            containers.append(part.get("name", ""))
            values |= bad_values
    return violators + ([_name_all("container", containers)] if containers else []), sorted(values)


def _containers_adding(pod: Pod, allowed: set[str]) -> tuple[str, str]:
    """The containers that add capabilities that are not allowed, and these capabilities; both as message parts."""
    added_by = {
        part.get("name", ""): set((_security_context(part).get("capabilities") or {}).get("add") or ()) - allowed
        for part in _containers(pod)
    }
    bad = [name for name, added in added_by.items() if added]
    return (_name_all("container", bad), _quote_all(sorted(set().union(*added_by.values())))) if bad else ("", "")


def _bad_profile(part: Part, key: str) -> list[str]:
    profile = _security_context(part).get(key)
    kind = str((profile or {}).get("type", ""))
    return [kind] if profile is not None and kind not in _PROFILES else []


def _is_allowed_annotation(value: str) -> bool:
    return value in {"", "runtime/default"} or value.startswith("localhost/")


def _in_user_namespace(pod: Pod) -> bool:
    return _spec(pod).get("hostUsers") is False


def _is_windows(pod: Pod) -> bool:
    return (_spec(pod).get("os") or {}).get("name") == "windows"


def _plural(word: str, items: Iterable[Any]) -> str:
    return word if len(list(items)) == 1 else f"{word}s"


def _use(items: Iterable[Any]) -> str:
    return "uses" if len(list(items)) == 1 else "use"


def _quote_all(values: Iterable[str]) -> str:
    return ", ".join(quoted(value) for value in values)


def _name_all(word: str, names: list[str]) -> str:
    return f"{_plural(word, names)} {_quote_all(names)}"


_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP",
    "SETUID", "SYS_CHROOT",
}  # fmt: skip
_SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
}  # fmt: skip
_SELINUX = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def _app_armor(pod: Pod) -> Result:
    violators, values = _find_violators(pod, lambda part: _bad_profile(part, "appArmorProfile"))
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    bad = sorted(
        f'{key}="{value}"' for key, value in annotations.items() if key.startswith(_APPARMOR) and not _is_allowed_annotation(value)
    )
    if bad:
        violators.append("annotation" if len(bad) == 1 else "annotations")
    if not violators:
        return None
    listed = [*values, *bad]
    reason = "forbidden AppArmor profile" + ("s" if len(listed) != 1 else "")
    # Kubernetes quotes annotations, which already contain quotes.
    profiles = ", ".join(f'"{value}"' for value in listed)
    return reason, f"{' and '.join(violators)} must not set AppArmor profile type to {profiles}"


def _capabilities(pod: Pod) -> Result:
    bad, added = _containers_adding(pod, _CAPABILITIES)
    return ("non-default capabilities", f"{bad} must not include {added} in securityContext.capabilities.add") if bad else None


def _host_namespaces(pod: Pod) -> Result:
    bad = [f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if _spec(pod).get(key)]
    return ("host namespaces", ", ".join(bad)) if bad else None


def _host_paths(pod: Pod) -> Result:
    bad = [volume.get("name", "") for volume in _spec(pod).get("volumes") or () if "hostPath" in volume]
    return ("hostPath volumes", _name_all("volume", bad)) if bad else None


def _host_ports(pod: Pod) -> Result:
    used = {
        part.get("name", ""): [port["hostPort"] for port in part.get("ports") or () if port.get("hostPort")]
        for part in _containers(pod)
    }
    bad = [name for name, ports in used.items() if ports]
    numbers = sorted({str(port) for ports in used.values() for port in ports})
    if not bad:
        return None
    return "hostPort", f"{_name_all('container', bad)} {_use(bad)} {_plural('hostPort', numbers)} {', '.join(numbers)}"


def _probe_hosts(pod: Pod) -> Result:
    hosts_by_container: dict[str, list[str]] = {}
    for part in _containers(pod):
        lifecycle = part.get("lifecycle") or {}
        handlers = [part.get(key) for key in ("livenessProbe", "readinessProbe", "startupProbe")]
        for handler in (*handlers, lifecycle.get("postStart"), lifecycle.get("preStop")):
            handler_hosts = [((handler or {}).get(key) or {}).get("host") for key in ("httpGet", "tcpSocket")]
            if any(handler_hosts):
                hosts_by_container.setdefault(part.get("name", ""), []).extend(host for host in handler_hosts if host)
    if not hosts_by_container:
        return None
    names, hosts = sorted(hosts_by_container), sorted({host for hosts in hosts_by_container.values() for host in hosts})
    what = _plural("probe or lifecycle host", hosts)
    return "probe or lifecycle host", f"{_name_all('container', names)} {_use(names)} {what} {_quote_all(hosts)}"


def _privileged(pod: Pod) -> Result:
    bad = [part.get("name", "") for part in _containers(pod) if _security_context(part).get("privileged")]
    return ("privileged", f"{_name_all('container', bad)} must not set securityContext.privileged=true") if bad else None


def _proc_mount(pod: Pod) -> Result:
    mounts = {part.get("name", ""): _security_context(part).get("procMount", "Default") for part in _containers(pod)}
    bad = [name for name, value in mounts.items() if value != "Default"]
    values = _quote_all(sorted({mounts[name] for name in bad}))
    return ("procMount", f"{_name_all('container', bad)} must not set securityContext.procMount to {values}") if bad else None


def _proc_mount_outside_user_namespaces(pod: Pod) -> Result:
    return None if _in_user_namespace(pod) else _proc_mount(pod)


def _se_linux(pod: Pod) -> Result:
    def bad(part: Part) -> list[str]:
        options = _security_context(part).get("seLinuxOptions")
        if options is None:
            return []
        kind = options.get("type", "")
        rest = [key for key in ("user", "role") if options.get(key)]
        return ([f"type:{kind}"] if kind not in _SELINUX else []) + rest

    violators, values = _find_violators(pod, bad)
    if not violators:
        return None
    kinds = [value.removeprefix("type:") for value in values if value.startswith("type:")]
    data = [f"{_plural('type', kinds)} {_quote_all(kinds)}"] if kinds else []
    data += [f"{key} may not be set" for key in ("user", "role") if key in values]
    return "seLinuxOptions", f"{' and '.join(violators)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"


def _seccomp(pod: Pod) -> Result:
    violators, values = _find_violators(pod, lambda part: _bad_profile(part, "seccompProfile"))
    if not violators:
        return None
    return "seccompProfile", f"{' and '.join(violators)} must not set securityContext.seccompProfile.type to {_quote_all(values)}"


def _sysctls(pod: Pod) -> Result:
    sysctls = [sysctl.get("name", "") for sysctl in _security_context(_spec(pod)).get("sysctls") or ()]
    bad = [name for name in sysctls if name not in _SYSCTLS]
    return ("forbidden sysctls", ", ".join(bad)) if bad else None


def _windows(pod: Pod) -> Result:
    violators, _ = _find_violators(
        pod, lambda part: ["x"] if (_security_context(part).get("windowsOptions") or {}).get("hostProcess") else []
    )
    detail = f"{' and '.join(violators)} must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", detail) if violators else None


def _escalation(pod: Pod) -> Result:
    bad = [
        part.get("name", "") for part in _containers(pod) if _security_context(part).get("allowPrivilegeEscalation") is not False
    ]
    if not bad or _is_windows(pod):
        return None
    return (
        "allowPrivilegeEscalation != false",
        f"{_name_all('container', bad)} must set securityContext.allowPrivilegeEscalation=false",
    )


def _dropped_capabilities(pod: Pod) -> Result:
    if _is_windows(pod):
        return None
    keeping = [
        part.get("name", "")
        for part in _containers(pod)
        if "ALL" not in ((_security_context(part).get("capabilities") or {}).get("drop") or ())
    ]
    adding, added = _containers_adding(pod, {"NET_BIND_SERVICE"})
    details = [f'{_name_all("container", keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    details += [f"{adding} must not include {added} in securityContext.capabilities.add"] if adding else []
    return ("unrestricted capabilities", "; ".join(details)) if details else None


def _volume_types(pod: Pod) -> Result:
    volumes = _spec(pod).get("volumes") or ()
    types = {volume.get("name", ""): next((key for key in volume if key != "name"), "unknown") for volume in volumes}
    bad = {name: kind for name, kind in types.items() if kind not in _VOLUMES}
    kinds = sorted(set(bad.values()))
    if not bad:
        return None
    what = _plural("restricted volume type", kinds)
    return "restricted volume types", f"{_name_all('volume', list(bad))} {_use(bad)} {what} {_quote_all(kinds)}"


def _non_root(pod: Pod) -> Result:
    if _in_user_namespace(pod):
        return None
    violators, _ = _find_violators(pod, lambda part: ["x"] if _security_context(part).get("runAsNonRoot") is False else [])
    if violators:
        return "runAsNonRoot != true", f"{' and '.join(violators)} must not set securityContext.runAsNonRoot=false"
    if _security_context(_spec(pod)).get("runAsNonRoot"):
        return None
    bad = [part.get("name", "") for part in _containers(pod) if _security_context(part).get("runAsNonRoot") is None]
    detail = f"pod or {_name_all('container', bad)} must set securityContext.runAsNonRoot=true"
    return ("runAsNonRoot != true", detail) if bad else None


def _root_user(pod: Pod) -> Result:
    if _in_user_namespace(pod):
        return None
    violators, _ = _find_violators(pod, lambda part: ["x"] if _security_context(part).get("runAsUser") == 0 else [])
    return ("runAsUser=0", f"{' and '.join(violators)} must not set runAsUser=0") if violators else None


def _required_seccomp(pod: Pod) -> Result:
    if _is_windows(pod):
        return None
    violation = _seccomp(pod)
    if violation or _security_context(_spec(pod)).get("seccompProfile"):
        return violation
    bad = [part.get("name", "") for part in _containers(pod) if _security_context(part).get("seccompProfile") is None]
    detail = f'pod or {_name_all("container", bad)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return ("seccompProfile", detail) if bad else None


_COMMON: tuple[Check, ...] = (_host_ports, _probe_hosts, _privileged)

BASELINE: tuple[Check, ...] = (
    _app_armor,
    _capabilities,
    _host_namespaces,
    _host_paths,
    *_COMMON,
    _proc_mount_outside_user_namespaces,
    _se_linux,
    _seccomp,
    _sysctls,
    _windows,
)

RESTRICTED: tuple[Check, ...] = (
    _app_armor,
    _host_namespaces,
    *_COMMON,
    _se_linux,
    _sysctls,
    _windows,
    _escalation,
    _dropped_capabilities,
    _proc_mount,
    _volume_types,
    _non_root,
    _root_user,
    _required_seccomp,
)
