"""The checks of the pod security standards `baseline` and `restricted`, in their newest form. Pure.

Each check gives the reason and the detail that Kubernetes would give, or None when the pod passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.admission.pod_parts import (
    adding_beyond,
    annotation_good,
    bad_profile,
    containers_of,
    context_of,
    in_user_namespace,
    is_windows,
    named_all,
    plural_of,
    quoted_all,
    spec_of,
    use_of,
    who_sets,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Pod = Mapping[str, Any]
    Part = Mapping[str, Any]
    Result = tuple[str, str] | None
    Check = Callable[[Pod], Result]

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
    setters, values = who_sets(pod, lambda part: bad_profile(part, "appArmorProfile"))
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    bad = sorted(
        f'{key}="{value}"' for key, value in annotations.items() if key.startswith(_APPARMOR) and not annotation_good(value)
    )
    if bad:
        setters.append("annotation" if len(bad) == 1 else "annotations")
    if not setters:
        return None
    listed = [*values, *bad]
    reason = "forbidden AppArmor profile" + ("s" if len(listed) != 1 else "")
    # Kubernetes puts annotations into quotes though they hold some already.
    shown = ", ".join(f'"{value}"' for value in listed)
    return reason, f"{' and '.join(setters)} must not set AppArmor profile type to {shown}"


def _capabilities(pod: Pod) -> Result:
    bad, added = adding_beyond(pod, _CAPABILITIES)
    return ("non-default capabilities", f"{bad} must not include {added} in securityContext.capabilities.add") if bad else None


def _host_namespaces(pod: Pod) -> Result:
    found = [f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if spec_of(pod).get(key)]
    return ("host namespaces", ", ".join(found)) if found else None


def _host_paths(pod: Pod) -> Result:
    found = [volume.get("name", "") for volume in spec_of(pod).get("volumes") or () if "hostPath" in volume]
    return ("hostPath volumes", named_all("volume", found)) if found else None


def _host_ports(pod: Pod) -> Result:
    used = {
        part.get("name", ""): [port["hostPort"] for port in part.get("ports") or () if port.get("hostPort")]
        for part in containers_of(pod)
    }
    bad = [name for name, ports in used.items() if ports]
    numbers = sorted({str(port) for ports in used.values() for port in ports})
    if not bad:
        return None
    return "hostPort", f"{named_all('container', bad)} {use_of(bad)} {plural_of('hostPort', numbers)} {', '.join(numbers)}"


def _probe_hosts(pod: Pod) -> Result:
    found: dict[str, list[str]] = {}
    for part in containers_of(pod):
        life = part.get("lifecycle") or {}
        handlers = [part.get(key) for key in ("livenessProbe", "readinessProbe", "startupProbe")]
        for handler in (*handlers, life.get("postStart"), life.get("preStop")):
            hosts = [((handler or {}).get(key) or {}).get("host") for key in ("httpGet", "tcpSocket")]
            if any(hosts):
                found.setdefault(part.get("name", ""), []).extend(host for host in hosts if host)
    if not found:
        return None
    named = sorted({host for each in found.values() for host in each})
    what = plural_of("probe or lifecycle host", named)
    return "probe or lifecycle host", f"{named_all('container', sorted(found))} {use_of(found)} {what} {quoted_all(named)}"


def _privileged(pod: Pod) -> Result:
    bad = [part.get("name", "") for part in containers_of(pod) if context_of(part).get("privileged")]
    return ("privileged", f"{named_all('container', bad)} must not set securityContext.privileged=true") if bad else None


def _proc_mount(pod: Pod) -> Result:
    found = {part.get("name", ""): context_of(part).get("procMount", "Default") for part in containers_of(pod)}
    bad = [name for name, value in found.items() if value != "Default"]
    values = quoted_all(sorted({found[name] for name in bad}))
    return ("procMount", f"{named_all('container', bad)} must not set securityContext.procMount to {values}") if bad else None


def _proc_mount_outside_user_namespaces(pod: Pod) -> Result:
    return None if in_user_namespace(pod) else _proc_mount(pod)


def _se_linux(pod: Pod) -> Result:
    def bad(part: Part) -> list[str]:
        options = context_of(part).get("seLinuxOptions")
        if options is None:
            return []
        kind = options.get("type", "")
        rest = [key for key in ("user", "role") if options.get(key)]
        return ([f"type:{kind}"] if kind not in _SELINUX else []) + rest

    setters, values = who_sets(pod, bad)
    if not setters:
        return None
    kinds = [value.removeprefix("type:") for value in values if value.startswith("type:")]
    data = [f"{plural_of('type', kinds)} {quoted_all(kinds)}"] if kinds else []
    data += [f"{key} may not be set" for key in ("user", "role") if key in values]
    return "seLinuxOptions", f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"


def _seccomp(pod: Pod) -> Result:
    setters, values = who_sets(pod, lambda part: bad_profile(part, "seccompProfile"))
    if not setters:
        return None
    return "seccompProfile", f"{' and '.join(setters)} must not set securityContext.seccompProfile.type to {quoted_all(values)}"


def _sysctls(pod: Pod) -> Result:
    found = [each.get("name", "") for each in context_of(spec_of(pod)).get("sysctls") or () if each.get("name") not in _SYSCTLS]
    return ("forbidden sysctls", ", ".join(found)) if found else None


def _windows(pod: Pod) -> Result:
    setters, _ = who_sets(pod, lambda part: ["x"] if (context_of(part).get("windowsOptions") or {}).get("hostProcess") else [])
    detail = f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    return ("hostProcess", detail) if setters else None


def _escalation(pod: Pod) -> Result:
    bad = [part.get("name", "") for part in containers_of(pod) if context_of(part).get("allowPrivilegeEscalation") is not False]
    if not bad or is_windows(pod):
        return None
    return (
        "allowPrivilegeEscalation != false",
        f"{named_all('container', bad)} must set securityContext.allowPrivilegeEscalation=false",
    )


def _dropped_capabilities(pod: Pod) -> Result:
    if is_windows(pod):
        return None
    keeping = [
        part.get("name", "")
        for part in containers_of(pod)
        if "ALL" not in ((context_of(part).get("capabilities") or {}).get("drop") or ())
    ]
    adding, added = adding_beyond(pod, {"NET_BIND_SERVICE"})
    details = [f'{named_all("container", keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    details += [f"{adding} must not include {added} in securityContext.capabilities.add"] if adding else []
    return ("unrestricted capabilities", "; ".join(details)) if details else None


def _volume_types(pod: Pod) -> Result:
    found = {v.get("name", ""): next((key for key in v if key != "name"), "unknown") for v in spec_of(pod).get("volumes") or ()}
    bad = {name: kind for name, kind in found.items() if kind not in _VOLUMES}
    kinds = sorted(set(bad.values()))
    if not bad:
        return None
    what = plural_of("restricted volume type", kinds)
    return "restricted volume types", f"{named_all('volume', list(bad))} {use_of(bad)} {what} {quoted_all(kinds)}"


def _non_root(pod: Pod) -> Result:
    if in_user_namespace(pod):
        return None
    setters, _ = who_sets(pod, lambda part: ["x"] if context_of(part).get("runAsNonRoot") is False else [])
    if setters:
        return "runAsNonRoot != true", f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false"
    if context_of(spec_of(pod)).get("runAsNonRoot"):
        return None
    bad = [part.get("name", "") for part in containers_of(pod) if context_of(part).get("runAsNonRoot") is None]
    detail = f"pod or {named_all('container', bad)} must set securityContext.runAsNonRoot=true"
    return ("runAsNonRoot != true", detail) if bad else None


def _root_user(pod: Pod) -> Result:
    if in_user_namespace(pod):
        return None
    setters, _ = who_sets(pod, lambda part: ["x"] if context_of(part).get("runAsUser") == 0 else [])
    return ("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def _some_seccomp(pod: Pod) -> Result:
    if is_windows(pod):
        return None
    found = _seccomp(pod)
    if found or context_of(spec_of(pod)).get("seccompProfile"):
        return found
    bad = [part.get("name", "") for part in containers_of(pod) if context_of(part).get("seccompProfile") is None]
    detail = f'pod or {named_all("container", bad)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
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
    _some_seccomp,
)
