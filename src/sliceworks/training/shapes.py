"""What a job asks for, by the catalogue: its type, hosts and chips, the nodes that have them, and what an hour costs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.catalog import placing, prices

if TYPE_CHECKING:
    from sliceworks.catalog.prices import Price
    from sliceworks.specs.training import Slices

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """So many of one accelerator, with one kind of capacity."""

    shape: catalog.Accelerator
    count: int
    capacity: str
    reservation: str = ""

    @property
    def is_tpu(self) -> bool:
        return self.shape.kind == "tpu"

    @property
    def hosts(self) -> int:
        """Hosts of all slices together: the processes of the program."""
        return self.shape.hosts * self.count

    @property
    def chips(self) -> int:
        return self.shape.chips * self.count

    @property
    def joined(self) -> bool:
        """Whether several hosts work as one, and so talk to each other."""
        return self.hosts > 1

    @property
    def price(self) -> Price | None:
        """USD an hour in the region where prices are known best; None when no source tells."""
        found = prices.price(self.shape, prices.region_for(self.shape), self.capacity)
        return found.times(self.count) if found else None

    def selector(self) -> dict[str, str]:
        """The labels of its nodes."""
        return placing.node_selector(self.shape, self.capacity, self.reservation)

    def tolerations(self) -> list[Object]:
        """What its nodes keep other pods away with."""
        return placing.tolerations(self.shape, self.capacity)


def ask(slices: Slices) -> Ask:
    """What the document asks for; raises UnknownAccelerator or WrongShape with the closest that there is."""
    if slices.accelerator:
        shape: catalog.Accelerator = catalog.slice_for(slices.accelerator, slices.topology, slices.chips_per_host)
    else:
        shape = catalog.find(slices.type, slices.topology or None, slices.chips_per_host)
    return Ask(shape, slices.count, slices.capacity, slices.reservation)
