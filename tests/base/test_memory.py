"""The C allocator keeps freed memory for reuse, and garbage is collected rarely inside a block."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from sliceworks.base import memory

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


def test_inner_block_keeps_what_the_outer_one_exempts() -> None:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        with memory.reduced_gc():
            reduced, exempt = gc.get_threshold(), gc.get_freeze_count()
            with memory.reduced_gc():
                pass
            assert (gc.get_threshold(), gc.get_freeze_count()) == (reduced, exempt)
        assert exempt > 0
        assert gc.get_threshold() == (700, 10, 10)
    finally:
        gc.set_threshold(*before)
