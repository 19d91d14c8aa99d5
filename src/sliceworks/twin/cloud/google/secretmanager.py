"""Secret Manager: secrets and their IAM policies; versions with secret data are not implemented."""

from __future__ import annotations

from sliceworks.twin.cloud.core.collection import ResourceType, name_from_query, with_name_and_times
from sliceworks.twin.cloud.core.service import ServiceSpec

SERVICE = ServiceSpec("secretmanager", "v1")
RESOURCES = (
    ResourceType(
        "secrets",
        "projects/{project}",
        "Secret",
        "secretmanager.secrets",
        get_name=name_from_query("secretId"),
        fill=with_name_and_times(has_update_time=False),
        has_update_mask=True,
        has_policy=True,
    ),
)
