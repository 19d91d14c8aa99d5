"""Random lives of a whole twin: quota is never reserved twice nor left unused, pods are placed where they fit and start with what
they need, every job runs or says why, and nothing is left in the end.

`make test-lives` runs 500 of them; seeds that failed once are run always.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.twin_oracles import JobOracle, OwnerOracle, PlacementOracle, QuotaOracle, SourceOracle, TimeOracle
from tests.support.twin_simulation import simulate

from sliceworks.base import clock

_SEEDS = int(os.environ.get("SLICEWORKS_SEEDS", "4"))
_FAILED_ONCE = (12, 53, 55, 76, 92, 151, 164)
"""12: a StrictFIFO queue stayed idle after its blocked head was deleted. 53, 55: `why` knew nothing of pods that a lost host keeps,
which a Job waits for. 76: the scheduler stayed blocked after blockAdmission was turned off. 92: the leader of an exclusive Job was
lost, which JobSet never repairs. 151: `why` knew nothing of a host that was not ready. 164: a node stayed ready that became silent
while the simulator was down."""
_FAILED_WITH_FAILING_PODS = (32, 138)
"""32: a Workload was preempted in the second in which it was admitted, and Kueue released its quota before the status of its Job
counted its pod, as Kueue does. 138: Kueue counted usage twice in a cohort while a queue used more than its reduced quota."""


@pytest.mark.parametrize("seed", sorted({*range(_SEEDS), *_FAILED_ONCE, *_FAILED_WITH_FAILING_PODS}))
def test_a_random_life_ends_well(seed: int) -> None:
    life = clock.run(simulate(seed, failures=seed not in _FAILED_ONCE), virtual=True, seed=seed)
    assert not life.wrong, "\n".join([*life.wrong, *life.seen])


def test_one_seed_gives_one_life() -> None:
    first, second = (clock.run(simulate(1), virtual=True, seed=1) for _ in range(2))
    assert first.seen == second.seen


def _change(resource: str, name: str, obj: Any, kind: str = "ADDED", namespace: str = "default") -> Any:
    return SimpleNamespace(resource=resource, namespace=namespace, name=name, type=kind, obj=obj)


@pytest.mark.parametrize(
    ("source", "annotations", "missing"),
    [
        ({"volumes": [{"name": "v", "secret": {"secretName": "key"}}]}, {}, "secrets key"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]}, {}, "persistentvolumeclaims disk"),
        ({"serviceAccountName": "robot"}, {}, "serviceaccounts robot"),
        ({"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "settings"}}]}]}, {}, "configmaps settings"),
        ({}, {"sliceworks.dev/image-pull": "fail"}, "image"),
    ],
)
def test_the_oracle_reports_pods_that_run_without_a_source(source: Any, annotations: dict[str, str], missing: str) -> None:
    async def observe() -> SourceOracle:
        oracle = SourceOracle()
        oracle.observe(_change("/serviceaccounts", "default", {}))
        metadata = {"namespace": "default", "name": "p", "uid": "u", "annotations": annotations}
        pod = {"metadata": metadata, "spec": {"containers": [], **source}}
        oracle.observe(_change("/pods", "p", {**pod, "status": {"containerStatuses": [{"state": {"waiting": {}}}]}}))
        assert not oracle.wrong
        oracle.observe(_change("/pods", "p", {**pod, "status": {"containerStatuses": [{"state": {"running": {}}}]}}))
        return oracle

    [reported] = clock.run(observe(), virtual=True).wrong
    assert reported.endswith(f"pod p runs without {missing}")


def test_the_oracle_reports_quota_that_is_reserved_twice() -> None:
    flavor = {"name": "cpu", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    queue = {"spec": {"cohortName": "all", "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]}}
    assigned = {"name": "main", "count": 1, "flavors": {"cpu": "cpu"}, "resourceUsage": {"cpu": "5"}}
    workload = {
        "spec": {"podSets": [{"name": "main", "count": 1}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            "admission": {"clusterQueue": "q", "podSetAssignments": [assigned]},
        },
    }

    async def observe() -> list[str]:
        oracle = QuotaOracle()
        for name in ("q", "other"):
            oracle.observe(_change("kueue.x-k8s.io/clusterqueues", name, queue))
        oracle.observe(_change("kueue.x-k8s.io/workloads", "first", workload))
        assert not oracle.wrong, "5 of 8 CPUs are borrowed"
        oracle.observe(_change("kueue.x-k8s.io/workloads", "second", workload))
        return oracle.wrong

    [reported] = clock.run(observe(), virtual=True)
    assert reported.endswith("second is admitted, and cohort all has 10 of 8 cpu of cpu reserved")


@pytest.mark.parametrize(("lent", "cpu", "fits"), [(0, 4, True), (0, 5, False), (6, 2, True), (6, 3, False)])
def test_the_oracle_knows_what_fits_the_quota_of_a_queue(lent: int, cpu: int, fits: bool) -> None:
    """Two queues with 4 CPUs each: one can use its own, unless the other has borrowed them."""
    flavor = {"name": "cpu", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    queue = {"spec": {"cohortName": "all", "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}]}}
    assigned = {"name": "main", "count": 1, "flavors": {"cpu": "cpu"}, "resourceUsage": {"cpu": str(lent)}}
    admission = {"clusterQueue": "other", "podSetAssignments": [assigned]}
    status = {"conditions": [{"type": "QuotaReserved", "status": "True"}], "admission": admission}
    workload = {"spec": {"podSets": [{"name": "main", "count": 1}]}, "status": status}

    async def observe() -> bool:
        oracle = QuotaOracle()
        for name in ("q", "other"):
            oracle.observe(_change("kueue.x-k8s.io/clusterqueues", name, queue))
        oracle.observe(_change("kueue.x-k8s.io/workloads", "first", workload))
        return oracle.fits_nominal_quota("q", Counter({"cpu": cpu}))

    assert clock.run(observe(), virtual=True) is fits


@pytest.mark.parametrize(
    ("pod", "reported"),
    [
        ({"nodeSelector": {"pool": "b"}}, "the label pool of the node is a, not b"),
        ({"workload": "w"}, "the label pool of the node is a, not c"),
        ({"cpu": "3"}, "the node has 4 cpu, and its pods request 5"),
        ({"tolerations": []}, "the node has the taint tpu:NoSchedule since 0.0"),
        ({"tolerations": [{"key": "tpu", "effect": "NoExecute"}]}, "the node has the taint tpu:NoSchedule since 0.0"),
    ],
)
def test_the_oracle_reports_pods_that_are_placed_where_they_do_not_fit(pod: dict[str, Any], reported: str) -> None:
    async def observe() -> list[str]:
        oracle = PlacementOracle()
        labels, taint = {"labels": {"pool": "a"}}, {"key": "tpu", "effect": "NoSchedule"}
        status = {"allocatable": {"cpu": "4", "pods": "10"}}
        oracle.observe(_change("kueue.x-k8s.io/resourceflavors", "c", {"spec": {"nodeLabels": {"pool": "c"}}}, namespace=""))
        admission = {"podSetAssignments": [{"name": "main", "flavors": {"cpu": "c"}}]}
        oracle.observe(_change("kueue.x-k8s.io/workloads", "w", {"status": {"admission": admission}}))
        oracle.observe(_change("/nodes", "n", {"metadata": labels, "spec": {"taints": [taint]}, "status": status}, namespace=""))
        await clock.sleep(PlacementOracle.DELAY + 1)
        for name, more in (("first", {}), ("second", pod)):
            assert not oracle.wrong
            container = {"resources": {"requests": {"cpu": more.get("cpu", "2")}}}
            spec = {"nodeName": "n", "tolerations": [{"key": "tpu"}], "containers": [container], **more}
            metadata = {"uid": name, "name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/podset": "main"}}
            metadata["annotations"] = {"kueue.x-k8s.io/workload": more.get("workload", "")}
            oracle.observe(_change("/pods", name, {"metadata": metadata, "spec": spec}))
        return oracle.wrong

    [found] = clock.run(observe(), virtual=True)
    assert found.endswith(f"second is placed on n: {reported}")


def _owned(uid: str, owner: str) -> dict[str, Any]:
    return {"uid": uid, "name": uid, "ownerReferences": [{"uid": owner}]}


@pytest.mark.parametrize(
    ("job", "jobset", "allowed"),
    [
        ({}, {}, 1),
        ({"suspend": True}, {}, 0),
        ({}, {"conditions": [{"type": "Completed", "status": "True"}]}, 0),
    ],
)
def test_the_oracle_reports_pods_that_a_job_may_not_have(job: dict[str, Any], jobset: dict[str, Any], allowed: int) -> None:
    async def observe() -> list[str]:
        oracle = JobOracle()
        oracle.observe(_change("jobset.x-k8s.io/jobsets", "js", {"metadata": {"uid": "js"}, "status": jobset}))
        oracle.observe(_change("batch/jobs", "j", {"metadata": _owned("j", "js"), "spec": {"parallelism": 1, **job}}))
        for number in range(allowed + 1):
            oracle.observe(_change("/pods", f"p{number}", {"metadata": _owned(f"p{number}", "j"), "spec": {}}))
            for _ in range(3):
                assert not oracle.wrong
                await clock.sleep(JobOracle.PATIENCE / 2 + 1)
                oracle.check()
        return oracle.wrong

    [found, *_] = clock.run(observe(), virtual=True)
    assert f"j may have {allowed} pods and has {[f'p{number}' for number in range(allowed + 1)]}" in found


@pytest.mark.parametrize("age", [JobOracle.DELAY - 1, JobOracle.DELAY + 1])
def test_the_oracle_reports_quota_that_is_released_while_pods_run(age: float) -> None:
    """A new pod may not be in the status of its Job yet, which Kueue goes by."""

    async def observe() -> list[str]:
        oracle = JobOracle()
        oracle.observe(_change("batch/jobs", "j", {"metadata": {"uid": "j"}, "spec": {}}))
        oracle.observe(_change("/pods", "p", {"metadata": _owned("p", "j"), "spec": {}}))
        await clock.sleep(age)
        for status in ("True", "False"):
            assert not oracle.wrong
            conditions = [{"type": "QuotaReserved", "status": status}]
            oracle.observe(
                _change("kueue.x-k8s.io/workloads", "w", {"metadata": _owned("w", "j"), "status": {"conditions": conditions}})
            )
        return oracle.wrong

    reported = clock.run(observe(), virtual=True)
    assert [text.partition(" ")[2] for text in reported] == (
        ["the quota of w is released while it has the pods ['p']"] if age > JobOracle.DELAY else []
    )


def test_the_oracle_reports_time_that_goes_back() -> None:
    async def observe() -> list[str]:
        oracle = TimeOracle()
        for seconds in (5.0, 0.0):
            since = clock.now() - timedelta(seconds=10 - seconds)
            condition = {"type": "Ready", "lastTransitionTime": since.isoformat().replace("+00:00", "Z")}
            oracle.observe(_change("/nodes", "n", {"status": {"conditions": [condition]}}))
        return oracle.wrong

    [reported] = clock.run(observe(), virtual=True)
    assert "Ready changed at" in reported


def test_the_oracle_reports_what_outlives_its_owner_or_its_node() -> None:
    async def observe() -> list[str]:
        oracle = OwnerOracle()
        job, node = {"metadata": {"uid": "job"}}, {"metadata": {"uid": "node"}}
        owned = {"metadata": {"uid": "pod", "ownerReferences": [{"uid": "job"}]}, "spec": {"nodeName": "n"}}
        bound = {"metadata": {"uid": "other"}, "spec": {"nodeName": "n"}}
        ending = {"metadata": {"uid": "ending", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n"}}
        pods = (("/pods", "owned", owned), ("/pods", "bound", bound), ("/pods", "ending", ending))
        for change in (("batch/jobs", "j", job), *pods):
            oracle.observe(_change(*change))
        oracle.observe(_change("/nodes", "n", node, namespace=""))
        oracle.check()
        oracle.observe(_change("batch/jobs", "j", job, "DELETED"))
        oracle.observe(_change("/nodes", "n", node, "DELETED", ""))
        for _ in range(3):
            oracle.check()
            assert not oracle.wrong
            await clock.sleep(OwnerOracle.PATIENCE / 2)
        await clock.sleep(1)
        oracle.check()
        return oracle.wrong

    assert [report.split(" has ")[1].split(" since")[0] for report in clock.run(observe(), virtual=True)] == [
        "outlived all of its owners",
        "outlived its node",
        "outlived its node",
    ]
