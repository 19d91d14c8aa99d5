"""Why a service is not ready, from objects as they were read."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.serving.why import explain

Object = dict[str, Any]


def pod(containers: list[Object] | None = None, conditions: list[Object] | None = None, **more: Any) -> Object:
    status = {"phase": "Pending", "containerStatuses": containers or [], "conditions": conditions or [], **more}
    spec = {"nodeSelector": {"cloud.google.com/gke-tpu-topology": "2x4"}}
    return {"metadata": {"name": "server-0", "uid": "u"}, "spec": spec, "status": status}


def container(waiting: Object | None = None, last: Object | None = None) -> Object:
    state = {"waiting": waiting} if waiting else {"running": {}}
    return {"name": "vllm", "image": "vllm:1", "state": state, **({"lastState": {"terminated": last}} if last else {})}


NOT_READY = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]


@pytest.mark.parametrize(
    ("seen", "told", "remedy"),
    [
        (
            pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]),
            "no node takes it: 0/3 nodes are available",
            "is there a free node pool of 2x4?",
        ),
        (
            pod([container({"reason": "ImagePullBackOff", "message": "not found"})]),
            "the image vllm:1 cannot be pulled: not found",
            "read the registry",
        ),
        (
            pod([container({"reason": "CreateContainerConfigError", "message": 'secret "hugging-face" not found'})]),
            'container vllm cannot start: secret "hugging-face" not found',
            "is the Secret or ConfigMap there?",
        ),
        (
            pod([container({"reason": "CrashLoopBackOff"}, {"reason": "Error", "exitCode": 2})]),
            "container vllm ended with exit code 2",
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
            "container vllm ended with exit code 1: no chips",
            "kubectl logs pod/server-0 -c vllm --previous",
        ),
        (
            pod([container({"reason": "CrashLoopBackOff"}, {"reason": "OOMKilled", "exitCode": 137})]),
            "container vllm needs more memory than it may have",
            "spec.memory",
        ),
        (pod([container()], NOT_READY), "its server runs and does not answer yet: the model is loading", ""),
        (pod([container({"reason": "ContainerCreating"})], NOT_READY), "it is starting (ContainerCreating)", ""),
        (pod(reason="Evicted", message="low on memory", phase="Failed"), "Evicted: low on memory", ""),
    ],
)
def test_a_pod_has_one_reason(seen: Object, told: str, remedy: str) -> None:
    [cause] = explain([seen, seen], [], [])
    assert str(cause) == f"pod/server-0: {told}"
    assert remedy in cause.remedy


def test_what_a_probe_was_told_is_the_reason() -> None:
    event = {"reason": "Unhealthy", "message": "Readiness probe failed: 503", "involvedObject": {"uid": "u"}}
    [cause] = explain([pod([container()], NOT_READY)], [], [event])
    assert cause.words == "Readiness probe failed: 503"


def test_a_volume_that_is_not_there_is_the_reason_as_long_as_it_is_waited_for() -> None:
    words = 'MountVolume.SetUp failed for volume "secret-keys" : secret "keys" not found'
    event = {"reason": "FailedMount", "message": words, "involvedObject": {"kind": "Pod", "name": "server-0", "uid": "u"}}
    [cause] = explain([pod([container({"reason": "ContainerCreating"})], NOT_READY)], [], [event])
    assert str(cause) == f"pod/server-0: {words}"
    [cause] = explain([pod([container()], NOT_READY)], [], [event])
    assert "the model is loading" in cause.words
    assert explain([], [], [event]) == []


def test_jobs_and_refusals_are_told_too() -> None:
    failed = {"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}
    job = {"metadata": {"name": "convert"}, "status": {"conditions": [failed]}}
    words = 'pods "a-" is forbidden: exceeded quota'
    event = {"reason": "FailedCreate", "message": words, "involvedObject": {"kind": "ReplicaSet", "name": "a-1"}}
    earlier = {**event, "message": 'pods "b-" is forbidden: exceeded quota'}
    first, second = explain([], [job], [earlier, event])
    assert str(first) == "job/convert: it failed: Job has reached the specified backoff limit"
    assert str(second) == f"replicaset/a-1: {words}"


def test_what_needs_time_comes_after_what_does_not_mend_itself() -> None:
    loading, crashing = pod([container()], NOT_READY), pod([container({"reason": "ImagePullBackOff", "message": "not found"})])
    crashing["metadata"] = {"name": "server-1", "uid": "v"}
    refused = {"reason": "FailedCreate", "message": "no account", "involvedObject": {"kind": "ReplicaSet", "name": "other"}}
    told = [cause.object for cause in explain([loading, crashing], [], [refused])]
    assert told == ["pod/server-1", "replicaset/other", "pod/server-0"]
    since = {**refused, "involvedObject": {"kind": "ReplicaSet", "name": "server"}}
    assert [cause.object for cause in explain([loading], [], [since])] == ["pod/server-0", "replicaset/server"]


def test_commands_name_the_namespace_and_last_words_are_no_hints() -> None:
    message = "error: there are no keys\nhint: give some\n"
    ended = pod([container({"reason": "CrashLoopBackOff"}, {"exitCode": 1, "message": message})])
    ended["metadata"]["namespace"] = "models"
    [cause] = explain([ended], [], [])
    assert cause.words == "container vllm ended with exit code 1: error: there are no keys"
    assert cause.remedy == "kubectl logs pod/server-0 -n models -c vllm --previous"


def test_a_gateway_loads_no_model() -> None:
    gateway = pod([container()], NOT_READY)
    gateway["metadata"]["labels"] = {"sliceworks.dev/gateway": "gateway"}
    [cause] = explain([gateway], [], [])
    assert cause.words == "it runs and does not answer yet"


def test_a_pod_that_goes_or_is_done_is_no_reason() -> None:
    going = pod([container({"reason": "CrashLoopBackOff"}, {"exitCode": 1})])
    going["metadata"]["deletionTimestamp"] = "2026-11-15T10:00:00Z"
    assert explain([going, pod(phase="Succeeded")], [], []) == []
