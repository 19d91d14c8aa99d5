"""Function declarations of a library: a signature for the type checker and an implementation.

The type checker knows opaque types such as `kubernetes.Quantity`. The engine supports no custom values, so at run time an opaque
value is a map with one entry: the type's name and the value in canonical form. Equal values are equal maps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class Function:
    """One overload. `run` is None if the engine implements it."""

    name: str
    signature: str
    result: str
    run: Callable[..., Any] | None = None

    @property
    def member(self) -> bool:
        """Whether it is a member function: `x.size()`, not `size(x)`."""
        return not self.signature.startswith(self.name + "(")

    @property
    def parameters(self) -> list[str]:
        """Parameter types, the receiver first."""
        head, _, rest = self.signature.partition(self.name + "(")
        arguments = [parameter for parameter in split_types(rest[:-1]) if parameter]
        return [head.removesuffix("."), *arguments] if head else arguments

    @property
    def id(self) -> str:
        """The unique id of the overload."""
        return self.signature


def wrap(kind: str, value: str) -> dict[str, str]:
    """The run-time form of an opaque value."""
    return {kind: value}


def unwrap(kind: str, value: dict[str, Any]) -> str:
    """The value inside an opaque value; NoSuchOverload for any other type, which `dyn` can hide from the checker."""
    if len(value) != 1 or kind not in value:
        raise NoSuchOverload
    return str(value[kind])


def accepts(parse: Callable[..., object]) -> Callable[..., bool]:
    """Whether `parse` accepts its arguments: the implementation of functions such as isIP."""

    def check(*arguments: Any) -> bool:
        try:
            parse(*arguments)
        except ValueError:
            return False
        return True

    return check


class NoSuchOverload(TypeError):
    """The arguments are not of the declared types."""

    def __init__(self) -> None:
        super().__init__("no such overload")


class CostLimitExceeded(ValueError):
    """The evaluation would exceed its cost limit."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def split_types(types: str) -> Iterator[str]:
    """Split a list of types: `string, map<string, int>` has two parts."""
    depth, start = 0, 0
    for position, character in enumerate(types):
        if character in "<>":
            depth += 1 if character == "<" else -1
        elif character == "," and not depth:
            yield types[start:position].strip()
            start = position + 1
    yield types[start:].strip()
