"""Names of pods on loopback: every `<hostname>.<subdomain>` has an address of its own in 127.0.0.0/8.

Nothing of the machine's name service is changed, which would need root. Names that stand in a container's command, arguments and
environment are replaced by addresses before the process starts. A name has its address from the first time anybody mentions it, so
that a process may be told of a peer that does not run yet.
"""

from __future__ import annotations

import re
import sys
from typing import Any

Obj = dict[str, Any]
_EVERYBODY = "127.0.0.1"
_FIRST = (127 << 24) + (1 << 16) + 1  # 127.1.0.1


def hostname(pod: Obj) -> str:
    """The name that a pod's processes have for themselves."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63]


class Hosts:
    """Gives each name in a namespace its address. Where only one loopback address works, all names share it."""

    def __init__(self, *, many: bool = sys.platform == "linux") -> None:
        self._many = many
        self._addresses: dict[tuple[str, str, str], str] = {}

    def address(self, namespace: str, name: str, subdomain: str = "") -> str:
        """The address of a pod by its host name and subdomain."""
        if not self._many:
            return _EVERYBODY
        key = (namespace, subdomain, name)
        if key not in self._addresses:
            number = _FIRST + len(self._addresses)
            self._addresses[key] = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
        return self._addresses[key]

    def of_pod(self, pod: Obj) -> str:
        """The address of a pod."""
        return self.address(pod["metadata"]["namespace"], hostname(pod), pod["spec"].get("subdomain") or "")

    def replaced(self, text: str, namespace: str, subdomain: str) -> str:
        """A text with the names of pods in this subdomain replaced by their addresses."""
        if not subdomain or f".{subdomain}" not in text:
            return text
        tail = rf"\.{re.escape(subdomain)}(?:\.{re.escape(namespace)}(?:\.svc(?:\.cluster\.local)?)?)?(?![A-Za-z0-9-]|\.[A-Za-z])"
        return re.sub(rf"(?<![\w.-])([a-z0-9][a-z0-9-]*){tail}", lambda m: self.address(namespace, m[1], subdomain), text)
