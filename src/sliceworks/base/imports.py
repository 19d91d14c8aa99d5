"""Optional dependencies and lazy exports: which extra provides a package, and names that a package imports at first use."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


PACKAGES = {"console": ("nicegui",), "load": ("locust", "duckdb", "numpy"), "terraform": ("grpc", "msgspec")}
"""The packages of each extra that whole commands depend on."""


def require_extras(extras: Mapping[str, str]) -> None:
    """Raise one error for all missing packages. Keys say what needs an extra (`load tests need`), values name the extra."""
    missing = {purpose: packages for purpose, extra in extras.items() if (packages := _missing(extra))}
    if missing:
        message = "; ".join(f"{purpose} {', '.join(packages)}" for purpose, packages in missing.items())
        raise SliceworksError(message, hint=install_command(*(extras[purpose] for purpose in missing)))


def install_command(*extras: str) -> str:
    """The command that installs the packages of these extras into the current environment, by their own names."""
    needed = [line.partition(";")[0].strip() for extra in extras for line in _requirements(extra)]
    return " ".join([_pip(), *(f"'{package}'" for package in dict.fromkeys(needed))])


def _pip() -> str:
    """The command that installs packages into the current environment."""
    from shutil import which  # every command imports this module

    if "pipx" in Path(sys.prefix).parts:
        return "pipx runpip sliceworks install"
    if "uv" in Path(sys.prefix).parts:
        return f"uv pip install --python {sys.prefix}"
    is_active = Path(which("pip") or "").parent == Path(sys.executable).parent
    return "pip install" if is_active else f"{sys.executable} -m pip install"


def _requirements(extra: str) -> list[str]:
    """The requirements of an extra, as the installed package lists them."""
    from importlib.metadata import requires  # slow to import, and every command imports this module

    return [line for line in requires("sliceworks") or () if line.endswith(f"extra == '{extra}'")]


def _missing(extra: str) -> list[str]:
    return [name for name in PACKAGES[extra] if importlib.util.find_spec(name) is None]


async def import_in_thread(module: str) -> None:
    """Import a module that takes long; the event loop runs meanwhile."""
    if module not in sys.modules:
        from sliceworks.base import budget

        await budget.run_in_thread(partial(import_module, module))


def lazy_exports(package: str, homes: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that imports its public names at first use: `{module: names}`."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def attribute(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home}"), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return attribute, names
