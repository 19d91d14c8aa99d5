"""The one place that loads the CEL engine: it takes some 30 MB, so only what compiles or runs expressions may ask for it."""

from __future__ import annotations

from typing import Any


def engine() -> Any:
    """The engine's module."""
    from cel_expr_python import cel  # type: ignore[import-untyped]

    return cel
