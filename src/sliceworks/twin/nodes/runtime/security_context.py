"""Security contexts: user, groups, capabilities and root file system of a container, as words for the sandbox."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Obj = dict[str, Any]
_CAPABILITIES = tuple(
    word
    for words in (
        "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE",
        "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN",
        "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE",
        "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE",
    )
    for word in words.split()
)
"""In the order of the kernel."""
_ALL = (1 << len(_CAPABILITIES)) - 1


def _mask(names: Iterable[str]) -> int:
    """The bits of capabilities; unknown names have none."""
    known = {name.removeprefix("CAP_") for name in names}
    return _ALL if "ALL" in known else sum(1 << at for at, name in enumerate(_CAPABILITIES) if name in known)


_DROPPED = (
    "DAC_READ_SEARCH LINUX_IMMUTABLE NET_BROADCAST NET_ADMIN IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_PTRACE SYS_PACCT",
    "SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG LEASE AUDIT_CONTROL MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM",
    "BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE",
)
_DEFAULT = _ALL & ~_mask([name for names in _DROPPED for name in names.split()])
"""The capabilities of a container in containerd."""


class SecurityContext(NamedTuple):
    """What the processes of a container may do."""

    user: int = 0
    group: int = 0
    groups: tuple[int, ...] = ()
    capabilities: int = _DEFAULT
    can_gain_privileges: bool = True
    has_read_only_root: bool = False
    is_forbidden_root: bool = False
    """Whether `runAsNonRoot` is set and the user is root."""

    @property
    def has_other_user(self) -> bool:
        """Whether the container runs as another user than the twin."""
        return os.geteuid() == 0 and self.user != 0

    def own(self, path: Path) -> None:
        """Give a file of the container to its user."""
        if self.has_other_user:
            os.chown(path, self.user, self.group)

    def mounts(self) -> list[tuple[str, str, str]]:
        """Words for the sandbox; without root a container always runs as the user of the twin."""
        read_only = [("read-only-root", "-", "-")] if self.has_read_only_root else []
        if os.geteuid() != 0:
            return read_only
        user = f"{self.user}:{self.group}:{','.join(map(str, self.groups))}"
        return [*read_only, ("user", user, f"{self.capabilities:x}:{int(self.can_gain_privileges)}")]


def read_security_context(spec: Obj, container: Obj) -> SecurityContext:
    """The security context of a container: its own fields, else those of the pod."""
    pod, own = spec.get("securityContext") or {}, container.get("securityContext") or {}
    merged = {**pod, **{name: value for name, value in own.items() if value is not None}}
    groups = [*(pod.get("supplementalGroups") or ()), *([pod["fsGroup"]] if pod.get("fsGroup") is not None else [])]
    user = int(merged.get("runAsUser") or 0)
    return SecurityContext(
        user,
        int(merged.get("runAsGroup") or 0),
        tuple(groups),
        _ALL if own.get("privileged") else _capabilities(own.get("capabilities") or {}),
        own.get("allowPrivilegeEscalation") is not False,
        bool(own.get("readOnlyRootFilesystem")),
        bool(merged.get("runAsNonRoot")) and user == 0,
    )


def _capabilities(rule: Obj) -> int:
    return (_DEFAULT & ~_mask(rule.get("drop") or [])) | _mask(rule.get("add") or [])
