"""Loopback addresses and DNS names of pods and Services, written to a hosts file per pod."""

from __future__ import annotations

import os
import re
import socket
import sys
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
Obj = dict[str, Any]
_DOMAIN = "svc.cluster.local"
_LOCAL = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback"
_MACHINE_HOSTS = Path("/etc/hosts")


class DnsName(NamedTuple):
    """The DNS name of a Service, or of a pod with a subdomain, in a namespace."""

    namespace: str
    name: str
    addresses: tuple[str, ...]

    @property
    def fqdn(self) -> str:
        """The fully qualified name."""
        return f"{self.name}.{self.namespace}.{_DOMAIN}"

    def lines(self, namespace: str) -> list[str]:
        """Lines of a hosts file with the names that pods of a namespace can use."""
        names = [self.fqdn, f"{self.name}.{self.namespace}.svc", f"{self.name}.{self.namespace}"]
        names += [self.name] if namespace == self.namespace else []
        return ["\t".join([address, *names]) for address in self.addresses]


class PodHostname(NamedTuple):
    """The host name, subdomain and address of a pod."""

    namespace: str
    hostname: str
    subdomain: str
    address: str

    @property
    def dns_name(self) -> DnsName | None:
        """The DNS name of a pod with a subdomain."""
        return DnsName(self.namespace, f"{self.hostname}.{self.subdomain}", (self.address,)) if self.subdomain else None


@dataclass(slots=True)
class _HostsFile:
    path: Path
    namespace: str
    head: str
    content: str = ""


class HostsFiles:
    """The hosts files of all running pods, updated by `refresh`."""

    def __init__(self) -> None:
        self.on_changed: Callable[[], None] = lambda: None
        """Called when `refresh` has changes to write."""
        self._pods: dict[str, DnsName] = {}
        self._services: list[DnsName] = []
        self._files: dict[str, _HostsFile] = {}

    def add(self, uid: str, pod: PodHostname) -> None:
        """Add a pod to the hosts files of all pods."""
        if pod.dns_name is not None and self._pods.get(uid) != pod.dns_name:
            self._pods[uid] = pod.dns_name
            self.on_changed()

    def set_services(self, services: list[DnsName]) -> None:
        """Replace the names of Services."""
        self._services = services

    def open(self, uid: str, own: PodHostname, path: Path, aliases: Iterable[Obj]) -> Path:
        """Create the hosts file of a pod, which `refresh` updates until `close`."""
        if uid not in self._files:
            names = [own.dns_name.fqdn, own.hostname] if own.dns_name else [own.hostname]
            lines = [_LOCAL, "\t".join([own.address, *names])]
            lines += ["\t".join([alias["ip"], *alias.get("hostnames", ())]) for alias in aliases]
            self._files[uid] = file = _HostsFile(path, own.namespace, "\n".join(lines))
            path.touch()
            self._write(file, self._shared_lines(own.namespace))
        return path

    def close(self, uid: str) -> None:
        """Remove a deleted pod and its hosts file."""
        self._files.pop(uid, None)
        if self._pods.pop(uid, None) is not None:
            self.on_changed()

    def refresh(self) -> None:
        """Rewrite the files that have changed."""
        shared = {namespace: self._shared_lines(namespace) for namespace in {file.namespace for file in self._files.values()}}
        for file in self._files.values():
            self._write(file, shared[file.namespace])

    @property
    def names(self) -> list[DnsName]:
        """The names of pods and Services."""
        return list(dict.fromkeys([*self._pods.values(), *self._services]))

    def _shared_lines(self, namespace: str) -> str:
        names = self.names
        return "\n".join([*(line for name in names for line in name.lines(namespace)), _machine_hosts()])

    def _write(self, file: _HostsFile, shared: str) -> None:
        content = f"{file.head}\n{shared}\n"
        if content != file.content:
            file.content = content
            _rewrite(file.path, content.encode())


def _rewrite(path: Path, data: bytes) -> None:
    """Overwrite a file in place; concurrent readers see whole lines, because removed content is blank before truncation."""
    with path.open("r+b", buffering=0) as file:
        file.write(data.ljust(os.fstat(file.fileno()).st_size, b"\n"))
        file.truncate(len(data))


def _machine_hosts() -> str:
    """The hosts file of this machine."""
    try:
        return _MACHINE_HOSTS.read_text(errors="replace").strip()
    except OSError:
        return ""


