"""The C allocator keeps freed memory for reuse."""

from __future__ import annotations

import subprocess
import sys

import pytest

_FAULTS = """
import resource
from sliceworks.base import memory
supported = memory.retain_freed_memory()
def faults():
    for _ in range(50):
        buffers = [bytes(200_000) + b"x" for _ in range(8)]
        del buffers
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
faults()
before = faults()
print(int(supported), faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc")
def test_retained_memory_avoids_page_faults() -> None:
    done = subprocess.run([sys.executable, "-c", _FAULTS], capture_output=True, text=True, check=True, timeout=60)
    supported, faults = map(int, done.stdout.split())
    assert not supported or faults < 100
