"""promtool and Prometheus: those of this machine, else of Debian's package."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.real import debian


def program(name: str = "promtool") -> Path:
    """The path of `promtool` or `prometheus`."""
    return Path(shutil.which(name) or debian.unpacked("prometheus") / "usr" / "bin" / name)
