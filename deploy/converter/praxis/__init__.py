"""The modules of Praxis that Sax's converters and its quantization tool use, without the layers and their dependencies.

The arithmetic of the quantization is Praxis' own: the folders of the installed package are searched after this one.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
