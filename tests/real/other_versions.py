"""Writes Go modules for the versions in SLICEWORKS_VERSIONS, for the compatibility matrix: `python -m tests.real.other_versions`.

They are in the cache, not in the tree: a program's own `go.mod` determines all packages, and Go's checksum database verifies them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from tests.real.build import CannotBuild, ask_go, locked
from tests.real.programs import MODULES, OTHER_VERSIONS, PROGRAMS, Program

_REPLACED = re.compile(r"^(?:replace)?\s+(\S+)(?: v\S+)? => (.+)$", re.MULTILINE)
_STAGED = re.compile(r"\./staging/src/(\S+)")
_GO = re.compile(r"^go .+$", re.MULTILINE)


def write_module(program: Program, version: str) -> None:
    """Write the module that builds a program."""
    folder = program.folder
    with locked(folder):
        if (folder / "go.sum").exists():
            return
        (folder / "go.mod").write_text(f"module sliceworks.dev/real/{folder.name}\n")
        source = _source(program)
        own = _download(program, source, version)
        (folder / "go.mod").write_text(render_module(folder.name, source, version, own))
        done = ask_go(program, "list", "-mod=mod", "-deps", "-f", "{{.ImportPath}}", program.package)
        if done.returncode:
            (folder / "go.sum").unlink(missing_ok=True)
            errors = [line for line in done.stderr.splitlines() if not line.startswith("go: downloading")]
            raise CannotBuild(f"{source} {version}: {errors[0]}")


def render_module(name: str, source: str, version: str, own: str) -> str:
    """A `go.mod` that requires a version of a module, with the replacements of that module's own `go.mod`.

    Kubernetes' own one replaces packages by its subfolders; they are published with the same minor and patch version.
    """
    staged = f"v0.{version.partition('.')[2]}"
    replaced = [(path, _STAGED.sub(rf"\1 {staged}", target)) for path, target in _REPLACED.findall(own)]
    [go] = _GO.findall(own)
    lines = [f"module sliceworks.dev/real/{name}", go, f"require {source} v{version}"]
    return "\n".join([*lines, *(f"replace {path} => {target}" for path, target in replaced)]) + "\n"


def _source(program: Program) -> str:
    """The path of the Go module that contains a program: the longest one that the pinned module requires."""
    pinned = (MODULES / program.module / "go.mod").read_text()
    paths = re.findall(r"^\s+(\S+) v\S+", pinned, re.MULTILINE)
    source = max((path for path in paths if f"{program.pinned_package}/".startswith(f"{path}/")), key=len)
    return program.package.removesuffix(program.pinned_package.removeprefix(source))


def _download(program: Program, source: str, version: str) -> str:
    """The `go.mod` of a version."""
    answer = json.loads(ask_go(program, "mod", "download", "-json", f"{source}@v{version}").stdout or "{}")
    if "GoMod" not in answer:
        raise CannotBuild(f"{source} {version} cannot be downloaded: {answer.get('Error', 'no answer')}")
    return Path(answer["GoMod"]).read_text()


def main() -> int:
    """Write all modules."""
    try:
        for name, version in OTHER_VERSIONS.items():
            if name not in PROGRAMS:
                raise CannotBuild(f"SLICEWORKS_VERSIONS: no such program: {name}; there are {', '.join(PROGRAMS)}")
            write_module(PROGRAMS[name], version)
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
