"""Runs a pod's container from one of our images with crun, as a node does.

It has the pod's user, command, variables and volumes, a read-only root, no capabilities, and the default seccomp profile.
Processes, devices and mounts are isolated; the network is that of the caller.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from tests.heavy import images
from tests.real.processes import NotReady, Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Object = dict[str, Any]
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_PROFILE = Path("/usr/share/containers/seccomp.json")
_ARCHITECTURES = {"x86_64": ("amd64", "SCMP_ARCH_X86_64"), "aarch64": ("arm64", "SCMP_ARCH_AARCH64")}
_KINDS = ("bounding", "effective", "inheritable", "permitted", "ambient")
_SYSTEM: tuple[Object, ...] = (
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "nodev", "mode=1777"]},
)
# crun rejects a machine with hybrid cgroups v1 and v2, and needs no cgroups here.
_START = 'mountpoint -q /sys/fs/cgroup/unified && umount --lazy /sys/fs/cgroup/unified; exec "$@"'


@dataclass(frozen=True)
class Given:
    """What a node provides for a pod: files of its volumes, its service account's files, and values of referenced variables."""

    files: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    account: Mapping[str, bytes] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


class Container(Process):
    """A running container."""

    def __init__(self, bundle: Path) -> None:
        self.crun = ("crun", "--root", str(bundle / "state"), "--cgroup-manager=disabled")
        command = ("unshare", "--mount", "sh", "-c", _START, "sh", *self.crun, "run", "--bundle", str(bundle), "it")
        super().__init__("the container", command, bundle / "log")

    @property
    def first(self) -> int:
        """The host's pid of its first process."""
        state = subprocess.run([*self.crun, "state", "it"], capture_output=True, check=True).stdout
        return int(orjson.loads(state)["pid"])

    def most_memory(self) -> int:
        """The peak memory of its first process, in bytes."""
        status = Path(f"/proc/{self.first}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def end(self, within: float) -> int:
        """Stop it as a node does; returns its exit status."""
        subprocess.run([*self.crun, "kill", "it", "TERM"], capture_output=True, check=True)
        return self.ended(within)

    def ended(self, within: float) -> int:
        """Wait for its exit; returns its exit status."""
        deadline = time.monotonic() + within
        assert self._popen is not None
        try:
            return self._popen.wait(max(deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            raise NotReady(f"it runs on after {within:.0f} s:\n{self.tail()}") from None

    def close(self) -> None:
        """Kill what is left of it."""
        if self.alive():
            subprocess.run([*self.crun, "kill", "it", "KILL"], capture_output=True, check=False)
        self.kill()


@contextmanager
def started(image: str, pod: Object, work: Path, given: Given | None = None) -> Iterator[Container]:
    """Run the first container of a pod's spec from one of our images, whatever image it names."""
    given = given or Given()
    work.mkdir(parents=True, exist_ok=True)
    with images.unpacked(image) as root:
        mounts = [*_SYSTEM, *_volumes(pod, work, given)]
        (work / "config.json").write_bytes(orjson.dumps(configuration(root, images.described(image)["config"], pod, mounts, given)))
        container = Container(work)
        try:
            yield container
        finally:
            container.close()


def configuration(root: Path, image: Object, pod: Object, mounts: list[Object], given: Given) -> Object:
    """The crun configuration."""
    container, context = pod["containers"][0], pod.get("securityContext", {})
    own = container.get("securityContext", {})
    args = [*(container.get("command") or image.get("Entrypoint") or []), *(container.get("args") or image.get("Cmd") or [])]
    if container.get("command") and not container.get("args"):
        args = list(container["command"])
    user, group = image["User"].split(":")
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": context.get("runAsUser", int(user)), "gid": context.get("runAsGroup", int(group))},
            "args": args,
            "cwd": image["WorkingDir"],
            "env": [*image["Env"], *(f"{name}={value}" for name, value in _variables(container, given).items())],
            "noNewPrivileges": not own.get("allowPrivilegeEscalation", True),
            "capabilities": {kind: [] for kind in _KINDS},
        },
        "root": {"path": str(root), "readonly": own.get("readOnlyRootFilesystem", False)},
        "mounts": mounts,
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
            "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger"],
            "seccomp": _system_calls(),
        },
    }


def _variables(container: Object, given: Given) -> dict[str, str]:
    """Referenced values must be provided; the image's variables come first."""
    reported = {
        variable["name"]: variable["value"] if "value" in variable else given.variables[variable["name"]]
        for variable in container.get("env", ())
    }
    return {**given.variables, **reported}


def _volumes(pod: Object, work: Path, given: Given) -> list[Object]:
    group = pod.get("securityContext", {}).get("fsGroup", 0)
    result = [_mounted(ACCOUNT, _filled(work / "account", given.account), "ro")] if given.account else []
    kinds = {volume["name"]: volume for volume in pod.get("volumes", ())}
    for mount in pod["containers"][0].get("volumeMounts", ()):
        name = mount["name"]
        place = _filled(work / f"volume-{name}", given.files.get(name, {}))
        if "emptyDir" in kinds[name]:
            os.chown(place, 0, group)
            place.chmod(0o2777)
        result.append(_mounted(mount["mountPath"], place, "ro" if mount.get("readOnly") else "rw"))
    return result


def _mounted(destination: str, place: Path, mode: str) -> Object:
    return {"destination": destination, "type": "bind", "source": str(place), "options": ["rbind", mode, "nosuid", "nodev"]}


def _filled(place: Path, files: Mapping[str, bytes]) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (place / name).write_bytes(content)
    return place


def _system_calls() -> Object:
    """The default seccomp profile of container runtimes, for a container without capabilities on this machine."""
    profile = orjson.loads(_PROFILE.read_bytes())
    short, long = _ARCHITECTURES[platform.machine()]
    calls = []
    for rule in profile["syscalls"]:
        expected, unwanted = rule.get("includes") or {}, rule.get("excludes") or {}
        if expected.get("caps") or short not in expected.get("arches", [short]) or short in unwanted.get("arches", []):
            continue
        calls.append({key: rule[key] for key in ("names", "action", "args", "errnoRet") if rule.get(key)})
    return {"defaultAction": profile["defaultAction"], "architectures": [long], "syscalls": calls}
