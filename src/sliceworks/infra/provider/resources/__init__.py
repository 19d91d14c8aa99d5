"""All resources and data sources, by Terraform type.

resourcemanager, iam_member  projects, enabled services, service accounts and IAM members
compute, container, storage  networks, GKE, Cloud Storage
bigquery                     BigQuery, Pub/Sub, Artifact Registry and GKE Hub
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.infra.provider.resources import bigquery, compute, container, resourcemanager, storage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from sliceworks.infra.provider.rest_resource import Object, Resource

RESOURCES: dict[str, Resource] = {
    **container.RESOURCES,
    **compute.RESOURCES,
    **bigquery.RESOURCES,
    **resourcemanager.RESOURCES,
    **storage.RESOURCES,
}
DATA_SOURCES: dict[str, Callable[[Any, Any, Object], Awaitable[Object]]] = {
    **compute.DATA_SOURCES,
    **container.DATA_SOURCES,
    **resourcemanager.DATA_SOURCES,
}
REPLACEMENTS: dict[str, Callable[[Object, Object], list[str]]] = {**compute.REPLACEMENTS}
"""Changes that replace a resource by the provider's code, not by its schema: paths from the prior and the planned state."""
