"""Names as processes look them up: a file for each pod, which is mounted as its /etc/hosts.

It says what a kubelet writes there, and what the cluster's DNS would answer about other pods and about Services. Processes that run
have the file itself mounted, and would not see another one in its place: so it is written anew where it stands.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Obj = dict[str, Any]
_DOMAIN = "svc.cluster.local"
_LOCAL = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback"
_OF_THE_MACHINE = Path("/etc/hosts")


class Named(NamedTuple):
    """A name in a namespace, which others may ask for: a Service's, or a pod's with its subdomain."""

    namespace: str
    name: str
    addresses: tuple[str, ...]

    @property
    def whole(self) -> str:
        """Its name for the whole cluster."""
        return f"{self.name}.{self.namespace}.{_DOMAIN}"

    def lines(self, namespace: str) -> list[str]:
        """Its names as one in that namespace may say them, for each address."""
        names = [self.whole, f"{self.name}.{self.namespace}.svc", f"{self.name}.{self.namespace}"]
        names += [self.name] if namespace == self.namespace else []
        return ["\t".join([address, *names]) for address in self.addresses]


class Known(NamedTuple):
    """A pod: how it is called, and where it is."""

    namespace: str
    hostname: str
    subdomain: str
    address: str

    @property
    def named(self) -> Named | None:
        """As others may ask for it, where it has a subdomain."""
        return Named(self.namespace, f"{self.hostname}.{self.subdomain}", (self.address,)) if self.subdomain else None


@dataclass(slots=True)
class _File:
    path: Path
    namespace: str
    head: str
    text: str = ""


class NameFiles:
    """The files of all pods that run, and the names that stand in each of them from the next `refresh` on."""

    def __init__(self) -> None:
        self.changed: Callable[[], None] = lambda: None
        """Called when a refresh has something to do."""
        self._pods: dict[str, Named] = {}
        self._services: list[Named] = []
        self._files: dict[str, _File] = {}

    def add(self, uid: str, pod: Known) -> None:
        """Let every pod know of another one."""
        if pod.named is not None and self._pods.get(uid) != pod.named:
            self._pods[uid] = pod.named
            self.changed()

    def know(self, services: list[Named]) -> None:
        """These are the Services that there are."""
        self._services = services

    def open(self, uid: str, own: Known, path: Path, aliases: Iterable[Obj]) -> Path:
        """The file of a pod, which is kept up to date until it is closed."""
        if uid not in self._files:
            names = [own.named.whole, own.hostname] if own.named else [own.hostname]
            lines = [_LOCAL, "\t".join([own.address, *names])]
            lines += ["\t".join([each["ip"], *each.get("hostnames", ())]) for each in aliases]
            self._files[uid] = file = _File(path, own.namespace, "\n".join(lines))
            path.touch()
            self._write(file, self._others(own.namespace))
        return path

    def close(self, uid: str) -> None:
        """The pod is gone: nobody reads its file any more, and nobody finds it."""
        self._files.pop(uid, None)
        if self._pods.pop(uid, None) is not None:
            self.changed()

    def refresh(self) -> None:
        """Write what has changed."""
        others = {namespace: self._others(namespace) for namespace in {file.namespace for file in self._files.values()}}
        for file in self._files.values():
            self._write(file, others[file.namespace])

    def _others(self, namespace: str) -> str:
        found = dict.fromkeys([*self._pods.values(), *self._services])
        return "\n".join([*(line for each in found for line in each.lines(namespace)), _machine()])

    def _write(self, file: _File, others: str) -> None:
        text = f"{file.head}\n{others}\n"
        if text != file.text:
            file.text = text
            _rewrite(file.path, text.encode())


def _rewrite(path: Path, data: bytes) -> None:
    """Whoever reads it meanwhile finds whole lines: what the file loses is blank before it is cut off."""
    with path.open("r+b", buffering=0) as file:
        file.write(data.ljust(os.fstat(file.fileno()).st_size, b"\n"))
        file.truncate(len(data))


def _machine() -> str:
    """What the machine says of others; the machine is every pod's image."""
    try:
        return _OF_THE_MACHINE.read_text(errors="replace").strip()
    except OSError:
        return ""
