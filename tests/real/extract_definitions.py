"""Extracts the facts of a CustomResourceDefinition from a real program's Go module: names, types, validations, defaults.

    python -m tests.real.extract_definitions PROGRAM FILE_IN_MODULE TARGET

Descriptions and annotations of build tools are dropped.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import orjson
import yaml
from tests.real.build import module_folder
from tests.real.programs import PROGRAMS


def extract(path: Path) -> dict[str, Any]:
    """The definition in a manifest, without descriptions."""
    definition = yaml.load(path.read_text(), yaml.CSafeLoader)
    kept = {
        "apiVersion": definition["apiVersion"],
        "kind": definition["kind"],
        "metadata": {"name": definition["metadata"]["name"]},
    }
    return {**kept, "spec": _without_prose(definition["spec"])}


def _without_prose(node: Any, *, names: bool = False) -> Any:
    """`names`: the keys of this node are field names, one of which may be `description`."""
    if isinstance(node, dict):
        items = ((key, value) for key, value in node.items() if names or key != "description")
        return {key: _without_prose(value, names=key == "properties" and not names) for key, value in items}
    return [_without_prose(item) for item in node] if isinstance(node, list) else node


def main() -> int:
    """Write the target file."""
    program, source, target = sys.argv[1:]
    module = PROGRAMS[program]
    folder = module_folder(module, module.package.partition("/cmd/")[0])
    Path(target).write_bytes(orjson.dumps(extract(folder / source)) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
