"""Builds everything that tests of real programs need, before the first of them: `python -m tests.real.setup`.

A test has a limit of some minutes, and with an empty cache programs take longer to build.
"""

from __future__ import annotations

import subprocess
import sys

from tests.real import definitions, jetstream, prometheus, triton
from tests.real.build import CannotBuild, build
from tests.real.programs import PROGRAMS, SAMPLE, SUITE


def main() -> int:
    """Build programs, read definitions, install environments."""
    try:
        for program in PROGRAMS.values():
            if program.module not in (SUITE, SAMPLE):  # only `make conformance` needs them
                build(program)
        definitions.serving()
        jetstream.python()
        prometheus.program()
        if sys.platform == "linux":
            triton.python()
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"{error}; its own words are above", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
