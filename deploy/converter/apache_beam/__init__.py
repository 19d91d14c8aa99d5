"""The part of Apache Beam's API that Sax's quantization tool uses, run sequentially in this process.

The tool only maps one DoFn over a list of tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class DoFn:
    """A function object with a setup step."""

    def setup(self) -> None:
        """Prepare the instance; called once before the first element."""

    def process(self, element: Any) -> Iterable[Any] | None:
        """Process one element and return its results."""
        raise NotImplementedError


class PCollection:
    """The results of all steps so far."""

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        self.elements = list(elements)

    def __or__(self, step: Callable[[list[Any]], Iterable[Any]]) -> PCollection:
        return PCollection(step(self.elements))


class Pipeline(PCollection):
    """An empty collection to start from."""

    def __init__(self, options: object = None) -> None:
        super().__init__()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def Create(elements: Iterable[Any]) -> Callable[[list[Any]], Iterable[Any]]:  # noqa: N802 - Beam's name
    """Return a step that yields these elements."""
    return lambda _: elements


def ParDo(function: DoFn) -> Callable[[list[Any]], Iterable[Any]]:  # noqa: N802 - Beam's name
    """Return a step that applies a DoFn to each element."""

    def process_all(elements: list[Any]) -> Iterable[Any]:
        function.setup()
        return [result for element in elements for result in function.process(element) or ()]

    return process_all
