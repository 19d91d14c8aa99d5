"""A real engine for NetworkPolicies: the matcher of Cyclonus, which conformance tests of network plugins use.

Its input are policies, namespaces and calls; its output is whether each call is allowed.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from tests.real.build import build
from tests.real.programs import Program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]
JUDGE = Program("policies", "policies", ".")


@dataclass(frozen=True, eq=False)
class Peer:
    """A pod, or with only an address a host outside the cluster's pods."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    ip: str = "10.8.0.9"

    def described(self) -> Object:
        return {"ip": self.ip, "namespace": self.namespace, "labels": dict(self.labels)}


@dataclass(frozen=True, eq=False)
class Call:
    """A call to a port, which is a port name of the target or a number."""

    source: Peer
    target: Peer
    port: str | int
    protocol: str = "TCP"

    def __str__(self) -> str:
        return f"{self.source.namespace}/{self.source.name} → {self.target.namespace}/{self.target.name}:{self.port}"

    def described(self) -> Object:
        known = self.target.ports
        number = known[self.port] if isinstance(self.port, str) else self.port
        name = next((item for item, its in known.items() if its == number), "")
        ends = {"from": self.source.described(), "to": self.target.described()}
        return {**ends, "port": number, "portName": name, "protocol": self.protocol}


def allowed_calls(policies: Iterable[Object], calls: Iterable[Call]) -> dict[Call, bool]:
    """The allowed calls; every namespace has the label that Kubernetes sets."""
    unique_calls = list(dict.fromkeys(calls))
    names = {item for call in unique_calls for item in (call.source.namespace, call.target.namespace) if item}
    scenario = {
        "policies": list(policies),
        "namespaces": {name: {"kubernetes.io/metadata.name": name} for name in names},
        "calls": [call.described() for call in unique_calls],
    }
    done = subprocess.run([build(JUDGE)], input=orjson.dumps(scenario), stdout=subprocess.PIPE, check=True, timeout=60)
    return dict(zip(unique_calls, orjson.loads(done.stdout), strict=True))
