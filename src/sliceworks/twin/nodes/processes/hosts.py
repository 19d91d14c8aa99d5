"""Names of pods on loopback: every `<hostname>.<subdomain>` has an address of its own, in a part of 127.0.0.0/8 that is one twin's.

Nothing of the machine's name service is changed. Names that stand in a container's command, arguments and environment are replaced
by addresses before the process starts; all others are looked up in a file of the pod's own (see `names`), where the machine allows
that. A name has its address from the first time anybody mentions it: a process may be told of a peer that does not run yet.
"""

from __future__ import annotations

import re
import socket
import sys
from ipaddress import IPv4Network
from typing import Any, NamedTuple

from sliceworks.base.errors import SliceworksError
from sliceworks.twin.nodes.processes.names import Known, NameFiles

Obj = dict[str, Any]
_EVERYBODY = "127.0.0.1"
_MOST = (1 << 15) - 2  # then the first ones, whose pods are long gone, are given again


class Networks(NamedTuple):
    """The addresses of one twin's pods and Services."""

    pods: IPv4Network
    services: IPv4Network


class Part:
    """127.N.0.0/16, held until it is closed: two twins of one machine must not give their pods the same addresses.

    N is 0 where only one loopback address works. The kernel lets go of what a process held that was killed.
    """

    def __init__(self) -> None:
        self._held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.number = self._claim() if sys.platform == "linux" else 0

    def _claim(self) -> int:
        for number in range(1, 255):
            try:
                self._held.bind(f"\0sliceworks-loopback-{number}")
            except OSError:
                continue
            return number
        self._held.close()
        raise SliceworksError(
            "no loopback addresses are left: 254 twins run processes here", hint="stop some: sliceworks twin status"
        )

    @property
    def networks(self) -> Networks | None:
        """Its halves; nothing where only one loopback address works."""
        return Networks(*IPv4Network(f"127.{self.number}.0.0/16").subnets()) if self.number else None

    def close(self) -> None:
        """Let others have it."""
        self._held.close()


def hostname(pod: Obj) -> str:
    """The name that a pod's processes have for themselves."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63]


class Hosts:
    """Gives each name in a namespace its address in 127.N.0.0/17. Where only one loopback address works, all names share it."""

    def __init__(self, part: int) -> None:
        self._first = (127 << 24) + (part << 16) + 1 if part else 0
        self._addresses: dict[tuple[str, str, str], str] = {}
        self.files = NameFiles()

    def address(self, namespace: str, name: str, subdomain: str = "") -> str:
        """The address of a pod by its host name and subdomain."""
        if not self._first:
            return _EVERYBODY
        key = (namespace, subdomain, name)
        if key not in self._addresses:
            number = self._first + len(self._addresses) % _MOST
            self._addresses[key] = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
        return self._addresses[key]

    def of_pod(self, pod: Obj) -> str:
        """The address of a pod, which others may ask for from now on."""
        known = self.known(pod)
        self.files.add(pod["metadata"]["uid"], known)
        return known.address

    def known(self, pod: Obj) -> Known:
        """How others know a pod."""
        namespace, name, subdomain = pod["metadata"]["namespace"], hostname(pod), pod["spec"].get("subdomain") or ""
        return Known(namespace, name, subdomain, self.address(namespace, name, subdomain))

    def replaced(self, text: str, namespace: str, subdomain: str) -> str:
        """A text with the names of pods in this subdomain replaced by their addresses."""
        if not subdomain or f".{subdomain}" not in text:
            return text
        tail = rf"\.{re.escape(subdomain)}(?:\.{re.escape(namespace)}(?:\.svc(?:\.cluster\.local)?)?)?(?![A-Za-z0-9-]|\.[A-Za-z])"
        return re.sub(rf"(?<![\w.-])([a-z0-9][a-z0-9-]*){tail}", lambda m: self.address(namespace, m[1], subdomain), text)
