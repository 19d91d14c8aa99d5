"""Subnets of Compute Engine: ranges of addresses that share none."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import itertools
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.twin.cloud.errors import GoogleError, invalid
from sliceworks.twin.cloud.plain.bodies import path_of
from sliceworks.twin.cloud.plain.operations import link
from sliceworks.twin.cloud.plain.shelves import Kind, Shelf, number, stamp
from sliceworks.twin.cloud.routes import Call, Route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.plain.operations import ComputeOperations
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_AT = "projects/{project}/regions/{region}"


class Subnets:
    """The subnets of all networks."""

    def __init__(self, store: Store, networks: Shelf, operations: ComputeOperations) -> None:
        self._networks, self._operations = networks, operations
        kind = Kind("compute", "subnetworks", _AT, "Subnetwork", "compute.subnetworks", operations, "items", filled=self.filled)
        self.shelf = Shelf(store, kind)

    def routes(self) -> Iterator[Route]:
        """The usual ones, and those that change one thing."""
        yield from self.shelf.routes()
        one, may = f"{_AT}/subnetworks/{{subnetworks}}", "compute.subnetworks"
        for verb, answer in (("expandIpCidrRange", self.expand), ("setPrivateIpGoogleAccess", self.shelf.change)):
            request = f"Subnetworks{verb[0].upper()}{verb[1:]}Request"
            yield Route("POST", f"{one}/{verb}", f"subnetworks.{verb}", answer, f"{may}.{verb}", request)

    def filled(self, call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
        """A subnet as it is shown, if its network is there and its addresses are free."""
        path = f"projects/{call.params['project']}/regions/{call.params['region']}/subnetworks/{name}"
        network = path_of(str(body.get("network") or (before or {}).get("network") or ""))
        project, _, short = network.removeprefix("projects/").partition("/global/networks/")
        if self._networks.at(f"projects/{project}/global", short) is None:
            raise GoogleError("NOT_FOUND", f"The resource '{network}' was not found")
        ranges = ranges_of(body)
        for (first, one), (second, other) in itertools.combinations(ranges.items(), 2):
            if one.overlaps(other):
                raise invalid(f"Invalid value for field '{second}': '{other}'. It overlaps with {first} '{one}'.")
        self._free(network, path, ranges)
        primary = ranges["ipCidrRange"]
        made = {
            "kind": "compute#subnetwork",
            "id": number(path),
            "creationTimestamp": (before or {}).get("creationTimestamp") or stamp(),
            "purpose": "PRIVATE",
            "stackType": "IPV4_ONLY",
            "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
            "privateIpGoogleAccess": False,
            **body,
            "name": name,
            "network": link(call, network),
            "region": link(call, f"projects/{call.params['project']}/regions/{call.params['region']}"),
            "gatewayAddress": str(primary.network_address + 1),
            "selfLink": link(call, path),
        }
        return {**made, "fingerprint": fingerprint(made)}

    def _free(self, network: str, path: str, ranges: dict[str, ipaddress.IPv4Network]) -> None:
        """Subnets of one network share no address."""
        for document in self.shelf.everything():
            if path_of(document.body["network"]) != network or path_of(document.body["selfLink"]) == path:
                continue
            for other in ranges_of(document.body).values():
                for field, given in ranges.items():
                    if given.overlaps(other):
                        raise invalid(
                            f"Invalid IPCidrRange: {given} conflicts with existing subnetwork '{document.name}' ({field})."
                        )

    def expand(self, call: Call) -> Obj:
        """More addresses, the present ones among them."""
        document = self.shelf.found(call)
        wanted = parsed("ipCidrRange", call.body.get("ipCidrRange"))
        present = parsed("ipCidrRange", document.body["ipCidrRange"])
        if not present.subnet_of(wanted) or present == wanted:
            raise invalid(f"Invalid value for field 'ipCidrRange': '{wanted}'. It must contain {present} and be larger.")
        document.body = self.filled(call, document.name, {**document.body, "ipCidrRange": str(wanted)}, document.body)
        self.shelf.put(document)
        return self._operations.answer(call, self.shelf.path(call), document.body, "expandIpCidrRange")


def ranges_of(body: Obj) -> dict[str, ipaddress.IPv4Network]:
    found = {"ipCidrRange": parsed("ipCidrRange", body.get("ipCidrRange"))}
    for index, secondary in enumerate(body.get("secondaryIpRanges") or ()):
        field = f"secondaryIpRanges[{index}].ipCidrRange"
        found[field] = parsed(field, secondary.get("ipCidrRange"))
    return found


def parsed(field: str, text: Any) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(str(text))
    except ValueError as error:
        raise invalid(f"Invalid value for field '{field}': '{text}'. Must be a CIDR address range.") from error


def fingerprint(body: Obj) -> str:
    return base64.b64encode(hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()[:8]).decode()