_LOOPBACK = "127.0.0.1"
_MAX_ADDRESSES = (1 << 15) - 2  # afterwards the oldest addresses are reused


class LoopbackNetworks(NamedTuple):
    """The networks of a twin's pods and Services."""

    pods: IPv4Network
    services: IPv4Network


class LoopbackRange:
    """The network 127.N.0.0/16, reserved for one twin of this machine until `close`, or another one whose addresses all work.

    N is 0 where only 127.0.0.1 works. The reservation is an abstract socket, which the kernel releases when the process dies.
    """

    def __init__(self, network: IPv4Network | None = None) -> None:
        self._reservation = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.number = self._claim() if sys.platform == "linux" else 0
        self._network = network or (IPv4Network(f"127.{self.number}.0.0/16") if self.number else None)

    def _claim(self) -> int:
        for number in range(1, 255):
            try:
                self._reservation.bind(f"\0sliceworks-loopback-{number}")
            except OSError:
                continue
            return number
        self._reservation.close()
        raise SliceworksError(
            "no free loopback network: 254 twins run processes on this machine", hint="stop some: sliceworks twin status"
        )

    @property
    def networks(self) -> LoopbackNetworks | None:
        """The networks of pods and Services; None where only 127.0.0.1 works."""
        return LoopbackNetworks(*self._network.subnets()) if self._network is not None else None

    def close(self) -> None:
        """Release the network."""
        self._reservation.close()


def hostname(pod: Obj) -> str:
    """The host name of a pod."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63]


class PodHosts:
    """Allocates the address of each host name in the network of pods; all share 127.0.0.1 without one.

    A pod keeps the address of its host name when it is replaced; another pod with the same host name gets its own.
    """

    def __init__(self, network: IPv4Network | None) -> None:
        self._first = int(network.network_address) + 1 if network is not None else 0
        self._addresses: dict[tuple[str, str, str], str] = {}
        self._owners: dict[str, str] = {}
        """The name of the pod that has an address."""
        self._pods: dict[str, str] = {}
        """The address of each registered pod, by UID."""
        self.files = HostsFiles()
        self.dns_server = ""
        """The address of the DNS server, if there is one."""

    def address(self, namespace: str, name: str, subdomain: str = "") -> str:
        """The address of a pod by host name and subdomain."""
        if not self._first:
            return _LOOPBACK
        key = (namespace, subdomain, name)
        if key not in self._addresses:
            number = self._first + len(self._addresses) % _MAX_ADDRESSES
            self._addresses[key] = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
        return self._addresses[key]

    def register(self, pod: Obj) -> str:
        """Add the name of a pod to the hosts files; returns its address."""
        metadata = pod["metadata"]
        key = (metadata["namespace"], hostname(pod), pod["spec"].get("subdomain") or "")
        address = self.address(*key)
        owner = f"{metadata['namespace']}/{metadata['name']}"
        if self._owners.setdefault(address, owner) != owner and self._first:
            address = self.address(metadata["namespace"], f"{key[1]} of {metadata['name']}", key[2])
        self._pods[metadata["uid"]] = address
        own = self.hostname_of(pod)
        self.files.add(metadata["uid"], own)
        return own.address

    def release(self, uid: str) -> None:
        """Forget a deleted pod."""
        self.files.close(uid)
        address = self._pods.pop(uid, "")
        if address not in self._pods.values():
            self._owners.pop(address, None)

    def hostname_of(self, pod: Obj) -> PodHostname:
        """The host name and address of a pod."""
        namespace, name, subdomain = pod["metadata"]["namespace"], hostname(pod), pod["spec"].get("subdomain") or ""
        address = self._pods.get(pod["metadata"]["uid"]) or self.address(namespace, name, subdomain)
        return PodHostname(namespace, name, subdomain, address)

    def replace_names(self, value: str, namespace: str, subdomain: str) -> str:
        """Replace the names of pods in a subdomain by their addresses."""
        if not subdomain or f".{subdomain}" not in value:
            return value
        tail = rf"\.{re.escape(subdomain)}(?:\.{re.escape(namespace)}(?:\.svc(?:\.cluster\.local)?)?)?(?![A-Za-z0-9-]|\.[A-Za-z])"
        return re.sub(rf"(?<![\w.-])([a-z0-9][a-z0-9-]*){tail}", lambda match: self.address(namespace, match[1], subdomain), value)
