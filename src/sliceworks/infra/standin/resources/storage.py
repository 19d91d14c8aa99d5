"""Buckets and what is in them."""

from __future__ import annotations

from sliceworks.infra.standin.kinds import Rest
from sliceworks.infra.standin.mapping import Names

KINDS = {
    "google_storage_bucket": Rest(
        api="storage",
        collection="b?project={project}",
        path="b/{name}",
        id="{name}",
        fixed=("name", "location", "project"),
        names=Names(
            renamed={
                "effective_labels": "labels",
                "uniform_bucket_level_access": "iamConfiguration.uniformBucketLevelAccess.enabled",
                "public_access_prevention": "iamConfiguration.publicAccessPrevention",
                "lifecycle_rule": "lifecycle.rule",
            },
            local=frozenset({"project", "force_destroy", "labels", "terraform_labels"}),
            sent=frozenset({"effective_labels"}),
        ),
        derived={"url": "gs://{name}"},
    ),
}
