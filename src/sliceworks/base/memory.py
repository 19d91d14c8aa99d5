"""What the C library does with memory that is free again.

It gives the end of its heap back at once and asks for it anew with the next large body: every page of it is then cleared by the
kernel, which costs more than the body itself. A server that has handled many large bodies will handle more of them.
"""

from __future__ import annotations

import contextlib
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT = 64 * 1024 * 1024
_APART = 4 * 1024 * 1024
"""What is larger than this is mapped apart from the heap and goes back as soon as it is free."""


def keep_freed() -> bool:
    """Keep some of what was freed for what comes next; tells whether this C library can be told so."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        tell = ctypes.CDLL(None).mallopt
        return all([tell(_TRIM_THRESHOLD, _KEPT), tell(_MMAP_THRESHOLD, _APART), tell(_TOP_PAD, 1024 * 1024)])
    return False
