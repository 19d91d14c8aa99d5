"""A pod's network settings: names, DNS, the host's ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.schemas.field_errors import forbidden, invalid, required, too_long
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.texts import Errors, address, subdomain

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_MOST_NAMESERVERS = 3
_MOST_SEARCHES = 32
_LONGEST_SEARCHES = 2048
_LONGEST_OVERRIDE = 64


def dns_errors(out: Errors, config: Json | None, policy: str, path: str) -> None:
    servers = (config or {}).get("nameservers") or []
    if policy == "None" and config is None:
        out.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
    elif policy == "None" and not servers:
        out.append(required(f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None"))
    if config is None or (policy == "None" and not servers):
        return
    if len(servers) > _MOST_NAMESERVERS:
        out.append(invalid(f"{path}.nameservers", servers, f"must not have more than {_MOST_NAMESERVERS} nameservers"))
    for index, server in enumerate(servers):
        address(out, server, f"{path}.nameservers[{index}]")
    _searches(out, config.get("searches") or [], f"{path}.searches")
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            out.append(required(f"{path}.options[{index}]", "must not be empty"))


def host_alias_errors(out: Errors, aliases: list[Json], path: str) -> None:
    for index, alias in enumerate(aliases):
        address(out, alias.get("ip") or "", f"{path}[{index}].ip")
        for number, name in enumerate(alias.get("hostnames") or ()):
            subdomain(out, name, f"{path}[{index}].hostnames[{number}]")


def host_network_errors(out: Errors, containers: list[Json], path: str, *, is_pod: bool) -> None:
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (is_pod or host) and host != (port.get("containerPort") or 0):
                place = f"{path}[{index}].ports[{number}].hostPort"
                out.append(invalid(place, host, "must match `containerPort` when `hostNetwork` is true"))


def hostname_errors(out: Errors, spec: Json, path: str) -> None:
    name, place = spec["hostnameOverride"], f"{path}.hostnameOverride"
    if spec.get("setHostnameAsFQDN"):
        out.append(forbidden(place, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        out.append(forbidden(place, "may not be specified when hostNetwork is true"))
    if len(name) > _LONGEST_OVERRIDE:
        out.append(too_long(place, _LONGEST_OVERRIDE))
    subdomain(out, name, place)


def _searches(out: Errors, searches: list[str], path: str) -> None:
    if len(searches) > _MOST_SEARCHES:
        out.append(invalid(path, searches, f"must not have more than {_MOST_SEARCHES} search paths"))
    if len(" ".join(searches)) > _LONGEST_SEARCHES:
        detail = f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
        out.append(invalid(path, searches, detail))
    for index, search in enumerate(searches):
        if search != "." and name_rules.dns1123_subdomain_errors(search.removesuffix(".").replace("_", "a")):
            name = search.removesuffix(".")
            out += [invalid(f"{path}[{index}]", name, message) for message in _underscored()]


def _underscored() -> list[str]:
    """Search domains may have underscores; the message says so."""
    part = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
    words = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return [names.not_matching(words, rf"{part}(\.{part})*", "example.com")]
