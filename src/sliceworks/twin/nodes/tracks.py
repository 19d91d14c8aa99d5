"""What the player keeps of the objects it plays, and who else may run pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

if TYPE_CHECKING:
    from sliceworks.kube.resources import Key
    from sliceworks.twin.nodes.engine import Step

Obj = dict[str, Any]


class What(NamedTuple):
    """What is looked at: a Pod, a Node, or the Lease of a node."""

    kind: str
    namespace: str
    name: str


class Track:
    """What is kept of an object that may change: the step that comes next, and the object, packed while it has to wait."""

    __slots__ = ("address", "node", "obj", "step", "uid", "version")

    def __init__(self, uid: str, node: str) -> None:
        self.uid = uid
        self.node = node
        self.version = 0
        self.address = ""
        self.step: Step | None = None
        self.obj: bytes | Obj | None = None


class Runtime(Protocol):
    """Runs pods in another way than stages do."""

    def takes(self, pod: Obj) -> bool:
        """Whether it runs this pod."""
        ...

    def see(self, pod: Obj, host: str) -> None:
        """A pod of its own is new or has changed."""
        ...

    def gone(self, pod: Key) -> None:
        """A pod is not there any more."""
        ...


def packed(obj: Obj) -> bytes:
    """An object that has to wait, in a tenth of the room."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return bytes(
        memoryview(orjson.dumps({**obj, "metadata": metadata}))
    )  # a copy has exactly its own length, what orjson returns has room to grow
