"""Field types of an Environment: names and addresses, validated by Google Cloud's own rules."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, Field

from sliceworks.base import duration, quantity

_PROJECT = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-(ai[0-9]+)?[a-z]")  # us-central1-a, us-central1-ai1a
_RESOURCE = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_ACCOUNT = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]*[a-z0-9]")
_DATASET = re.compile(r"[A-Za-z0-9_]{1,1024}")
_LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_ROLE = re.compile(r"roles/[A-Za-z0-9.]+|(projects|organizations)/[^/]+/roles/[A-Za-z0-9._]+")
_SERVICE = re.compile(r"[a-z][a-z0-9-]*\.googleapis\.com")
_KEY = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")
_CHECKSUM = re.compile(r"([0-9a-f]{64})?")
_MEMBER = re.compile(r"(user|group|serviceAccount|domain):[^\s:]+")

_MAX_CLUSTER, _MAX_POOL, _MAX_RESOURCE, _MAX_BUCKET = 40, 39, 63, 63


def _matching(pattern: re.Pattern[str], expected: str, max_length: int = 0) -> AfterValidator:
    def check(value: str) -> str:
        if max_length and len(value) > max_length:
            raise ValueError(f"must be no more than {max_length} characters, {value!r} has {len(value)}")
        if not pattern.fullmatch(value):
            raise ValueError(f"must be {expected}, found {value!r}")
        return value

    return AfterValidator(check)


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
        raise ValueError(f"must be a duration such as 10m or 1h30m, found {value!r}") from error
    return value


def _amount(value: str) -> str:
    try:
        if value and quantity.parse(value) < 0:
            raise ValueError("must not be negative")
    except ValueError as error:
        raise ValueError(f"must be a quantity such as 64 or 200Gi, found {value!r}") from error
    return value


_NAME_RULE = "lower-case letters, digits and hyphens, beginning with a letter"
Project = Annotated[str, _matching(_PROJECT, "a project id: 6 to 30 " + _NAME_RULE)]
Region = Annotated[str, _matching(_REGION, "a region such as us-central2")]
Zone = Annotated[str, _matching(_ZONE, "a zone such as us-central2-b")]
ResourceName = Annotated[str, _matching(_RESOURCE, _NAME_RULE, _MAX_RESOURCE)]
ClusterName = Annotated[str, _matching(_RESOURCE, _NAME_RULE, _MAX_CLUSTER)]
PoolName = Annotated[str, _matching(_RESOURCE, _NAME_RULE, _MAX_POOL)]
AccountName = Annotated[str, _matching(_ACCOUNT, "a service account id: 6 to 30 " + _NAME_RULE)]
BucketName = Annotated[
    str, _matching(_BUCKET, "a bucket name: 3 to 63 lower-case letters, digits, dots, hyphens, underscores", _MAX_BUCKET)
]
DatasetName = Annotated[str, _matching(_DATASET, "letters, digits and underscores")]
Range = Annotated[str, AfterValidator(_range)]
Role = Annotated[str, _matching(_ROLE, "a role such as roles/storage.objectViewer")]
KmsKey = Annotated[str, _matching(_KEY, "a key such as projects/P/locations/L/keyRings/R/cryptoKeys/K")]
Service = Annotated[str, _matching(_SERVICE, "a service such as container.googleapis.com")]
Checksum = Annotated[str, _matching(_CHECKSUM, "a SHA-256: 64 hexadecimal digits")]
Duration = Annotated[str, AfterValidator(_duration)]
Amount = Annotated[str, AfterValidator(_amount)]
Member = Annotated[str, _matching(_MEMBER, "a member such as group:research@example.com")]
Labels = dict[
    Annotated[str, _matching(_LABEL, "a label of Google Cloud: lower case, at most 63 characters")],
    Annotated[str, _matching(_LABEL_VALUE, "a label's value: lower case, at most 63 characters")],
]
Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
