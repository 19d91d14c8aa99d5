"""The resolver configuration of a pod: its DNS policy and configuration, as a kubelet writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from sliceworks.twin.nodes.runtime.dns_zone import DOMAIN

Obj = dict[str, Any]
PATH = "/etc/resolv.conf"
_NDOTS = "ndots:5"


class ResolvConf(NamedTuple):
    """The settings of a resolver."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def render(self) -> str:
        """The content of the file."""
        lines = [f"nameserver {address}" for address in self.nameservers]
        lines += [f"search {' '.join(self.searches)}"] if self.searches else []
        lines += [f"options {' '.join(self.options)}"] if self.options else []
        return "".join(f"{line}\n" for line in lines)


def read_machine(file: Path = Path(PATH)) -> ResolvConf:
    """The settings of this machine."""
    values: dict[str, list[str]] = {"nameserver": [], "search": [], "options": []}
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, *words = line.split() or [""]
        if key == "search":
            values[key] = words  # the last one applies
        elif key in values:
            values[key] += words
    return ResolvConf(*(tuple(words) for words in values.values()))


def of_pod(pod: Obj, machine: ResolvConf, server: str) -> ResolvConf:
    """The settings of a pod; `server` is the address of the cluster's DNS, or empty."""
    spec = pod["spec"]
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    in_cluster = policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not spec.get("hostNetwork"))
    if policy == "None":
        base = ResolvConf()
    elif in_cluster and server:
        own = (f"{pod['metadata']['namespace']}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN)
        base = ResolvConf((server,), (*own, *machine.searches), (_NDOTS,))
    else:
        base = machine
    config = spec.get("dnsConfig") or {}
    added = [
        item["name"] if item.get("value") is None else f"{item['name']}:{item['value']}" for item in config.get("options") or ()
    ]
    replaced = {option.partition(":")[0] for option in added}
    options = [option for option in base.options if option.partition(":")[0] not in replaced]
    return ResolvConf(
        tuple(dict.fromkeys((*base.nameservers, *(config.get("nameservers") or ())))),
        tuple(dict.fromkeys((*base.searches, *(config.get("searches") or ())))),
        (*options, *added),
    )
