"""TrainingJobs compiled to JobSets: golden files, and invariants.

`SLICEWORKS_RECORD=1` rewrites the golden files and fails the run once, so that a person reviews the diff.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sliceworks.base import yaml_documents
from sliceworks.specs import documents
from sliceworks.specs.training import TrainingJob
from sliceworks.training import submission
from sliceworks.training.jobset import build_jobset

GOLDENS = Path(__file__).parent / "goldens"
EXAMPLES = Path(__file__).parents[2] / "examples" / "training-jobs"
JOBS = {
    "one-slice": "slices: {type: v4-16}, priority: low, checkpoints: 'gs://runs/one', restarts: {max: 2}",
    "two-slices": """
      slices: {accelerator: tpu-v4-podslice, topology: 2x2x4, count: 2}, xlaFlags: [--a, --b=1], deadline: 2h, timeToLive: 24h,
      env: {STEPS: '10'}, secrets: [{secret: hub, key: token, env: HUB_TOKEN}, {secret: keys, mountPath: /keys}]""",
    "single-host": "slices: {type: v5litepod-8}, volumes: [{name: home, mountPath: /home, pvc: home}]",
    "gpu": "slices: {type: l4-1}, volumes: [{name: data, mountPath: /data, filestore: {server: 10.0.0.2, path: /share}}]",
    "two-gpus": "slices: {type: l4-1, count: 2}",
    "spot": """slices: {type: v5litepod-16, capacity: spot},
      restarts: {max: 3, rules: [{exitCodes: [42, 3], action: fail}, {exitCodes: [75], action: restart-for-free}]}""",
    "tensorboard": """slices: {type: v4-16}, serviceAccount: trainer,
      tensorboard: {instance: projects/p/locations/us-central1/tensorboards/1, logs: 'gs://runs/logs', image: 'uploader:1',
                    pool: cpu, serviceAccount: uploader},
      helpers: [{name: janitor, image: 'janitor:1', args: [--every=1h], env: {KEEP: '3'}}]""",
    "plain-tensorboard": """slices: {type: v4-16}, volumes: [{name: runs, mountPath: /runs, gcsFuse: {bucket: runs}}],
      tensorboard: {logs: /runs/first, image: 'tensorboard:1'}""",
    "reservation": """slices: {type: v5p-32, capacity: reservation, reservation: ours}, libtpuArgs: [--x=1],
      restarts: {max: 5, rules: [{exitCodes: [1], action: restart}]}""",
}


def job(text: str, name: str = "train") -> TrainingJob:
    head = f"apiVersion: sliceworks.dev/v1alpha1\nkind: TrainingJob\nmetadata: {{name: {name}, labels: {{run: first}}}}\n"
    [document] = yaml_documents.load_all(
        f"{head}spec: {{{'' if 'queue: ' in text else 'queue: queue, '}image: 'train:1', {text}}}", "job.yaml"
    )
    result = documents.read(document)
    assert isinstance(result, TrainingJob)
    return result


def workers(text: str) -> Any:
    return build_jobset(job(text))["spec"]["replicatedJobs"][0]


def pod(text: str) -> Any:
    return workers(text)["template"]["spec"]["template"]["spec"]


@pytest.mark.parametrize("case", JOBS)
def test_golden(case: str) -> None:
    path, created = GOLDENS / f"{case}.yaml", yaml_documents.dump(build_jobset(job(JOBS[case]), namespace="team"))
    if os.environ.get("SLICEWORKS_RECORD"):
        before = path.read_text() if path.exists() else ""
        path.write_text(created)
        assert before == created, f"{path.name} was rewritten: read the difference"
    assert path.read_text() == created


def test_hosts_and_chips_match_the_catalog() -> None:
    for kind, hosts, chips in (("v4-32", 4, "4"), ("v5litepod-8", 1, "8"), ("v5litepod-1", 1, "1"), ("v5p-8", 1, "4")):
        result = workers(f"slices: {{type: {kind}}}")["template"]["spec"]
        assert (result["parallelism"], result["completions"], result["backoffLimit"]) == (hosts, hosts, 0)
        resources = result["template"]["spec"]["containers"][0]["resources"]
        assert resources["limits"] == {"google.com/tpu": chips}
        assert set(resources["requests"]) == {"cpu", "memory", "google.com/tpu"}


def test_only_multi_host_slices_have_exclusive_pools() -> None:
    jobs = {
        replicated_job["name"]: replicated_job
        for replicated_job in build_jobset(job(JOBS["tensorboard"]))["spec"]["replicatedJobs"]
    }
    assert list(jobs["slice"]["template"]["metadata"]["annotations"].values()) == ["cloud.google.com/gke-nodepool"]
    assert "metadata" not in jobs["tensorboard"]["template"]
    assert "metadata" not in jobs["janitor"]["template"]
    assert "metadata" not in workers("slices: {type: v5litepod-8}")["template"]


def test_two_machine_types_have_different_selectors() -> None:
    assert pod("slices: {type: v5litepod-8}")["nodeSelector"]["cloud.google.com/gke-accelerator-count"] == "8"
    split = workers("slices: {type: v5litepod-8, chipsPerHost: 4}")["template"]["spec"]
    assert split["parallelism"] == 2
    assert split["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-accelerator-count"] == "4"


def test_host_network_is_for_multi_host_jobs() -> None:
    assert pod("slices: {type: v4-16}")["hostNetwork"] is True
    assert pod("slices: {type: v5litepod-8, count: 2}")["dnsPolicy"] == "ClusterFirstWithHostNet"
    for alone in ("v5litepod-8", "l4-1"):
        assert "hostNetwork" not in pod(f"slices: {{type: {alone}}}")


def test_nothing_runs_as_root() -> None:
    for replicated in build_jobset(job(JOBS["tensorboard"]))["spec"]["replicatedJobs"]:
        result = replicated["template"]["spec"]["template"]["spec"]
        assert result["securityContext"]["runAsNonRoot"] is True
        assert all(container["securityContext"]["allowPrivilegeEscalation"] is False for container in result["containers"])


def test_document_takes_precedence_over_defaults() -> None:
    env = pod("slices: {type: v4-32, count: 2}, env: {MEGASCALE_NUM_SLICES: '7'}")["containers"][0]["env"]
    assert [variable["value"] for variable in env if variable["name"] == "MEGASCALE_NUM_SLICES"] == ["7"]


def test_reservation_is_selected_by_name() -> None:
    result = pod("slices: {type: v4-16, capacity: reservation, reservation: ours}")
    assert result["nodeSelector"]["cloud.google.com/reservation-name"] == "ours"


def test_script_is_embedded_in_the_job() -> None:
    created = submission.load(EXAMPLES / "hello-multi-slice.yaml").jobset()
    command = created["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command == ["python3", "-c", (EXAMPLES / "hello.py").read_text()]
