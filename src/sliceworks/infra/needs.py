"""Which services and roles an environment needs: no more than its parts ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sliceworks.specs.environment import EnvironmentSpec

_SERVICES = (
    "artifactregistry",
    "cloudbuild",
    "cloudkms",
    "cloudresourcemanager",
    "cloudtrace",
    "compute",
    "container",
    "iam",
    "iamcredentials",
    "logging",
    "monitoring",
    "serviceusage",
    "stackdriver",
    "storage",
    "storage-component",
    "sts",
)
_ROLES = (
    "artifactregistry.admin",
    "compute.networkAdmin",
    "container.admin",
    "iam.securityAdmin",
    "iam.serviceAccountAdmin",
    "iam.serviceAccountUser",
    "logging.logWriter",
    "storage.admin",
)


def services(spec: EnvironmentSpec) -> list[str]:
    """The services to enable, by their full names."""
    words = set(_SERVICES)
    if spec.tensorboard:
        words.add("aiplatform")
    if spec.load_metrics:
        words |= {"bigquery", "pubsub"}
    if spec.addons.mesh:
        words |= {"gkehub", "mesh", "meshconfig"}
    return sorted({f"{word}.googleapis.com" for word in words} | set(spec.automation.services))


def roles(spec: EnvironmentSpec) -> list[str]:
    """The roles of the account that provisions it."""
    words = set(_ROLES)
    if spec.tensorboard:
        words.add("aiplatform.user")
    if spec.load_metrics:
        words |= {"bigquery.admin", "pubsub.editor"}
    if spec.addons.mesh:
        words.add("gkehub.admin")
    if any(pool.type.startswith(("tpu7x", "7x")) for pool in spec.pools.tpu.values()):
        words.add("compute.admin")  # the policies that place such slices are resources of Compute Engine
    return sorted({f"roles/{word}" for word in words} | set(spec.automation.roles))
