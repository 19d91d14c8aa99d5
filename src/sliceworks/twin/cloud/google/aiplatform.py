"""Vertex AI: TensorBoard instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.names import numeric_id
from sliceworks.twin.cloud.core.collection import ResourceType, with_name_and_times
from sliceworks.twin.cloud.core.service import ServiceSpec

if TYPE_CHECKING:
    from sliceworks.twin.cloud.core.routes import Call


def _generate_id(call: Call) -> str:
    """Vertex AI ignores names in requests and numbers its resources."""
    location, project = call.params["location"], call.params["project"]
    return numeric_id(f"{project}/{location}/{call.body.get('displayName')}/{clock.timestamp()}")[:18]


SERVICE = ServiceSpec("aiplatform", "v1", "google.cloud.aiplatform.v1.Tensorboard")
RESOURCES = (
    ResourceType(
        "tensorboards",
        "projects/{project}/locations/{location}",
        "GoogleCloudAiplatformV1Tensorboard",
        "aiplatform.tensorboards",
        get_name=_generate_id,
        fill=with_name_and_times(),
        has_update_mask=True,
    ),
)
