"""A real control plane for interactive use: `python -m tests.real.cluster` starts one, prints its kubeconfig and runs until
Ctrl-C.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.real.build import CannotBuild, build
from tests.real.control_plane import ControlPlane
from tests.real.processes import NotReady
from tests.real.programs import PROGRAMS


def main() -> int:
    """Start, print, wait."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-real-") as folder:
        try:
            with ControlPlane(Path(folder)) as plane:
                print(f"export KUBECONFIG={plane.kubeconfig}", flush=True)
                print(f"kubectl is {build(PROGRAMS['kubectl'])}; logs in {folder}; Ctrl-C stops it", file=sys.stderr, flush=True)
                _wait()
        except (CannotBuild, NotReady) as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def _wait() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
