"""promtool and Prometheus: those of this machine, else of Debian's package, unpacked into the cache."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.real.build import CannotBuild, locked
from tests.real.programs import cache_folder


def program(name: str = "promtool") -> Path:
    """The path of `promtool` or `prometheus`."""
    if result := shutil.which(name):
        return Path(result)
    folder = cache_folder() / "prometheus"
    target = folder / "usr" / "bin" / name
    if not target.exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            raise CannotBuild(f"{name} is not installed: get Prometheus from https://prometheus.io/download")
        with locked(folder):
            if not target.exists():
                subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, check=True)
                [package] = folder.glob("prometheus_*.deb")
                subprocess.run(["dpkg", "--extract", str(package), str(folder)], check=True)
                package.unlink()
    return target
