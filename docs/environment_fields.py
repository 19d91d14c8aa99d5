"""The reference of the Environment document."""

from __future__ import annotations

from document_fields import page
from sliceworks.specs.environment import EnvironmentSpec, values

_OPENING = """\
# Environment

One document for everything that a platform stands on. This page is made from the program by `make fix`; [make an
environment](../how-to/make-an-environment.md) shows it at work, and [variables](environment-variables.md) where the inputs
of the reference environments have gone. A field that is not known is an error that names the closest one.

```yaml
apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: training}
spec: {}    # as below
```
"""
_WORDS = {
    "Project": "project id",
    "Region": "region",
    "Zone": "zone",
    "ResourceName": "name",
    "ClusterName": "name, at most 40 characters",
    "PoolName": "name, at most 39 characters",
    "AccountName": "service account id",
    "BucketName": "bucket name",
    "DatasetName": "letters, digits and underscores",
    "Range": "IPv4 range",
    "Role": "role",
    "Service": "service",
    "Checksum": "SHA-256",
    "Duration": "length of time",
    "Member": "member, such as `group:team@example.com`",
    "Positive": "number, 1 or more",
    "Natural": "number, 0 or more",
}


def environment() -> str:
    """The page."""
    return page(_OPENING, EnvironmentSpec, [(getattr(values, name), words) for name, words in _WORDS.items()])
