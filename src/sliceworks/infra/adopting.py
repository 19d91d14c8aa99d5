"""Things that may have been made by a run that never heard so: found by their names, and taken over into the state.

What a thing is called follows from the plan; kinds that are not here can be made again without harm (members of policies, enabled
services, files in buckets, NAT of a router).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.infra.finding import Finder
    from sliceworks.infra.terraform import Terraform

Object = dict[str, Any]
_REGIONAL = "projects/{project}/regions/{region}"
IDS = {
    "google_artifact_registry_repository": "projects/{project}/locations/{location}/repositories/{repository_id}",
    "google_bigquery_dataset": "projects/{project}/datasets/{dataset_id}",
    "google_bigquery_table": "projects/{project}/datasets/{dataset_id}/tables/{table_id}",
    "google_compute_address": f"{_REGIONAL}/addresses/{{name}}",
    "google_compute_firewall": "projects/{project}/global/firewalls/{name}",
    "google_compute_network": "projects/{project}/global/networks/{name}",
    "google_compute_resource_policy": f"{_REGIONAL}/resourcePolicies/{{name}}",
    "google_compute_router": f"{_REGIONAL}/routers/{{name}}",
    "google_compute_subnetwork": f"{_REGIONAL}/subnetworks/{{name}}",
    "google_container_cluster": "projects/{project}/locations/{location}/clusters/{name}",
    "google_container_node_pool": "{project}/{location}/{cluster}/{name}",
    "google_gke_hub_feature": "projects/{project}/locations/{location}/features/{name}",
    "google_gke_hub_membership": "projects/{project}/locations/{location}/memberships/{membership_id}",
    "google_pubsub_schema": "projects/{project}/schemas/{name}",
    "google_pubsub_subscription": "projects/{project}/subscriptions/{name}",
    "google_pubsub_topic": "projects/{project}/topics/{name}",
    "google_service_account": "projects/{project}/serviceAccounts/{account_id}@{project}.iam.gserviceaccount.com",
    "google_storage_bucket": "{project}/{name}",
}
"""What Terraform imports each kind by, as a template over its planned attributes."""
_FIELD = re.compile(r"\{(\w+)\}")


def import_id(kind: str, planned: Object) -> str:
    """The id of a thing that is planned; empty when its kind has none, or a part of it is not known yet."""
    template = IDS.get(kind, "")
    parts = {name: planned.get(name) for name in _FIELD.findall(template)}
    if not template or not all(isinstance(part, str) and part for part in parts.values()):
        return ""
    return template.format_map({name: str(part).rpartition("/")[2] for name, part in parts.items()})


def adopt(terraform: Terraform, in_doubt: list[str], report: Callable[[str], None], finder: Finder) -> list[str]:
    """Take over what is in doubt and is there; returns the addresses of what was."""
    known = set(terraform.resources())
    waiting = [address for address in in_doubt if address not in known]
    if not waiting:
        return []
    planned = {each["address"]: each for each in terraform.planned_values() if each["address"] in waiting}
    taken = []
    for address, each in planned.items():
        values = each["change"].get("after") or {}
        found = import_id(each["type"], values) or finder.named_by_the_cloud(each["type"], values)
        if found:
            finder.wait_for(each["type"], values)
        if found and terraform.take_over(address, found):
            report(f"{address}: it is there already, and is taken over")
            taken.append(address)
    return taken
