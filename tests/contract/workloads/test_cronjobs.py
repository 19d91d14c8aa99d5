"""CronJobs: when they create Jobs, and their status and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.workloads import WorkloadHarness, template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

pytestmark = pytest.mark.controllers
CLUSTER = "controllers"
Object = dict[str, Any]


@pytest.fixture
def workloads(cluster: Cluster, ns: str) -> Iterator[WorkloadHarness]:
    created = WorkloadHarness(cluster, ns)
    yield created
    created.delete("CronJob", "tick", propagationPolicy="Background")


def cron_job(workloads: WorkloadHarness, **spec: Any) -> None:
    """A CronJob that runs one Job at a time; the second starts when the test has finished the first.

    Jobs of the same minute have the same name.
    """
    job = {"metadata": {"labels": {"own": "yes"}}, "spec": {"template": template(restartPolicy="Never")}}
    workloads.create("CronJob", "tick", {"schedule": "@every 2s", "concurrencyPolicy": "Forbid", "jobTemplate": job, **spec})


def first_job(workloads: WorkloadHarness) -> Object:
    workloads.until("CronJob", "tick", lambda obj: obj["status"].get("lastScheduleTime"), "the first Job")
    job = workloads.items("Job")[0]
    workloads.words[job["metadata"]["name"]] = "JOB"
    return job


def test_job_is_created_on_schedule(workloads: WorkloadHarness) -> None:
    cron_job(workloads)
    job = first_job(workloads)
    metadata = {key: job["metadata"].get(key) for key in ("labels", "annotations")}
    owners = [{key: ref[key] for key in ("kind", "name", "controller")} for ref in job["metadata"]["ownerReferences"]]
    status = workloads.get("CronJob", "tick")["status"]
    assert [item["uid"] for item in status["active"]] == [job["metadata"]["uid"]]
    workloads.check("cronjobs", "one job", {"metadata": metadata, "owners": owners, "status": status})
    workloads.patch("CronJob", "tick", {"spec": {"suspend": True}})
    (pod,) = workloads.pods(1)
    workloads.phase(pod, "Succeeded", 0)
    uid = job["metadata"]["uid"]

    def over(obj: Object) -> bool:
        active = [item["uid"] for item in obj["status"].get("active", ())]
        return "lastSuccessfulTime" in obj["status"] and uid not in active

    workloads.until("CronJob", "tick", over, "its success")
    reported = workloads.events("CronJob", "tick", "SawCompletedJob")
    workloads.check("cronjobs", "told", [event for event in reported if job["metadata"]["name"] in event["message"]])


def test_suspended_cronjob_creates_no_job(workloads: WorkloadHarness) -> None:
    cron_job(workloads, suspend=True, schedule="* * * * *")
    workloads.create("Job", "other", {"template": template(restartPolicy="Never")})
    workloads.pods(1)
    assert [job["metadata"]["name"] for job in workloads.items("Job")] == ["other"]


def test_history_limit_of_zero_deletes_jobs(workloads: WorkloadHarness) -> None:
    cron_job(workloads, successfulJobsHistoryLimit=0)
    job = first_job(workloads)
    (pod,) = workloads.pods(1)
    workloads.phase(pod, "Succeeded", 0)
    workloads.events("CronJob", "tick", "SuccessfulDelete")
    assert job["metadata"]["uid"] not in [item["metadata"]["uid"] for item in workloads.items("Job")]
