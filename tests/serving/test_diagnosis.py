"""Why a service is not ready, from its objects."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.kube import pod_diagnosis
from sliceworks.serving.cluster import describe_not_ready

Object = dict[str, Any]


def explain(pods: list[Object], jobs: list[Object], events: list[Object]) -> list[pod_diagnosis.Cause]:
    return pod_diagnosis.explain(pods, jobs, events, not_ready=describe_not_ready)


def pod(containers: list[Object] | None = None, conditions: list[Object] | None = None, **more: Any) -> Object:
    status = {"phase": "Pending", "containerStatuses": containers or [], "conditions": conditions or [], **more}
    spec = {"nodeSelector": {"cloud.google.com/gke-tpu-topology": "2x4"}}
    return {"metadata": {"name": "server-0", "uid": "u"}, "spec": spec, "status": status}


def container(waiting: Object | None = None, last: Object | None = None) -> Object:
    state = {"waiting": waiting} if waiting else {"running": {}}
    return {"name": "vllm", "image": "vllm:1", "state": state, **({"lastState": {"terminated": last}} if last else {})}


NOT_READY = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]


@pytest.mark.parametrize(
    ("seen", "expected", "remedy"),
    [
        (
            pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]),
            "unschedulable: 0/3 nodes are available",
            "check that a node pool of 2x4 is free",
        ),
        (
            pod([container({"reason": "ImagePullBackOff", "message": "not found"})]),
            "cannot pull image vllm:1: not found",
            "read the registry",
        ),
        (
            pod([container({"reason": "CreateContainerConfigError", "message": 'secret "hugging-face" not found'})]),
            'container vllm cannot start: secret "hugging-face" not found',
            "check that the Secret or ConfigMap exists",
        ),
        (
            pod([container({"reason": "CrashLoopBackOff"}, {"reason": "Error", "exitCode": 2})]),
            "container vllm exited with code 2",
            "kubectl logs pod/server-0 -c vllm --previous",
        ),
        (
            pod(
                [
                    container(
                        {"reason": "CrashLoopBackOff"}, {"reason": "Error", "exitCode": 1, "message": "Traceback:\n  …\nno chips\n"}
                    )
                ]
            ),
            "container vllm exited with code 1: no chips",
            "kubectl logs pod/server-0 -c vllm --previous",
        ),
        (
            pod([container({"reason": "CrashLoopBackOff"}, {"reason": "OOMKilled", "exitCode": 137})]),
            "container vllm exceeded its memory limit",
            "raise its memory limit",
        ),
        (pod([container()], NOT_READY), "running but not ready yet: the model is loading", ""),
        (pod([container({"reason": "ContainerCreating"})], NOT_READY), "starting (ContainerCreating)", ""),
        (pod(reason="Evicted", message="low on memory", phase="Failed"), "Evicted: low on memory", ""),
    ],
)
def test_pod_has_one_reason(seen: Object, expected: str, remedy: str) -> None:
    [cause] = explain([seen, seen], [], [])
    assert str(cause) == f"pod/server-0: {expected}"
    assert remedy in cause.hint


def test_probe_failure_is_the_reason() -> None:
    event = {"reason": "Unhealthy", "message": "Readiness probe failed: 503", "involvedObject": {"uid": "u"}}
    [cause] = explain([pod([container()], NOT_READY)], [], [event])
    assert cause.message == "Readiness probe failed: 503"


def test_missing_volume_is_the_reason() -> None:
    words = 'MountVolume.SetUp failed for volume "secret-keys" : secret "keys" not found'
    event = {"reason": "FailedMount", "message": words, "involvedObject": {"kind": "Pod", "name": "server-0", "uid": "u"}}
    [cause] = explain([pod([container({"reason": "ContainerCreating"})], NOT_READY)], [], [event])
    assert str(cause) == f"pod/server-0: {words}"
    [cause] = explain([pod([container()], NOT_READY)], [], [event])
    assert "the model is loading" in cause.message
    assert explain([], [], [event]) == []


def test_jobs_and_rejections_are_reasons() -> None:
    failed = {"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}
    job = {"metadata": {"name": "convert"}, "status": {"conditions": [failed]}}
    words = 'pods "a-" is forbidden: exceeded quota'
    event = {"reason": "FailedCreate", "message": words, "involvedObject": {"kind": "ReplicaSet", "name": "a-1"}}
    earlier = {**event, "message": 'pods "b-" is forbidden: exceeded quota'}
    first, second = explain([], [job], [earlier, event])
    assert str(first) == "job/convert: failed: Job has reached the specified backoff limit"
    assert str(second) == f"replicaset/a-1: {words}"


def test_permanent_reasons_come_first() -> None:
    loading, crashing = pod([container()], NOT_READY), pod([container({"reason": "ImagePullBackOff", "message": "not found"})])
    crashing["metadata"] = {"name": "server-1", "uid": "v"}
    refused = {"reason": "FailedCreate", "message": "no account", "involvedObject": {"kind": "ReplicaSet", "name": "other"}}
    reported = [cause.object for cause in explain([loading, crashing], [], [refused])]
    assert reported == ["pod/server-1", "replicaset/other", "pod/server-0"]
    since = {**refused, "involvedObject": {"kind": "ReplicaSet", "name": "server"}}
    assert [cause.object for cause in explain([loading], [], [since])] == ["pod/server-0", "replicaset/server"]


def test_hints_name_the_namespace() -> None:
    message = "error: there are no keys\nhint: give some\n"
    ended = pod([container({"reason": "CrashLoopBackOff"}, {"exitCode": 1, "message": message})])
    ended["metadata"]["namespace"] = "models"
    [cause] = explain([ended], [], [])
    assert cause.message == "container vllm exited with code 1: error: there are no keys"
    assert cause.hint == "kubectl logs pod/server-0 -n models -c vllm --previous"


def test_gateway_has_no_model_loading_reason() -> None:
    gateway = pod([container()], NOT_READY)
    gateway["metadata"]["labels"] = {"sliceworks.dev/gateway": "gateway"}
    [cause] = explain([gateway], [], [])
    assert cause.message == "running but not ready yet"


def test_terminating_or_finished_pod_is_not_a_reason() -> None:
    running = pod([container({"reason": "CrashLoopBackOff"}, {"exitCode": 1})])
    running["metadata"]["deletionTimestamp"] = "2026-11-15T10:00:00Z"
    assert explain([running, pod(phase="Succeeded")], [], []) == []
