"""Makes all that the tests of real programs need, before the first of them: `python -m tests.real.ready`.

A test has some minutes, and on a machine where nothing is cached programs take longer to build. What is there takes no time.
"""

from __future__ import annotations

import subprocess
import sys

from tests.real import definitions, jetstream, triton
from tests.real.build import CannotBuild, build
from tests.real.programs import PROGRAMS


def main() -> int:
    """Build programs, read definitions, install environments."""
    try:
        for program in PROGRAMS.values():
            build(program)
        definitions.serving()
        jetstream.python()
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
