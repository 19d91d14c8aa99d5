"""TensorFlow's functions for files and logs, for local files."""

import logging
import os


class _Files:
    listdir = staticmethod(os.listdir)
    GFile = staticmethod(open)


class io:  # noqa: N801 - TensorFlow's name
    """Input and output."""

    gfile = _Files


__all__ = ["io", "logging"]
