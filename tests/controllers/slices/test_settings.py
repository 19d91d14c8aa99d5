"""Settings from the TPU provisioner's environment variables, a file and flags."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.base.errors import UsageError
from sliceworks.controllers.slices import settings
from sliceworks.controllers.slices.capacity import ON_DEMAND, SPOT, Capacity
from sliceworks.controllers.slices.settings import Settings


def test_variables_of_the_go_provisioner() -> None:
    result = settings.read(
        {
            "GCP_PROJECT_ID": "p",
            "GCP_CLUSTER": "c",
            "GCP_CLUSTER_LOCATION": "us-central2",
            "GCP_ZONE": "us-central2-b",
            "GCP_NODE_SERVICE_ACCOUNT": "a@p",
            "GCP_NODE_TAGS": "one,two",
            "GCP_POD_TO_NODE_LABELS": "team",
            "GCP_NODE_SECONDARY_DISK": "disk",
            "GCP_NODE_ADDITIONAL_NETWORKS": "vpc:sub",
            "GCP_NODE_DISK_TYPE": "pd-ssd",
            "GCP_NODE_BOOT_DISK_KMS_KEY": "key",
            "GCP_NODE_SECURE_BOOT": "false",
            "GCP_NODE_CONFIDENTIAL_STORAGE": "true",
            "GCP_FORCE_ON_DEMAND": "1",
            "NODE_MIN_LIFESPAN": "1m30s",
            "CONCURRENCY": "7",
        }
    )
    assert result == Settings(
        project="p",
        cluster="c",
        location="us-central2",
        zones=("us-central2-b",),
        node_service_account="a@p",
        node_tags=("one", "two"),
        pod_to_node_labels=("team",),
        node_secondary_disk="disk",
        node_additional_networks="vpc:sub",
        node_disk_type="pd-ssd",
        node_boot_disk_kms_key="key",
        node_secure_boot=False,
        node_confidential_storage=True,
        force_on_demand=True,
        node_min_lifespan=90.0,
        concurrency=7,
    )


def test_defaults_of_the_go_provisioner() -> None:
    result = settings.read({"GCP_ZONE": ""})
    assert (result.zones, result.node_secure_boot, result.force_on_demand, result.node_min_lifespan) == ((), True, False, 10.0)
    assert (result.concurrency, result.capacity) == (3, (ON_DEMAND,))


def test_flags_over_environment_over_file() -> None:
    file = {"project": "file", "cluster": "file", "zones": ["a", "b"], "suspendedGrace": "1m", "timeLimit": 60, "drain": True}
    result = settings.read({"GCP_CLUSTER": "env", "GCP_ZONE": "c,d"}, file, {"cluster": None, "zones": "e", "drain": False})
    assert (result.project, result.cluster, result.zones) == ("file", "env", ("e",))
    assert (result.suspended_grace, result.time_limit, result.drain) == (60.0, 60.0, False)


def test_capacity_in_order() -> None:
    result = settings.read({"SLICES_CAPACITY": "reservation=r, spot,on-demand"})
    assert result.capacity == (Capacity("reservation", "r"), SPOT, ON_DEMAND)


@pytest.mark.parametrize(
    ("environment", "file", "message"),
    [
        ({"NODE_MIN_LIFESPAN": "soon"}, {}, "NODE_MIN_LIFESPAN: must be a duration such as 90s or 1h30m, got 'soon'"),
        ({"GCP_NODE_SECURE_BOOT": "maybe"}, {}, "GCP_NODE_SECURE_BOOT: must be true or false, got 'maybe'"),
        ({"CONCURRENCY": "0"}, {}, "CONCURRENCY: must be at least 1, got '0'"),
        ({"SLICES_CAPACITY": "cheap"}, {}, "SLICES_CAPACITY: unknown capacity type 'cheap'"),
        ({"SLICES_CAPACITY": ","}, {}, "must have at least one capacity type"),
        ({"SLICES_TIME_LIMIT": "-1s"}, {}, "SLICES_TIME_LIMIT: must not be negative, got '-1s'"),
        ({}, {"projekt": "x"}, "f.yaml: unknown setting 'projekt'"),
        ({}, {"project": 3}, "f.yaml: project: must be a string, got 3"),
    ],
)
def test_read_rejects_invalid_settings(environment: dict[str, str], file: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settings.read(environment, file, place="f.yaml")


def test_read_suggests_closest_name() -> None:
    with pytest.raises(UsageError) as caught:
        settings.read({}, {"projekt": "x"})
    assert caught.value.hint == "did you mean project?"


def test_environment_variables_are_unique() -> None:
    names = settings.variables()
    assert len(set(names.values())) == len(names)
