"""Memory that was freed is kept for what comes next."""

from __future__ import annotations

import subprocess
import sys

import pytest

_FAULTS = """
import resource
from sliceworks.base import memory
kept = memory.keep_freed()
def faults():
    for _ in range(50):
        held = [bytes(200_000) + b"x" for _ in range(8)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
faults()
before = faults()
print(int(kept), faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone can be told")
def test_large_bodies_do_not_ask_the_kernel_for_pages_again_and_again() -> None:
    told = subprocess.run([sys.executable, "-c", _FAULTS], capture_output=True, text=True, check=True, timeout=60)
    kept, faults = map(int, told.stdout.split())
    assert not kept or faults < 100
