"""Field types of an Environment: names and addresses, validated by Google Cloud's own rules."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import AfterValidator

from sliceworks.base import duration, quantity
from sliceworks.specs.common import matching


def _range(value: str) -> str:
    try:
        ipaddress.IPv4Network(value)
    except ValueError as error:
        raise ValueError(f"must be an IPv4 range such as 10.0.0.0/20: {error}") from error
    return value


def _duration(value: str) -> str:
    try:
        if value and duration.parse(value) <= 0:
            raise ValueError("must be positive")
    except ValueError as error:
        raise ValueError(f"must be a duration such as 10m or 1h30m, got {value!r}") from error
    return value


def _quota(value: str) -> str:
    try:
        if value and quantity.parse(value) < 0:
            raise ValueError("must not be negative")
    except ValueError as error:
        raise ValueError(f"must be a quantity such as 64 or 200Gi, got {value!r}") from error
    return value


_NAME = r"[a-z]([a-z0-9-]*[a-z0-9])?"
_NAME_RULE = "lower-case letters, digits and hyphens, beginning with a letter"
_ID = r"[a-z][a-z0-9-]{4,28}[a-z0-9]"
_ID_RULE = f"6 to 30 {_NAME_RULE}"
_REGION = r"[a-z]+-[a-z]+[0-9]+"
_BUCKET_RULE = "a bucket name: 3 to 63 lower-case letters, digits, dots, hyphens, underscores"

Project = Annotated[str, matching(_ID, f"a project id: {_ID_RULE}")]
Region = Annotated[str, matching(_REGION, "a region such as us-central2")]
Zone = Annotated[str, matching(rf"{_REGION}-(ai[0-9]+)?[a-z]", "a zone such as us-central2-b")]  # or us-central1-ai1a
ResourceName = Annotated[str, matching(_NAME, _NAME_RULE, 63)]
ClusterName = Annotated[str, matching(_NAME, _NAME_RULE, 40)]
PoolName = Annotated[str, matching(_NAME, _NAME_RULE, 39)]
AccountName = Annotated[str, matching(_ID, f"a service account id: {_ID_RULE}")]
BucketName = Annotated[str, matching(r"[a-z0-9][a-z0-9._-]*[a-z0-9]", _BUCKET_RULE, 63)]
DatasetName = Annotated[str, matching(r"[A-Za-z0-9_]{1,1024}", "letters, digits and underscores")]
Range = Annotated[str, AfterValidator(_range)]
_ROLE = r"roles/[A-Za-z0-9.]+|(projects|organizations)/[^/]+/roles/[A-Za-z0-9._]+"
Role = Annotated[str, matching(_ROLE, "a role such as roles/storage.objectViewer")]
_KEY = r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+"
KmsKey = Annotated[str, matching(_KEY, "a key such as projects/P/locations/L/keyRings/R/cryptoKeys/K")]
Service = Annotated[str, matching(r"[a-z][a-z0-9-]*\.googleapis\.com", "a service such as container.googleapis.com")]
Checksum = Annotated[str, matching(r"([0-9a-f]{64})?", "a SHA-256: 64 hexadecimal digits")]
Duration = Annotated[str, AfterValidator(_duration)]
Quota = Annotated[str, AfterValidator(_quota)]
Member = Annotated[str, matching(r"(user|group|serviceAccount|domain):[^\s:]+", "a member such as group:research@example.com")]
Labels = dict[
    Annotated[str, matching(r"[a-z][a-z0-9_-]{0,62}", "a label of Google Cloud: lower case, at most 63 characters")],
    Annotated[str, matching(r"[a-z0-9_-]{0,63}", "a label's value: lower case, at most 63 characters")],
]
