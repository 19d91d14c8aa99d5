"""The structure of the source: modules import each other without cycles, and each package lists its modules."""

from __future__ import annotations

import ast
import re
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

SOURCE = Path(__file__).parent.parent / "src" / "sliceworks"
PACKAGES = sorted(
    path.parent for path in SOURCE.rglob("__init__.py") if any(item.stem != "__init__" for item in path.parent.glob("*.py"))
)
# `name  description`, `name: description`; several names are separated by commas.
ENTRY = re.compile(r"(?:- )?(`?[a-z_0-9]+`?(?:, `?[a-z_0-9]+`?)*)(?:  +|: )(\S.*)")


def test_modules_import_each_other_without_cycles() -> None:
    """Imports for type checkers do not count: they may point upwards."""
    graph = grimp.build_graph("sliceworks", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def listed_modules(docstring: str, modules: set[str]) -> set[str]:
    """The modules that a package's docstring lists. A description may name more of them in backticks."""
    entries = [match for line in docstring.splitlines() if (match := ENTRY.fullmatch(line.strip()))]
    names = {name.strip("`") for entry in entries for name in entry[1].split(", ")}
    return names | (modules & {name for entry in entries for name in re.findall(r"`([a-z_0-9]+)`", entry[2])})


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_package_docstring_lists_its_modules(package: Path) -> None:
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    modules |= {path.parent.name for path in package.glob("*/__init__.py")}
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    assert listed_modules(docstring, modules) == modules


def test_layers_of_the_twin_name_all_of_its_parts() -> None:
    """The contract cannot be exhaustive, because the layers of `controllers` lie between others."""
    contracts = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract.get("containers") == ["sliceworks.twin"]]
    parts = {name for layer in layers for name in layer.split(" | ")}
    for folder, prefix in (("twin", ""), ("twin/controllers", "controllers.")):
        children = {path.stem for path in (SOURCE / folder).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
        assert {f"{prefix}{name}" for name in children - {"__init__", "controllers"}} <= parts
