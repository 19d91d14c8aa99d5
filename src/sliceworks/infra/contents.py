"""What belongs to the project, by name, in the folders that it hands on: to wheels, images, workspaces and deployments.

A folder taken whole would bring along what lies about in it, and states, plans and variables of Terraform have secrets in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TERRAFORM = (
    *(f"*/*/{name}.tf" for name in ("main", "outputs", "variables", "versions")),
    "modules/bootstrap/templates/*.tftpl",
    "modules/load-metrics/columns.json",
    "modules/load-metrics/record.proto",
)
"""Of the folder with the modules and stages."""
WHEEL = (
    *(f"src/sliceworks/**/*.{kind}" for kind in ("py", "typed", "css", "gz", "html", "js", "json", "svg", "yaml")),
    *(f"terraform/{pattern}" for pattern in TERRAFORM),
    "deploy/graphs/base/*.yaml",
    "deploy/slices/base/*.yaml",
    "examples/environments/*/environment.yaml",
    "examples/graphs/gemma-on-tpu/definition.yaml",
)
"""Of a checkout, what its wheel is made of: pyproject.toml says the same to who builds it."""
IMAGES = (
    *("pyproject.toml", "README.md", "LICENSE", "deploy/Dockerfile"),
    *WHEEL,
    "deploy/requirements/*.txt",
    "deploy/converter/**/*.py",
)
"""Of a checkout, what its images are built from."""


def belonging(folder: Path, patterns: Iterable[str], below: str = "") -> list[Path]:
    """The files of a folder that patterns name, or those below a place in it. What is hidden, or in what is hidden, is nobody's."""
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    wanted = (path for path in found if path.is_relative_to(folder / below))
    return sorted(path for path in wanted if not any(part.startswith(".") for part in path.relative_to(folder).parts))
