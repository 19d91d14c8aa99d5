"""Names of pods as their processes look them up: a file for each pod, which is mounted as its /etc/hosts.

It says what a kubelet writes there, and what the cluster's DNS would answer about other pods. A file is only ever added to:
processes that run have it mounted, and would not see another one in its place. So a name stays known when its pod is gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

Obj = dict[str, Any]
_DOMAIN = "svc.cluster.local"
_LOCAL = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback"
_OF_THE_MACHINE = Path("/etc/hosts")


class Known(NamedTuple):
    """A pod that others may ask for."""

    namespace: str
    hostname: str
    subdomain: str
    address: str

    @property
    def whole(self) -> str:
        """Its name for the whole cluster."""
        return f"{self.hostname}.{self.subdomain}.{self.namespace}.{_DOMAIN}"

    def line(self, namespace: str) -> str:
        """Its names as one in that namespace may say them."""
        short = f"{self.hostname}.{self.subdomain}"
        names = [self.whole, f"{short}.{self.namespace}.svc", f"{short}.{self.namespace}"]
        return "\t".join([self.address, *names, *([short] if namespace == self.namespace else ())])


class NameFiles:
    """The files of all pods that run, and the names that stand in each of them."""

    def __init__(self) -> None:
        self._known: dict[Known, None] = {}
        self._files: dict[str, tuple[str, Path]] = {}

    def add(self, pod: Known) -> None:
        """Let every pod know of another one."""
        if not pod.subdomain or pod in self._known:
            return
        self._known[pod] = None
        for namespace, path in self._files.values():
            with path.open("a") as file:
                file.write(f"{pod.line(namespace)}\n")

    def open(self, uid: str, own: Known, path: Path, aliases: Iterable[Obj]) -> Path:
        """The file of a pod, which is kept up to date until it is closed."""
        if uid not in self._files:
            names = [own.whole, own.hostname] if own.subdomain else [own.hostname]
            lines = [_LOCAL, "\t".join([own.address, *names])]
            lines += ["\t".join([each["ip"], *each.get("hostnames", ())]) for each in aliases]
            lines += [each.line(own.namespace) for each in self._known]
            path.write_text("\n".join([*lines, _machine()]) + "\n")
            self._files[uid] = own.namespace, path
        return path

    def close(self, uid: str) -> None:
        """Nobody reads this pod's file any more."""
        self._files.pop(uid, None)


def _machine() -> str:
    """What the machine says of others; the machine is every pod's image."""
    try:
        return _OF_THE_MACHINE.read_text(errors="replace").strip()
    except OSError:
        return ""
