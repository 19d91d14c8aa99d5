"""The class of configurations, which the quantization tool names only in types."""

from typing import Generic, TypeVar

T = TypeVar("T")


class Config(Generic[T]):
    """A configuration of a layer."""
