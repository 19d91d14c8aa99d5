"""The DNS records of Services and pods in the domain of the cluster."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.kube.resources import Key, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.nodes.runtime.pod_dns import DnsName

Obj = dict[str, Any]
DOMAIN = "cluster.local"
A, CNAME, PTR, AAAA, SRV = 1, 5, 12, 28, 33
_REVERSE = "in-addr.arpa"
_MAX_LABEL = 63
_SRV_PRIORITY, _SRV_WEIGHT = 0, 100


@dataclass(frozen=True, slots=True)
class Zone:
    """Records by name and type: the data of each record."""

    records: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()

    def find(self, name: str, kind: int) -> list[Record] | None:
        """The records of a type, behind the CNAME that leads to them; None if the name does not exist."""
        if name not in self.names:
            return None
        if values := self.records.get((name, kind)):
            return [Record(name, kind, data) for data in values]
        result = []
        for data in self.records.get((name, CNAME), ()):
            target = decode_name(data)
            result += [Record(name, CNAME, data), *(Record(target, kind, item) for item in self.records.get((target, kind), ()))]
        return result

    def alias(self, name: str) -> str:
        """The name that a CNAME record of this name leads to; empty without one."""
        return next(map(decode_name, self.records.get((name, CNAME), ())), "")


class Record(NamedTuple):
    """The owner, type and data of a record."""

    owner: str
    kind: int
    data: bytes


def encode_name(name: str) -> bytes:
    """A domain name on the wire, without compression."""
    labels = [label.encode() for label in name.rstrip(".").split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def _has_wire_form(name: str) -> bool:
    """Whether a name can be encoded; validation does not limit the labels of external names."""
    return bool(name) and all(len(label) <= _MAX_LABEL for label in name.split("."))


def decode_name(data: bytes) -> str:
    """A domain name from the wire, without compression."""
    labels, at = [], 0
    while length := data[at]:
        labels.append(data[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels).lower()


def reverse_name(address: str) -> str:
    """The name of the PTR record of an address."""
    return f"{'.'.join(reversed(address.split('.')))}.{_REVERSE}"


def is_cluster_name(name: str, networks: Iterable[Any]) -> bool:
    """Whether a name is below the domain of the cluster, or the reverse name of one of its addresses."""
    if name == DOMAIN or name.endswith(f".{DOMAIN}"):
        return True
    if not name.endswith(f".{_REVERSE}"):
        return False
    try:
        address = IPv4Address(".".join(reversed(name.removesuffix(f".{_REVERSE}").split("."))))
    except ValueError:
        return False
    return any(address in network for network in networks)


def build_zone(names: Iterable[DnsName], services: Iterable[Obj]) -> Zone:
    """The records of these names of Services and pods, and of the ports and external names of Services."""
    records: dict[tuple[str, int], list[bytes]] = {}
    addresses: dict[Key, tuple[str, ...]] = {}
    for name in names:
        addresses[Key(name.namespace, name.name)] = name.addresses
        for address in name.addresses:
            _add(records, name.fqdn, A, socket.inet_aton(address))
            if len(name.addresses) == 1:
                _add(records, reverse_name(address), PTR, encode_name(name.fqdn))
    for service in services:
        key, spec = key_of(service), service["spec"]
        fqdn = f"{key.name}.{key.namespace}.svc.{DOMAIN}"
        if spec.get("type") == "ExternalName" and _has_wire_form(spec.get("externalName") or ""):
            _add(records, fqdn, CNAME, encode_name(spec["externalName"]))
        if addresses.get(key):
            _add_ports(records, fqdn, spec.get("ports") or ())
    return Zone(records, frozenset(name for name, _ in records))


def _add_ports(records: dict[tuple[str, int], list[bytes]], fqdn: str, ports: Iterable[Obj]) -> None:
    for port in ports:
        if name := port.get("name"):
            data = struct.pack("!HHH", _SRV_PRIORITY, _SRV_WEIGHT, int(port["port"])) + encode_name(fqdn)
            _add(records, f"_{name}._{port.get('protocol', 'TCP').lower()}.{fqdn}", SRV, data)


def _add(records: dict[tuple[str, int], list[bytes]], name: str, kind: int, data: bytes) -> None:
    values = records.setdefault((name.lower(), kind), [])
    if data not in values:
        values.append(data)
