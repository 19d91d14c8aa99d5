"""Configurations of layers, which the quantization tool names only in types."""

from fiddle import Config

__all__ = ["Config"]
