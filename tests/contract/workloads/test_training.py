"""JobSets made from TrainingJobs: taken by the webhooks, admitted by Kueue, and their Jobs and pods taken by the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.training.test_compile import JOBS, job

from sliceworks.training.compile import PRIORITY, jobset

if TYPE_CHECKING:
    from tests.support.kueue import Desk

_PLENTY = {"cpu": "100k", "memory": "100Ti", "google.com/tpu": "1k", "nvidia.com/gpu": "1k"}


def test_every_kind_of_job_is_taken_admitted_and_started(desk: Desk) -> None:
    desk.queue("queue", {"name": "all", **_PLENTY})
    desk.api.post(f"/api/v1/namespaces/{desk.ns}/serviceaccounts", {"metadata": {"name": "trainer"}}).ok(201)
    desk.api.post(f"/api/v1/namespaces/{desk.ns}/serviceaccounts", {"metadata": {"name": "uploader"}}).ok(201)
    low = desk.priority("low", 250)
    wanted: set[str] = set()
    for name, text in JOBS.items():
        made = jobset(job(text, name), namespace=desk.ns)
        if PRIORITY in made["metadata"]["labels"]:
            made["metadata"]["labels"][PRIORITY] = low
        desk.api.post(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{desk.ns}/jobsets", made).ok(201)
        for each in made["spec"]["replicatedJobs"]:
            wanted |= {f"{name}-{each['name']}-{number}" for number in range(each["replicas"])}
    for name in JOBS:
        desk.until_is(name, "Admitted")

    def started() -> bool:
        jobs = desk.api.get(f"/apis/batch/v1/namespaces/{desk.ns}/jobs").ok().json["items"]
        running = {each["metadata"]["name"] for each in jobs if not each["spec"].get("suspend")}
        return running == wanted

    desk.until(started, "all Jobs")
    # Followers of a slice that has its pool alone wait for their leader; everybody else is there.
    pods = f"/api/v1/namespaces/{desk.ns}/pods"
    for name in JOBS:
        query = {"labelSelector": f"jobset.sigs.k8s.io/jobset-name={name},batch.kubernetes.io/job-completion-index=0"}
        expected = sum(each.startswith(f"{name}-") for each in wanted)
        desk.until(lambda: len(desk.api.get(pods, query).ok().json["items"]) == expected, f"first pods of {name}")  # noqa: B023
