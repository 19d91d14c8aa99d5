"""How a library states its functions: a signature for the type checker, and what to run.

The checker knows opaque types such as `kubernetes.Quantity`. The engine cannot carry values of our own, so when an expression runs
such a value is a map with one entry: the type's name and the value in a canonical form, so that equal values are equal maps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Function:
    """One overload. `run` is None where the engine brings its own implementation."""

    name: str
    signature: str
    result: str
    run: Callable[..., Any] | None = None

    @property
    def member(self) -> bool:
        """Whether it is called on a receiver: `x.size()` and not `size(x)`."""
        return not self.signature.startswith(self.name + "(")

    @property
    def parameters(self) -> list[str]:
        """The types it takes, the receiver first."""
        head, _, rest = self.signature.partition(self.name + "(")
        arguments = [text for text in top_level(rest[:-1]) if text]
        return [head.removesuffix("."), *arguments] if head else arguments

    @property
    def id(self) -> str:
        """A name of the overload that no other has."""
        return self.signature


def opaque(kind: str, value: str) -> dict[str, str]:
    """A value of an opaque type as the engine carries it."""
    return {kind: value}


def held(kind: str, value: dict[str, Any]) -> str:
    """What an opaque value holds; an argument of another type is the fault of an expression that hid its types."""
    if len(value) != 1 or kind not in value:
        raise NoSuchOverload
    return str(value[kind])


class NoSuchOverload(TypeError):
    """The arguments are not of the declared types."""

    def __init__(self) -> None:
        super().__init__("no such overload")


class TooCostly(ValueError):
    """The evaluation would take too long."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def top_level(text: str) -> Iterator[str]:
    """The parts of a list of types: `string, map<string, int>` has two."""
    depth, start = 0, 0
    for position, letter in enumerate(text):
        if letter in "<>":
            depth += 1 if letter == "<" else -1
        elif letter == "," and not depth:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()


def quoted(text: str) -> str:
    """A text as Go's %q writes it in messages."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
