"""Settings: the Go provisioner's variables, a file under them and flags over them; what cannot be read is named."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.base.errors import UsageError
from sliceworks.controllers.slices import settings
from sliceworks.controllers.slices.capacity import ON_DEMAND, SPOT, Capacity
from sliceworks.controllers.slices.settings import Settings


def test_the_variables_of_the_go_provisioner() -> None:
    found = settings.read(
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
    assert found == Settings(
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


def test_its_defaults() -> None:
    found = settings.read({"GCP_ZONE": ""})
    assert (found.zones, found.node_secure_boot, found.force_on_demand, found.node_min_lifespan) == ((), True, False, 10.0)
    assert (found.concurrency, found.capacity) == (3, (ON_DEMAND,))


def test_flags_over_environment_over_file() -> None:
    file = {"project": "file", "cluster": "file", "zones": ["a", "b"], "suspendedGrace": "1m", "timeLimit": 60, "drain": True}
    found = settings.read({"GCP_CLUSTER": "env", "GCP_ZONE": "c,d"}, file, {"cluster": None, "zones": "e", "drain": False})
    assert (found.project, found.cluster, found.zones) == ("file", "env", ("e",))
    assert (found.suspended_grace, found.time_limit, found.drain) == (60.0, 60.0, False)


def test_capacity_in_order() -> None:
    found = settings.read({"SLICES_CAPACITY": "reservation=r, spot,on-demand"})
    assert found.capacity == (Capacity("reservation", "r"), SPOT, ON_DEMAND)


@pytest.mark.parametrize(
    ("environment", "file", "words"),
    [
        ({"NODE_MIN_LIFESPAN": "soon"}, {}, "NODE_MIN_LIFESPAN: 'soon' cannot be used"),
        ({"GCP_NODE_SECURE_BOOT": "maybe"}, {}, "GCP_NODE_SECURE_BOOT: 'maybe' cannot be used: true or false is wanted"),
        ({"CONCURRENCY": "0"}, {}, "CONCURRENCY: '0' cannot be used: at least 1 is wanted"),
        ({"SLICES_CAPACITY": "cheap"}, {}, "SLICES_CAPACITY: 'cheap' is no kind of capacity"),
        ({"SLICES_CAPACITY": ","}, {}, "at least one kind of capacity is wanted"),
        ({"SLICES_TIME_LIMIT": "-1s"}, {}, "it is less than nothing"),
        ({}, {"projekt": "x"}, "f.yaml: there is no setting 'projekt'"),
        ({}, {"project": 3}, "f.yaml: project: 3 cannot be used: a text is wanted"),
    ],
)
def test_what_cannot_be_read_is_named(environment: dict[str, str], file: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        settings.read(environment, file, place="f.yaml")


def test_the_closest_name_is_hinted() -> None:
    with pytest.raises(UsageError) as caught:
        settings.read({}, {"projekt": "x"})
    assert caught.value.hint == "did you mean project?"


def test_every_setting_has_a_variable_of_its_own() -> None:
    names = settings.variables()
    assert len(set(names.values())) == len(names)
