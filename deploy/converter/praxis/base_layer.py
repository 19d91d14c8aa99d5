"""The base class of layers, which the quantization tool names only in types."""


class BaseLayer:
    """A layer."""
