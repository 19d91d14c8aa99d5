"""As much of Apache Beam as Sax's tool for quantized checkpoints asks for, one step after the other in this process.

Beam itself does not go together with Paxml in one image. The tool puts a list of tasks through one function, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class DoFn:
    """A function with a state that is made once."""

    def setup(self) -> None:
        """Make it."""

    def process(self, element: Any) -> Iterable[Any] | None:
        """One element, and what becomes of it."""
        raise NotImplementedError


class Elements:
    """What has gone through all steps so far."""

    def __init__(self, found: Iterable[Any] = ()) -> None:
        self.found = list(found)

    def __or__(self, step: Callable[[list[Any]], Iterable[Any]]) -> Elements:
        return Elements(step(self.found))


class Pipeline(Elements):
    """The beginning of the steps."""

    def __init__(self, options: object = None) -> None:
        super().__init__()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def Create(elements: Iterable[Any]) -> Callable[[list[Any]], Iterable[Any]]:  # noqa: N802 - Beam's name
    """A step that begins with these."""
    return lambda _: elements


def ParDo(function: DoFn) -> Callable[[list[Any]], Iterable[Any]]:  # noqa: N802 - Beam's name
    """A step that does the same with each."""

    def each(elements: list[Any]) -> Iterable[Any]:
        function.setup()
        return [made for element in elements for made in function.process(element) or ()]

    return each
