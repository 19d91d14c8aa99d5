"""Modules of the installed package, without what its own `__init__` imports."""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
