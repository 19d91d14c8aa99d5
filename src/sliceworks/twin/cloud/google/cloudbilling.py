"""Cloud Billing: every project has the same enabled billing account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.core.routes import Route
from sliceworks.twin.cloud.core.service import RestService
from sliceworks.twin.cloud.google.cloudresourcemanager import check_project_id

if TYPE_CHECKING:
    from sliceworks.twin.cloud.core.routes import Call
    from sliceworks.twin.cloud.core.service import ServiceContext


def create(context: ServiceContext) -> list[RestService]:
    """Create the service."""
    path, permission = "projects/{project}/billingInfo", "resourcemanager.projects.get"
    return [RestService("cloudbilling", "v1", [Route("GET", path, "projects.getBillingInfo", _get_billing_info, permission)])]


def _get_billing_info(call: Call) -> dict[str, Any]:
    project = check_project_id(call.params["project"])
    return {
        "name": f"projects/{project}/billingInfo",
        "projectId": project,
        "billingAccountName": "billingAccounts/000000-000000-000000",
        "billingEnabled": True,
    }
