"""How many sockets a process may hold open: servers and load generators need more than most systems give unasked."""

from __future__ import annotations

import contextlib

_MOST = 65_536


def allow_many() -> None:
    """Raise the limit of open files, often 1,024, as far as the system lets us."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
