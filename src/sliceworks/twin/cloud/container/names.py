"""The names that GKE gives: instance groups, machines, operations."""

from __future__ import annotations

import string

from sliceworks.base import clock

_LONGEST = 32
"""What cluster and pool have of a machine's name together."""
_LEAST_OF_POOL = 16
_SUFFIX = string.ascii_lowercase + string.digits


def base_name(cluster: str, pool: str, mark: str) -> str:
    """`gke-CLUSTER-POOL-MARK`, of which long names keep their beginnings."""
    pool = pool[: max(_LEAST_OF_POOL, _LONGEST - len(cluster))]
    cluster = cluster[: _LONGEST - len(pool)]
    return f"gke-{cluster.rstrip('-')}-{pool.rstrip('-')}-{mark}"


def mark() -> str:
    """Eight digits that tell one instance group from others."""
    return f"{clock.randomness().getrandbits(32):08x}"


def suffixes(count: int, taken: set[str]) -> list[str]:
    """So many endings of names, none of them taken."""
    found: list[str] = []
    while len(found) < count:
        suffix = "".join(clock.randomness().choices(_SUFFIX, k=4))
        if suffix not in taken:
            taken.add(suffix)
            found.append(suffix)
    return found


def operation() -> str:
    """`operation-MILLISECONDS-UUID`."""
    return f"operation-{int(clock.now().timestamp() * 1000)}-{clock.uid()}"


def group_url(project: str, zone: str, base: str) -> str:
    """Where the Compute API has the group of a pool's machines in a zone."""
    return f"https://www.googleapis.com/compute/v1/projects/{project}/zones/{zone}/instanceGroupManagers/{base}-grp"
