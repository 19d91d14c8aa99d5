"""CronJobs: when they start Jobs, and what they say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.workloads import Lab, template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster

CLUSTER = "hands"
Object = dict[str, Any]


@pytest.fixture
def lab(cluster: Cluster, ns: str) -> Iterator[Lab]:
    made = Lab(cluster, ns)
    yield made
    made.delete("CronJob", "tick", propagationPolicy="Background")


def cron_job(lab: Lab, **spec: Any) -> None:
    """Its Jobs come one at a time: the second comes when the case has ended the first, however long that takes.

    Those of one minute have one name.
    """
    job = {"metadata": {"labels": {"own": "yes"}}, "spec": {"template": template(restartPolicy="Never")}}
    lab.create("CronJob", "tick", {"schedule": "@every 2s", "concurrencyPolicy": "Forbid", "jobTemplate": job, **spec})


def first_job(lab: Lab) -> Object:
    lab.until("CronJob", "tick", lambda found: found["status"].get("lastScheduleTime"), "the first Job")
    job = lab.items("Job")[0]
    lab.words[job["metadata"]["name"]] = "JOB"
    return job


def test_one_job(lab: Lab) -> None:
    cron_job(lab)
    job = first_job(lab)
    metadata = {key: job["metadata"].get(key) for key in ("labels", "annotations")}
    owners = [{key: ref[key] for key in ("kind", "name", "controller")} for ref in job["metadata"]["ownerReferences"]]
    status = lab.get("CronJob", "tick")["status"]
    assert [each["uid"] for each in status["active"]] == [job["metadata"]["uid"]]
    lab.check("cronjobs", "one job", {"metadata": metadata, "owners": owners, "status": status})
    lab.patch("CronJob", "tick", {"spec": {"suspend": True}})
    (pod,) = lab.pods(1)
    lab.phase(pod, "Succeeded", 0)
    uid = job["metadata"]["uid"]

    def over(found: Object) -> bool:
        active = [each["uid"] for each in found["status"].get("active", ())]
        return "lastSuccessfulTime" in found["status"] and uid not in active

    lab.until("CronJob", "tick", over, "its success")
    told = lab.events("CronJob", "tick", "SawCompletedJob")
    lab.check("cronjobs", "told", [event for event in told if job["metadata"]["name"] in event["message"]])


def test_suspended(lab: Lab) -> None:
    cron_job(lab, suspend=True, schedule="* * * * *")
    lab.create("Job", "other", {"template": template(restartPolicy="Never")})
    lab.pods(1)
    assert [job["metadata"]["name"] for job in lab.items("Job")] == ["other"]


def test_no_history(lab: Lab) -> None:
    cron_job(lab, successfulJobsHistoryLimit=0)
    job = first_job(lab)
    (pod,) = lab.pods(1)
    lab.phase(pod, "Succeeded", 0)
    lab.events("CronJob", "tick", "SuccessfulDelete")
    assert job["metadata"]["uid"] not in [each["metadata"]["uid"] for each in lab.items("Job")]
