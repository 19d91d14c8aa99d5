"""An Environment becomes Terraform stages: what each is given is compared with files that a person has read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.support.environments import BARE

from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.base.yamls import load_all, load_path
from sliceworks.infra.stages import stages
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

EXAMPLES = Path(__file__).parents[2] / "examples" / "environments"
GOLDENS = Path(__file__).parent / "goldens"


def environment(text: str) -> Environment:
    [document] = load_all(text, "environment.yaml")
    found = documents.read(document)
    assert isinstance(found, Environment)
    return found


def variables(text: str, stage: str) -> dict[str, Any]:
    return next(each for each in stages(environment(text)) if each.name == stage).variables


@pytest.mark.parametrize("name", ["saxml", "self-service", "training", "triton"])
def test_the_examples_have_the_variables_that_were_read_over(name: str) -> None:
    [document] = load_path(EXAMPLES / name / "environment.yaml")
    found = documents.read(document)
    assert isinstance(found, Environment)
    seen = {stage.name: {"variables": stage.variables, "takes": stage.takes} for stage in stages(found)}
    path = GOLDENS / f"{name}.json"
    if os.environ.get("SLICEWORKS_RECORD") == "1":
        path.write_bytes(orjson.dumps(seen, option=orjson.OPT_INDENT_2) + b"\n")
        pytest.fail(f"{path.name} was written: read it")
    assert seen == orjson.loads(path.read_bytes())


@pytest.mark.parametrize(
    ("kind", "hosts", "placement"),
    [("v4-8", 1, "none"), ("v4-32", 4, "compact"), ("v5litepod-8", 1, "none"), ("v5litepod-16", 4, "compact")],
)
def test_slices_of_several_hosts_are_placed_together_and_others_are_not(kind: str, hosts: int, placement: str) -> None:
    pool = variables(BARE + f"  pools: {{tpu: {{slice: {{type: {kind}}}}}}}\n", "2-cluster")["pools"]["slice-0"]
    assert (pool["tpu"]["hosts"], pool["tpu"]["placement"], pool["nodes_per_zone"]) == (hosts, placement, hosts)


def test_no_slices_are_no_pools() -> None:
    assert variables(BARE + "  pools: {tpu: {slice: {type: v4-32, count: 0}}}\n", "2-cluster")["pools"] == {}


def test_a_slice_that_scales_has_all_its_hosts_or_none() -> None:
    pool = variables(BARE + "  pools: {tpu: {slice: {type: v4-32, autoscaling: true}}}\n", "2-cluster")["pools"]["slice-0"]
    assert pool["autoscaling"] == {"min": 0, "max": 4, "initial_per_zone": 0}
    assert "nodes_per_zone" not in pool


def test_gpu_pools_keep_everything_that_was_asked_for() -> None:
    text = (
        BARE
        + "  pools: {gpu: {t4: {accelerator: nvidia-tesla-t4, acceleratorCount: 2, gvnic: true, spot: true, driver: latest}}}\n"
    )
    pool = variables(text, "2-cluster")["pools"]["t4"]
    assert pool["gpu"] == {"type": "nvidia-tesla-t4", "count": 2, "driver": "LATEST", "gvnic": True, "local_ssds": 0}
    assert pool["spot"] is True


def test_taints_reach_the_pool() -> None:
    text = BARE + "  pools: {cpu: {admin: {nodes: 1, taints: [{key: admin, value: 'true', effect: NoExecute}]}}}\n"
    assert variables(text, "2-cluster")["pools"]["admin"]["taints"] == [{"key": "admin", "value": "true", "effect": "NO_EXECUTE"}]


def test_an_existing_network_is_not_made_again() -> None:
    text = BARE + "  network: {existing: {hostProject: shared-net, network: core, subnet: gke, podsRange: p, servicesRange: s}}\n"
    assert variables(text, "1-base")["network"] == {
        "existing": {"host_project": "shared-net", "network": "core", "subnet": "gke", "pods_range": "p", "services_range": "s"}
    }


def test_an_account_made_by_others_needs_no_bootstrap() -> None:
    text = BARE.replace("{bucket: my-automation}", "{bucket: my-automation, create: false, serviceAccount: robot-one}")
    found = stages(environment(text))
    assert [stage.name for stage in found] == ["1-base", "2-cluster"]
    assert found[0].variables["bootstrap"] == {"service_account": "robot-one@my-project.iam.gserviceaccount.com"}


def test_services_and_roles_follow_from_what_is_asked_for() -> None:
    plain = variables(BARE, "0-bootstrap")["automation"]
    tested = variables(BARE + "  loadMetrics: {}\n", "0-bootstrap")["automation"]
    assert set(tested["services"]) - set(plain["services"]) == {"bigquery.googleapis.com", "pubsub.googleapis.com"}
    assert set(tested["roles"]) - set(plain["roles"]) == {"roles/bigquery.admin", "roles/pubsub.editor"}
    assert not {"roles/owner", "roles/editor"} & set(tested["roles"])


def test_nodes_that_cannot_be_spread_evenly_are_refused() -> None:
    text = BARE.replace("[us-central2-b]", "[us-central2-b, us-central2-c]") + "  pools: {cpu: {main: {nodes: 3}}}\n"
    with pytest.raises(InvalidDocument, match="3 nodes cannot be spread evenly over 2 zones"):
        stages(environment(text))


def test_an_unknown_type_is_refused_with_the_closest() -> None:
    with pytest.raises(SliceworksError) as caught:
        stages(environment(BARE + "  pools: {tpu: {slice: {type: v4-33}}}\n"))
    assert "v4-32" in caught.value.hint


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("  zone: us-central2-b\n", "unknown field spec.zone; did you mean zones?"),
        ("  zones: [us-west4-a]\n", "zones must be of region us-central2, found us-west4-a"),
        ("  cluster: {mode: autopilot}\n  pools: {cpu: {a: {}}}\n", "an Autopilot cluster makes its own nodes"),
        ("  cluster: {autoUpgrade: false}\n", "set releaseChannel to none"),
        ("  network: {subnet: {pods: 10.0.0.0/33}}\n", "must be an IPv4 range"),
        ("  pools: {cpu: {a: {nodes: 1, autoscaling: {max: 2}}}}\n", "give nodes or autoscaling, not both"),
        ("  pools: {tpu: {a: {type: v4-8, spot: true, reservation: {name: r}}}}\n", "a pool is spot or of a reservation, not both"),
        ("  buckets: {my-bucket: {readers: [nobody-sa]}}\n", "identities.workloads has no nobody-sa"),
        ("  pools: {cpu: {same: {}}, gpu: {same: {}}}\n", "a pool is named twice: same"),
        (f"  cluster: {{name: {'c' * 41}}}\n", "must be no more than 40 characters"),
    ],
)
def test_what_is_wrong_with_an_environment_is_said_in_words(line: str, says: str) -> None:
    text = BARE.replace("  zones: [us-central2-b]\n", "") if line.startswith("  zones") else BARE
    [document] = load_all(text + line, "environment.yaml")
    found = [str(problem) for problem in documents.check(document)[1]]
    assert any(says in each for each in found), found
